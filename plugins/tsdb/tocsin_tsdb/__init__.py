"""The embedded time-series store: a sidecar process, its API on the service's port, and the writer that feeds it."""

from tocsin.plugin import Command, Feature, Sidecar, WriterType, hookimpl


@hookimpl
def tocsin_sidecars() -> list[Sidecar]:
    """The process of the store."""
    from tocsin_tsdb.sidecar import StoreSidecar

    return [StoreSidecar()]


@hookimpl
def tocsin_features() -> list[Feature]:
    """The routes below `/prometheus/api/v1`."""
    from tocsin_tsdb.relay import StoreFeature

    return [StoreFeature()]


@hookimpl
def tocsin_writers() -> list[WriterType]:
    """The writer that feeds the store."""
    from tocsin_tsdb.writer import EmbeddedWriterType

    return [EmbeddedWriterType()]


@hookimpl
def tocsin_commands() -> list[Command]:
    """`tocsin tsdb import|export|verify|stats`."""
    from tocsin_tsdb.commands import TsdbCommand

    return [TsdbCommand()]
