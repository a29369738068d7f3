"""Settings of events."""

from __future__ import annotations

from tocsin.plugin import at_least, key, section


@section("Center")
class EventSettings:
    """How long the center keeps what has happened."""

    history_days: int = key(
        "CleanAlertHisEventDay", 0, "days to keep historical events; 0 keeps them for ever", check=at_least(0)
    )
