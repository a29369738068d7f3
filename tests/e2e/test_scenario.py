"""The whole way: a real Prometheus writes, a rule fires, a webhook hears of it, whatever dies in between."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from tocsin.plugin.testkit.components import HttpSink, Prometheus
from tocsin.plugin.testkit.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = """
[Alert]
EngineDelay = 0
[EmbeddedTSDB]
Enable = true
"""


class Story:
    """A deployment that watches a target through a Prometheus, and what came out of it."""

    def __init__(self, service: Deployment, sink: HttpSink) -> None:
        self.service = service
        self.sink = sink
        self.datasource = int(service.api("POST", "/datasource/list", {})[0]["id"])

    def query(self, expression: str) -> list[Any]:
        """Return the series that the page API answers for an instant query."""
        queries = [{"time": int(time.time()), "query": expression}]
        body = {"datasource_id": self.datasource, "queries": queries}
        return list(self.service.api("POST", "/query-instant-batch", body)[0])

    def watch(self, expression: str) -> None:
        """Create a notification rule that calls back, and an alert rule that uses it."""
        channels = self.service.api("GET", "/notify-channel-configs")
        channel = next(c["id"] for c in channels if c["ident"] == "callback")
        templates = self.service.api("GET", "/message-templates?notify_channel_ident=callback")
        route = {
            "channel_id": channel,
            "template_id": templates[0]["id"],
            "params": {"callback_url": f"{self.sink.url}/hook"},
            "severities": [1, 2, 3],
        }
        rule = {"name": "call back", "enable": True, "user_group_ids": [1], "notify_configs": [route]}
        created = self.service.api("POST", "/notify-rules", [rule])
        alert = {
            "name": "shop is down",
            "cate": "prometheus",
            "datasource_queries": [{"match_type": 0, "op": "in", "values": [self.datasource]}],
            "rule_config": {"queries": [{"prom_ql": expression, "severity": 1}]},
            "cron_pattern": "@every 2s",
            "prom_for_duration": 2,
            "notify_recovered": 1,
            "notify_version": 1,
            "notify_rule_ids": [created[0]["id"]],
        }
        assert self.service.api("POST", "/busi-group/1/alert-rules", [alert]) == {"shop is down": ""}

    def calls(self) -> list[Any]:
        """Return the events that the webhook was told, in order."""
        return [event for request in self.sink.requests for event in json.loads(request.body)]

    def active(self) -> list[Any]:
        return list(self.service.api("GET", "/alert-cur-events/list")["list"])

    def history(self) -> list[Any]:
        return list(self.service.api("GET", "/alert-his-events/list?hours=1")["list"])


@pytest.fixture
def story(make_deployment: Callable[..., Deployment], http_sink: HttpSink) -> Story:
    return Story(make_deployment(SETTINGS), http_sink)


def writing_to(service: Deployment) -> dict[str, Any]:
    return {
        "url": f"{service.url}/rw/v1/write",
        "queue_config": {"batch_send_deadline": "500ms", "max_backoff": "500ms"},
    }


@pytest.mark.parametrize("victims", [(), ("worker", "http", "engine", "sidecar tsdb", "launcher", "guard")])
def test_from_sample_to_notification_while_everything_dies_once(
    story: Story, start_prometheus: Callable[..., Prometheus], victims: tuple[str, ...]
) -> None:
    service = story.service
    shop = start_prometheus()
    shop.stop()
    address = shop.url.removeprefix("http://")
    start_prometheus(scrape={"shop": [address]}, remote_write=[writing_to(service)])
    service.until(lambda: bool(story.query('up{job="shop"}')), "the series answer PromQL")
    assert story.query('up{job="shop"}')[0]["metric"]["instance"] == address

    story.watch('up{job="shop"} == 0')
    service.until(lambda: len(story.calls()) == 1, "the webhook is called")
    (event,) = story.calls()
    assert (event["rule_name"], event["severity"], event["is_recovered"]) == ("shop is down", 1, False)
    assert f"instance={address}" in event["tags"]
    (active,) = story.active()
    assert active["rule_name"] == "shop is down"

    for name in victims:
        before = story.query('count_over_time(up{job="prometheus"}[10m])')
        service.kill(name)
        service.until(lambda: service.serves() and bool(story.query('up{job="shop"}')), f"healed after {name}")
        service.until(
            lambda before=before: samples(story) > float(before[0]["value"][1]),  # type: ignore[misc]
            f"samples arrive again after {name}",
        )
        assert [e["id"] for e in story.active()] == [active["id"]]

    shop.start()
    service.until(lambda: any(event["is_recovered"] for event in story.history()), "the recovery is history")
    service.until(lambda: len(story.calls()) >= 2, "the webhook hears of the recovery")
    assert story.active() == []
    assert [call["is_recovered"] for call in story.calls()] == [False, True]
    assert sorted((event["rule_name"], event["is_recovered"]) for event in story.history()) == [
        ("shop is down", 0),
        ("shop is down", 1),
    ]
    for pid in service.processes()["launcher"]:
        service.terminate(pid)


def samples(story: Story) -> float:
    found = story.query('count_over_time(up{job="prometheus"}[10m])')
    return float(found[0]["value"][1]) if found else 0.0
