"""The public plugin API of Tocsin: what a plugin may import of the service, and nothing else.

Begin with :mod:`tocsin.plugin.hookspecs`, the page of hooks; then read the base class of your kind.  ``tocsin plugin new
KIND NAME`` writes a complete distribution to start from, :mod:`tocsin.plugin.testkit` has the contract tests to subclass.
"""

import pluggy

from tocsin.app.sections import HttpSettings
from tocsin.app.settings import SettingsError, at_least, key, one_of, section
from tocsin.http.access import (
    ADMIN,
    AGENT,
    ANONYMOUS,
    LOCAL,
    LOGIN,
    SERVICE,
    Access,
    Caller,
    group_read,
    group_write,
    perm,
    team_write,
)
from tocsin.http.context import Context, Raw, parse_bool, text
from tocsin.http.errors import ApiError, conflict, forbidden, invalid, not_found, unauthorized
from tocsin.http.routes import Body, Route, page, root, service
from tocsin.plugin._datasource import (
    Datasource,
    DatasourceConfig,
    DatasourceRegistry,
    DatasourceType,
    LogPage,
    LogQuery,
    MetadataQuery,
    MetricQuery,
    Series,
    number_text,
)
from tocsin.plugin._errors import (
    DatasourceError,
    DecodeError,
    HttpError,
    LoginError,
    PluginCallError,
    ProcessorError,
    RenderError,
    SendError,
    WriteError,
)
from tocsin.plugin._feature import CENTER, EVERY_PROCESS, Command, Feature, Job, Sidecar
from tocsin.plugin._http import HttpAnswer, HttpClient, HttpOptions, HttpStream, TlsOptions, check_url
from tocsin.plugin._ingest import (
    Batch,
    Decoded,
    IngestProtocol,
    IngestRequest,
    IngestRoute,
    Writer,
    WriterContext,
    WriteResult,
    WriterType,
)
from tocsin.plugin._labels import LabelSets, encode_texts, metric_name, tag_name
from tocsin.plugin._notify import (
    ChannelSeed,
    ChannelType,
    Delivery,
    EventProcessor,
    Receipt,
    SendPlan,
    StepContext,
    TemplateSeed,
    json_escaped,
)
from tocsin.plugin._people import People
from tocsin.plugin._points import PointDecoder, expect, parse_json
from tocsin.plugin._sso import SsoIdentity, SsoProvider
from tocsin.plugin._toolset import ApiCall, Tool, Toolset
from tocsin.plugin._wire import (
    GZIP,
    ZLIB,
    DecodedSeries,
    DecompressError,
    TooLargeError,
    WireError,
    decode_chunk,
    decode_v2,
    encode_labels,
    encode_series,
    inflate,
    snappy,
    tally,
)
from tocsin.store.database import Table
from tocsin.store.migrations import Migration, Migrator, create

API_VERSION = 1
"""Number of this API; a plugin module may state the number it needs as ``TOCSIN_API = 1``."""

hookimpl = pluggy.HookimplMarker("tocsin")
"""Marks the functions of a plugin module that implement hooks."""

__all__ = [
    "ADMIN",
    "AGENT",
    "ANONYMOUS",
    "API_VERSION",
    "CENTER",
    "EVERY_PROCESS",
    "GZIP",
    "LOCAL",
    "LOGIN",
    "SERVICE",
    "ZLIB",
    "Access",
    "ApiCall",
    "ApiError",
    "Batch",
    "Body",
    "Caller",
    "ChannelSeed",
    "ChannelType",
    "Command",
    "Context",
    "Datasource",
    "DatasourceConfig",
    "DatasourceError",
    "DatasourceRegistry",
    "DatasourceType",
    "DecodeError",
    "Decoded",
    "DecodedSeries",
    "DecompressError",
    "Delivery",
    "EventProcessor",
    "Feature",
    "HttpAnswer",
    "HttpClient",
    "HttpError",
    "HttpOptions",
    "HttpSettings",
    "HttpStream",
    "IngestProtocol",
    "IngestRequest",
    "IngestRoute",
    "Job",
    "LabelSets",
    "LogPage",
    "LogQuery",
    "LoginError",
    "MetadataQuery",
    "MetricQuery",
    "Migration",
    "Migrator",
    "People",
    "PluginCallError",
    "PointDecoder",
    "ProcessorError",
    "Raw",
    "Receipt",
    "RenderError",
    "Route",
    "SendError",
    "SendPlan",
    "Series",
    "SettingsError",
    "Sidecar",
    "SsoIdentity",
    "SsoProvider",
    "StepContext",
    "Table",
    "TemplateSeed",
    "TlsOptions",
    "TooLargeError",
    "Tool",
    "Toolset",
    "WireError",
    "WriteError",
    "WriteResult",
    "Writer",
    "WriterContext",
    "WriterType",
    "at_least",
    "check_url",
    "conflict",
    "create",
    "decode_chunk",
    "decode_v2",
    "encode_labels",
    "encode_series",
    "encode_texts",
    "expect",
    "forbidden",
    "group_read",
    "group_write",
    "hookimpl",
    "inflate",
    "invalid",
    "json_escaped",
    "key",
    "metric_name",
    "not_found",
    "number_text",
    "one_of",
    "page",
    "parse_bool",
    "parse_json",
    "perm",
    "root",
    "section",
    "service",
    "snappy",
    "tag_name",
    "tally",
    "team_write",
    "text",
    "unauthorized",
]
