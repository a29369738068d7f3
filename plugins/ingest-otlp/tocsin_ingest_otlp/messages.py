"""The protobuf messages of an OTLP metrics request, with the fields that become series; others are skipped.

Field numbers and types are facts of the published protocol definition.  There are two forms of every message: *raw*, in which
attributes stay bytes, so that a label set that is known is recognised without taking it apart; and *typed*, for JSON.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Field = tuple[str, int, str]
"""Name, number and type; ``*`` in front of a type means repeated, ``|name`` behind it the oneof it belongs to."""

_POINT: tuple[Field, ...] = (("time_unix_nano", 3, "fixed64"),)
SCHEMA: dict[str, tuple[Field, ...]] = {
    "Request": (("resource_metrics", 1, "*ResourceMetrics"),),
    "ResourceMetrics": (("resource", 1, "Resource"), ("scope_metrics", 2, "*ScopeMetrics")),
    "Resource": (("attributes", 1, "*KeyValue"),),
    "ScopeMetrics": (("metrics", 2, "*Metric"),),
    "Metric": (
        ("name", 1, "string"),
        ("description", 2, "string"),
        ("unit", 3, "string"),
        ("gauge", 5, "Gauge|data"),
        ("sum", 7, "Sum|data"),
        ("histogram", 9, "Histogram|data"),
        ("exponential_histogram", 10, "Exponential|data"),
        ("summary", 11, "Summary|data"),
    ),
    "Gauge": (("data_points", 1, "*Number"),),
    "Sum": (
        ("data_points", 1, "*Number"),
        ("aggregation_temporality", 2, "int32"),
        ("is_monotonic", 3, "bool"),
    ),
    "Histogram": (("data_points", 1, "*Buckets"), ("aggregation_temporality", 2, "int32")),
    "Exponential": (("data_points", 1, "*Empty"),),
    "Summary": (("data_points", 1, "*Quantiles"),),
    "Empty": (),
    "Number": (
        *_POINT,
        ("attributes", 7, "*KeyValue"),
        ("as_double", 4, "double|value"),
        ("as_int", 6, "sfixed64|value"),
        ("flags", 8, "uint32"),
    ),
    "Buckets": (
        *_POINT,
        ("attributes", 9, "*KeyValue"),
        ("count", 4, "fixed64"),
        ("sum", 5, "double|optional_sum"),
        ("bucket_counts", 6, "*fixed64"),
        ("explicit_bounds", 7, "*double"),
        ("flags", 10, "uint32"),
    ),
    "Quantiles": (
        *_POINT,
        ("attributes", 7, "*KeyValue"),
        ("count", 4, "fixed64"),
        ("sum", 5, "double"),
        ("quantile_values", 6, "*Quantile"),
        ("flags", 8, "uint32"),
    ),
    "Quantile": (("quantile", 1, "double"), ("value", 2, "double")),
    "KeyValue": (("key", 1, "string"), ("value", 2, "AnyValue")),
    "AnyValue": (
        ("string_value", 1, "string|value"),
        ("bool_value", 2, "bool|value"),
        ("int_value", 3, "int64|value"),
        ("double_value", 4, "double|value"),
        ("array_value", 5, "ArrayValue|value"),
        ("kvlist_value", 6, "KeyValueList|value"),
        ("bytes_value", 7, "bytes|value"),
    ),
    "ArrayValue": (("values", 1, "*AnyValue"),),
    "KeyValueList": (("values", 1, "*KeyValue"),),
    "Response": (("partial_success", 1, "PartialSuccess"),),
    "PartialSuccess": (("rejected_data_points", 1, "int64"), ("error_message", 2, "string")),
    "Metadata": (
        ("type", 1, "int32"),
        ("metric_family_name", 2, "string"),
        ("help", 4, "string"),
        ("unit", 5, "string"),
    ),
}
"""Request and response of the protocol, and the metadata message of remote write."""

_HOLDERS = ("Resource", "Number", "Buckets", "Quantiles")
"""Messages whose attributes are bytes in the raw form."""


class Messages(NamedTuple):
    """Message classes."""

    request: Any
    typed_request: Any
    key_value: Any
    response: Any
    metadata: Any


@cache
def messages() -> Messages:
    """Return the message classes; they are made once per process."""
    raw, typed = _classes("raw"), _classes("typed")
    return Messages(raw["Request"], typed["Request"], typed["KeyValue"], typed["Response"], typed["Metadata"])


def _classes(form: str) -> dict[str, Any]:
    """Make the classes of one form in a pool of their own."""
    package = f"tocsin.otlp.{form}"
    file = descriptor_pb2.FileDescriptorProto(name=f"{form}.proto", package=package, syntax="proto3")
    for name, fields in SCHEMA.items():
        message = file.message_type.add(name=name)
        oneofs: dict[str, int] = {}
        for field_name, number, kind in fields:
            if form == "raw" and field_name == "attributes" and name in _HOLDERS:
                kind = "*bytes"
            _add_field(message, field_name, number, kind, package, oneofs)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in SCHEMA}


def _add_field(message: Any, name: str, number: int, kind: str, package: str, oneofs: dict[str, int]) -> None:
    """Add one row of the schema to a message's descriptor."""
    kinds = descriptor_pb2.FieldDescriptorProto
    kind, _, oneof = kind.partition("|")
    base = kind.lstrip("*")
    field = message.field.add(name=name, number=number)
    field.label = kinds.LABEL_REPEATED if kind.startswith("*") else kinds.LABEL_OPTIONAL
    if base in SCHEMA:
        field.type, field.type_name = kinds.TYPE_MESSAGE, f".{package}.{base}"
    else:
        field.type = kinds.Type.Value(f"TYPE_{base.upper()}")
    if oneof:
        if oneof not in oneofs:
            oneofs[oneof] = len(oneofs)
            message.oneof_decl.add(name=oneof)
        field.oneof_index = oneofs[oneof]
