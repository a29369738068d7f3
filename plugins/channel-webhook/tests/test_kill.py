"""A real engine process that is killed while a receiver has not answered yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tocsin.plugin.testkit.alerts import alerts_in
from tocsin.plugin.testkit.components import Answer, Hang, HttpSink
from tocsin.plugin.testkit.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def fire(service: Deployment, rule: int, key: str) -> int:
    """Write an event to be notified as an engine does, from outside the running service; return its id."""
    with alerts_in(service.data_directory) as alerts:
        event = alerts.fire(hash=key, rule_name="CPU", severity=1, notify_rule_ids=[rule], notify_recovered=1)
    return int(event["id"])


def statuses(service: Deployment, event: int) -> list[int]:
    found: dict[str, Any] = service.api("GET", f"/event-notify-records/{event}")["notifies"]
    return [record["status"] for records in found.values() for record in records]


def killed_engine(service: Deployment) -> None:
    pid = service.kill("engine")
    service.until(lambda: service.processes().get("engine", []) not in ([], [pid]), "the engine is back")


def test_a_killed_engine_sends_what_it_had_not_finished_and_nothing_else(
    make_deployment: Callable[..., Deployment], http_sink: HttpSink
) -> None:
    service = make_deployment()
    callback = next(c for c in service.api("GET", "/notify-channel-configs") if c["ident"] == "callback")
    template = service.api("GET", "/message-templates?notify_channel_idents=callback")[0]["id"]
    params = {"callback_url": http_sink.url}
    route = {"channel_id": callback["id"], "template_id": template, "params": params}
    rule = service.api("POST", "/notify-rules", [{"name": "R", "enable": True, "notify_configs": [route]}])[0]["id"]
    http_sink.then(Hang())
    http_sink.default = Answer(204)
    first = fire(service, rule, "first")
    http_sink.wait_for(1)
    assert statuses(service, first) == []
    killed_engine(service)
    http_sink.wait_for(2)
    service.until(lambda: statuses(service, first) == [1], "the first notification is recorded")
    killed_engine(service)
    second = fire(service, rule, "second")
    service.until(lambda: statuses(service, second) == [1], "the second notification is recorded")
    assert len(http_sink.requests) == 3
