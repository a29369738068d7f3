"""Settings of notification."""

from __future__ import annotations

from tocsin.plugin import at_least, key, section


@section("Alert.Alerting")
class SendSettings:
    """How notifications leave."""

    queue_size: int = key(
        "ChannelQueueSize", 100_000, "notifications that may wait for one channel; more are dropped and recorded",
        check=at_least(1),
    )  # fmt: skip
    max_concurrency: int = key(
        "MaxChannelConcurrency", 50, "sends at once through one channel, whatever its own setting", check=at_least(1)
    )
    max_timeout: float = key(
        "MaxSendTimeout", 60.0, "seconds one attempt may take, whatever the channel's own timeout", check=at_least(0.1)
    )
    max_overdue: int = key(
        "MaxOverdueSends", 20, "attempts past their time at one channel before it is given no more", check=at_least(1)
    )
