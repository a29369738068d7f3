"""Settings of the alert engine."""

from __future__ import annotations

from tocsin.plugin import at_least, key, section


@section("")
class HeartbeatSettings:
    """How this engine takes part in its cluster."""

    ip: str = key("IP", "", "address part of the instance name; empty finds it out")
    interval_ms: int = key("Interval", 1000, "milliseconds between heartbeats", check=at_least(100))
    engine_name: str = key(
        "EngineName",
        "",
        "the engine cluster; it evaluates datasources bound to this name; empty means default in a center",
    )

    def cluster(self, process: str) -> str:
        """Return the engine cluster of a process kind: as configured, else ``default`` in a center and none elsewhere."""
        return self.engine_name or ("default" if process == "center" else "")


@section("Alert")
class AlertSettings:
    """Evaluation of alert rules."""

    engine_delay: int = key("EngineDelay", 30, "seconds after start before the first evaluation", check=at_least(0))
    query_concurrency: int = key("QueryConcurrency", 4, "queries at once to one datasource", check=at_least(1))
    query_timeout: float = key("QueryTimeout", 30.0, "seconds a query of a rule may take", check=at_least(0.1))
    unknown_after: int = key(
        "UnknownAfter", 0, "seconds a rule cannot be evaluated before that is an event of its own; 0 for never",
        check=at_least(0),
    )  # fmt: skip
    heartbeat: HeartbeatSettings = key("Heartbeat", HeartbeatSettings, "")
