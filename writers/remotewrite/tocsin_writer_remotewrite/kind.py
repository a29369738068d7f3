"""What the gateway knows of the type before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tocsin.plugin import HttpOptions, SettingsError, TlsOptions, Writer, WriterContext, WriterType
from tocsin_writer_remotewrite.settings import RemoteWriteSettings

KEY = "Pushgw.Writers"


class RemoteWriteType(WriterType):
    """Writes snappy-compressed protobuf over HTTP."""

    name = "remotewrite"
    config_key = "Writers"
    settings = RemoteWriteSettings

    def build(self, settings: Any, context: WriterContext) -> Writer:
        """Return a writer for one element; raise ``SettingsError`` for addresses, headers or files that cannot work."""
        from tocsin_writer_remotewrite.writer import RemoteWriter

        try:
            options = options_of(settings)
        except (ValueError, OSError) as error:
            raise SettingsError(f"{KEY}: {_named(error)}") from None
        return RemoteWriter(settings.url, options)


def options_of(settings: RemoteWriteSettings) -> HttpOptions:
    """Return the HTTP options of an element; raises ``ValueError`` or ``OSError``."""
    urls = tuple(part.strip() for part in settings.url.split(",") if part.strip())
    if not urls:
        raise ValueError("url is empty")
    per_host = settings.max_idle_per_host
    if settings.max_idle:
        per_host = min(per_host, max(1, settings.max_idle // len(urls)))
    return HttpOptions(
        urls=urls,
        timeout=settings.timeout / 1000,
        dial_timeout=settings.dial_timeout / 1000,
        handshake_timeout=settings.handshake_timeout / 1000,
        idle_timeout=settings.idle_timeout / 1000,
        keep_alive=settings.keep_alive / 1000,
        max_idle=per_host,
        max_connections=settings.max_connections,
        headers=dict(zip(settings.headers[::2], settings.headers[1::2], strict=True)),
        username=settings.user,
        password=settings.password if settings.user else "",
        tls=_tls(settings) if settings.use_tls else TlsOptions(),
    )


def _tls(settings: RemoteWriteSettings) -> TlsOptions:
    options = TlsOptions(
        verify=not settings.skip_verify,
        ca=_file("TLSCA", settings.tls_ca),
        cert=_file("TLSCert", settings.tls_cert),
        key=_file("TLSKey", settings.tls_key),
        key_password=settings.tls_key_password,
        server_name=settings.server_name,
        min_version=settings.min_version,
        max_version=settings.max_version,
    )
    options.context()
    return options


def _file(key: str, name: str) -> str:
    if not name:
        return ""
    try:
        return Path(name).read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not PEM"
        raise ValueError(f"{key}: file {name!r} cannot be read: {reason}") from None


def _named(error: Exception) -> str:
    """Return an error about an HTTP option under the names of this section."""
    text = str(error)
    for ours, theirs in (
        ("Url", "url"),
        ("Headers", "headers"),
        ("TLSCA", "tls.ca_cert"),
        ("TLSCert, TLSKey", "tls.client_cert, tls.client_key"),
    ):
        if text.startswith(theirs):
            return ours + text[len(theirs) :]
    return text
