"""An alert process and a gateway beside a center: one database, one ring, one set of labels."""

from __future__ import annotations

import base64
import json
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import cramjam
import pytest

from tocsin.alerting.ring import Ring
from tocsin.ingest.decode import decode_chunk
from tocsin.ingest.wire import wire
from tocsin.plugin.testkit.components import Answer, DatabaseServer, HttpSink, Request
from tocsin.plugin.testkit.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
Make = Callable[..., Deployment]

ENGINE = """
[Alert]
EngineDelay = 0
[Alert.Heartbeat]
IP = "127.0.0.1"
EngineName = "default"
"""


class Shop:
    """A Prometheus that knows one series, which is there as long as the shop is down."""

    def __init__(self) -> None:
        self.down = True
        self.server = HttpSink(self._answer)

    def _answer(self, request: Request) -> Answer:
        series = [{"metric": {"shop": "bakery"}, "value": [time.time(), "1"]}] if self.down else []
        body = {"status": "success", "data": {"resultType": "vector", "result": series}}
        return Answer(body=json.dumps(body).encode(), headers={"Content-Type": "application/json"})


@pytest.fixture
def shop() -> Iterator[Shop]:
    found = Shop()
    with found.server:
        yield found


class Watch:
    """Rules on the shop, and what people are told of them."""

    def __init__(self, center: Deployment, shop: Shop, sink: HttpSink) -> None:
        self._center, self._sink = center, sink
        source = {"name": "shop", "plugin_type": "prometheus", "http": {"url": shop.server.url}, "status": "enabled"}
        self.source = int(center.api("POST", "/datasource/upsert", source)["id"])
        channels = center.api("GET", "/notify-channel-configs")
        templates = center.api("GET", "/message-templates?notify_channel_ident=callback")
        route = {
            "channel_id": next(channel["id"] for channel in channels if channel["ident"] == "callback"),
            "template_id": templates[0]["id"],
            "params": {"callback_url": f"{sink.url}/hook"},
        }
        rule = {"name": "call back", "enable": True, "user_group_ids": [1], "notify_configs": [route]}
        self._notify = center.api("POST", "/notify-rules", [rule])[0]["id"]

    def add(self, name: str) -> int:
        """Create a rule that fires while the shop is down and return its id."""
        rule = {
            "name": name,
            "cate": "prometheus",
            "datasource_queries": [{"match_type": 0, "op": "in", "values": [self.source]}],
            "rule_config": {"queries": [{"prom_ql": f'shop_down{{rule="{name}"}} == 1', "severity": 1}]},
            "cron_pattern": "@every 1s",
            "notify_recovered": 1,
            "notify_version": 1,
            "notify_rule_ids": [self._notify],
        }
        assert self._center.api("POST", "/busi-group/1/alert-rules", [rule]) == {name: ""}
        rules = self._center.api("GET", "/busi-group/1/alert-rules")
        return next(int(rule["id"]) for rule in rules if rule["name"] == name)

    def told(self) -> dict[int, list[bool]]:
        """Return, per rule, the notifications that arrived, in order; true ones tell a recovery."""
        found: dict[int, list[bool]] = defaultdict(list)
        for request in self._sink.requests:
            for event in json.loads(request.body):
                found[event["rule_id"]].append(event["is_recovered"])
        return dict(found)


def produced(engine: Deployment, kind: str) -> float:
    """Return how many events of a kind an engine has produced."""
    lines = engine.request("GET", "/metrics").data.decode().splitlines()
    wanted = (line for line in lines if line.startswith("svc_alert_alerts_total") and f'type="{kind}"' in line)
    return sum(float(line.rsplit(" ", 1)[1]) for line in wanted)


def alive(center: Deployment) -> set[str]:
    """Return the engines that the center lists."""
    return {row["instance"] for row in center.api("GET", "/servers")}


def shared_since(center: Deployment, source: int, names: set[str]) -> bool:
    """Return whether every engine has read the others' rows for a datasource: it does so when it beats."""
    rows = [row for row in center.api("GET", "/servers") if row["datasource_id"] == source]
    if {row["instance"] for row in rows} != names:
        return False
    present = max(row["clock"] for row in rows)

    def all_beat_again() -> bool:
        rows = [row for row in center.api("GET", "/servers") if row["datasource_id"] == source]
        return len(rows) == len(names) and all(row["clock"] > present for row in rows)

    center.until(all_beat_again, "every engine beats again")
    return True


def test_engines_share_the_rules_and_the_living_one_takes_over(
    make_deployment: Make, shop: Shop, http_sink: HttpSink
) -> None:
    center = make_deployment(ENGINE)
    engine = make_deployment(ENGINE, process="alert", beside=center)
    watch = Watch(center, shop, http_sink)
    names = {f"127.0.0.1:{each.port}" for each in (center, engine)}
    center.until(lambda: shared_since(center, watch.source, names), "each knows that both have the datasource")
    source_ring = Ring(names)
    owners: Counter[str | None] = Counter()
    rules: list[int] = []
    while len(owners) < 2:  # a fair ring gives each its share; this ends soon
        rules.append(watch.add(f"rule {len(rules)}"))
        owners[source_ring.owner(rules[-1])] += 1

    once = {rule: [False] for rule in rules}
    center.until(lambda: watch.told().keys() == once.keys(), "every rule is notified")
    assert produced(center, "alert") == owners[f"127.0.0.1:{center.port}"]
    assert produced(engine, "alert") == owners[f"127.0.0.1:{engine.port}"]

    engine.process.kill()
    killed, evaluations = time.monotonic(), center.metric("svc_alert_rule_eval_total")
    shop.down = False
    recovered = {rule: [False, True] for rule in rules}
    center.until(lambda: watch.told() == recovered, "every rule has recovered")
    assert time.monotonic() - killed > 2, "the dead engine's rules had to wait"
    assert center.metric("svc_alert_rule_eval_total") > evaluations
    assert produced(center, "recovery") == len(rules)
    assert alive(center) == {f"127.0.0.1:{center.port}"}

    shop.down = True
    again = {rule: [False, True, False] for rule in rules}
    center.until(lambda: watch.told() == again, "the center evaluates all of them")
    engine.start()
    center.until(lambda: alive(center) == names, "the engine is back")
    before = engine.metric("svc_alert_rule_eval_total")
    center.until(lambda: engine.metric("svc_alert_rule_eval_total") > before + 3, "it evaluates its rules again")
    assert watch.told() == again, "what was notified is not notified again by its next owner"
    assert produced(engine, "alert") == 0


def test_an_engine_goes_on_when_the_center_is_gone(make_deployment: Make, shop: Shop, http_sink: HttpSink) -> None:
    center = make_deployment(ENGINE)
    leave_it_to(make_deployment(ENGINE, process="alert", beside=center), center, Watch(center, shop, http_sink), shop)


def test_an_engine_on_another_machine_needs_the_database_and_the_key(
    make_deployment: Make, shop: Shop, http_sink: HttpSink, postgres_server: DatabaseServer
) -> None:
    database = f'[DB]\nDBType = "postgres"\nDSN = "{postgres_server.create_database().dsn}"\n'
    key = f'[Secrets]\nKey = "{base64.urlsafe_b64encode(bytes(32)).decode()}"\n'
    center = make_deployment(ENGINE + database + key)
    watch = Watch(center, shop, http_sink)
    with pytest.raises(RuntimeError, match=r"Secrets\.Key: got a key other than the center's"):
        make_deployment(ENGINE + database, process="alert")
    leave_it_to(make_deployment(ENGINE + database + key, process="alert"), center, watch, shop)


def leave_it_to(engine: Deployment, center: Deployment, watch: Watch, shop: Shop) -> None:
    """Let a rule fire, stop the center, and see the recovery told by the engine."""
    rule = watch.add("rule")
    center.until(lambda: watch.told() == {rule: [False]}, "the rule is notified")
    assert center.stop() == 0  # leaves the ring at once
    shop.down = False
    engine.until(lambda: watch.told() == {rule: [False, True]}, "the engine tells the recovery")
    assert engine.request("GET", "/api/svc/users").status == 404


def samples(sink: HttpSink) -> dict[str, dict[str, str]]:
    """Return the labels of the series that reached a backend, by their label ``n``."""
    found = {}
    for request in sink.requests:
        for series in decode_chunk(bytes(cramjam.snappy.decompress_raw(request.body))):
            labels = dict(series.labels)
            found[labels["n"]] = labels
    return found


def write(gateway: Deployment, number: str) -> None:
    """Send a series of the host ``web01``."""
    labels = wire.encode_labels([(b"__name__", b"up"), (b"ident", b"web01"), (b"n", number.encode())])
    series = wire.encode_series(labels, [int(time.time() * 1000)], [1.0])
    answer = gateway.request("POST", "/rw/v1/write", bytes(cramjam.snappy.compress_raw(series)))
    assert answer.status == 200, answer.data


def test_a_gateway_attaches_what_the_center_knows_of_a_host(make_deployment: Make, http_sink: HttpSink) -> None:
    center = make_deployment()
    writer = f'[[Pushgw.Writers]]\nUrl = "{http_sink.url}/write"\n'
    gateway = make_deployment(writer, process="pushgw", beside=center)
    assert "engine" not in gateway.processes()
    write(gateway, "before")

    beat = {"hostname": "web01", "global_labels": {"rack": "r7"}}

    def known() -> bool:
        assert gateway.request("POST", "/v1/svc/heartbeat", beat).status == 200
        hosts: list[Any] = center.api("GET", "/targets?query=web01")["list"]
        return bool(hosts) and hosts[0]["host_tags"] == ["rack=r7"]

    center.until(known, "the host that beat at the gateway is a target of the center")
    failed = center.api("POST", "/targets/tags", {"idents": ["web01"], "tags": ["env=prod"]})
    assert not failed
    write(gateway, "after")
    center.api("DELETE", "/targets/tags", {"idents": ["web01"], "tags": ["env=prod"]})
    write(gateway, "later")
    center.until(lambda: len(samples(http_sink)) == 3, "all series are forwarded")
    name = {"__name__": "up", "ident": "web01"}
    assert samples(http_sink) == {
        "before": {**name, "n": "before"},
        "after": {**name, "n": "after", "rack": "r7", "env": "prod"},
        "later": {**name, "n": "later", "rack": "r7"},
    }


def test_a_gateway_on_its_own_passes_series_as_they_are(make_deployment: Make, http_sink: HttpSink) -> None:
    gateway = make_deployment(f'[[Pushgw.Writers]]\nUrl = "{http_sink.url}/write"\n', process="pushgw")
    write(gateway, "1")
    gateway.until(lambda: bool(samples(http_sink)), "the series is forwarded")
    assert samples(http_sink) == {"1": {"__name__": "up", "ident": "web01", "n": "1"}}
    assert gateway.request("POST", "/v1/svc/heartbeat", {"hostname": "web01"}).status == 404
    assert "POST /v1/svc/heartbeat is not served" in gateway.process.log.read_text()

    make_deployment(beside=gateway)  # a center makes the database its own
    gateway.process.signal(signal.SIGHUP)
    gateway.until(
        lambda: gateway.request("POST", "/v1/svc/heartbeat", {"hostname": "web01"}).status == 200,
        "heartbeats are served",
    )
