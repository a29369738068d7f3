"""The writer type ``remotewrite``: backends configured by ``[[Pushgw.Writers]]``."""

from tocsin.plugin import WriterType, hookimpl
from tocsin_writer_remotewrite.kind import RemoteWriteType


@hookimpl
def tocsin_writers() -> list[WriterType]:
    """Return the one type of this plugin."""
    return [RemoteWriteType()]
