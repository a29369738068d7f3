"""A gateway that has no database in common with the center: heartbeats, hosts and labels go through the service API."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tocsin.app.settings import SettingsError
from tocsin.http.metrics import Metrics
from tocsin.ingest.hosts import Target
from tocsin.plugin.testkit import dat
from tocsin.plugin.testkit.components import Answer, Hang, HttpSink, Reset, free_port
from tocsin.store.snapshots import ReadLog
from tocsin.targets.center import SILENT_SECONDS, Center, CenterError
from tocsin.targets.mirror import Mirror
from tocsin.targets.settings import CenterApiSettings

SERVED = {"HTTP": {"APIForService": {"Enable": True, "BasicAuth": {"gateway": "secret"}}}}
BASIC = "Basic Z2F0ZXdheTpzZWNyZXQ="
NOTHING = Answer(200, b'{"dat": [], "err": ""}')
TAKEN = Answer(200, b'{"dat": {"new_version": "v2"}, "err": "", "request_id": "r"}')


@pytest.fixture
def center(make_world):
    """The center, far away."""
    return make_world(SERVED)


class Wire:
    """The center's service API, called in this process."""

    def __init__(self, world: Any) -> None:
        self._client = world.agent.with_headers(Authorization=BASIC)
        self.down = False

    def get(self, path: str, **query: str) -> Any:
        if self.down:
            raise CenterError("nobody there")
        return dat(self._client.get(path, query=query))


@pytest.fixture
def wire(center) -> Wire:
    return Wire(center)


@pytest.fixture
def make_mirror(wire: Wire, tmp_path: Path) -> Callable[[], Mirror]:
    return lambda: Mirror(wire, tmp_path / "hosts.json", ReadLog("targets"))  # type: ignore[arg-type]


@pytest.fixture
def sink(http_sink: HttpSink) -> HttpSink:
    http_sink.default = TAKEN
    return http_sink


@pytest.fixture
def gateway(make_world, sink: HttpSink):
    """A gateway whose center is a stand-in, which knows no hosts and takes everything."""
    sink.default = NOTHING
    world = make_world(
        {
            "CenterApi": {"Addrs": [sink.url], "BasicAuthUser": "gateway", "BasicAuthPass": "secret"},
            "Alert": {"Heartbeat": {"EngineName": "north"}},
        },
        process="pushgw",
    )
    sink.clear()
    sink.default = TAKEN
    return world


# --- heartbeats ---


@pytest.mark.parametrize("path", ["/v1/svc/heartbeat", "/v1/svc/edge/heartbeat"])
def test_a_heartbeat_is_completed_and_passed_on(gateway, sink: HttpSink, path: str) -> None:
    said = {"hostname": "web01", "unixtime": int(gateway.clock() * 1000) - 40, "cpu_num": 8, "extend_info": {"a": "b"}}
    claims = {"offset": 999_999, "remote_addr": "203.0.113.9", "engine_name": "mine", "unknown": 1}
    answer = gateway.agent.post(path + "?gid=1,2&overwrite_gids=true", {**said, **claims})
    assert (answer.status, answer.json()["err"], answer.json()["dat"]) == (200, "", {"new_version": "v2"})
    (request,) = sink.requests
    assert (request.method, request.path) == ("POST", "/v1/svc/center/heartbeat")
    assert request.query == {"gid": ["1,2"], "overwrite_gids": ["true"]}
    assert request.headers["authorization"] == BASIC
    sent = json.loads(request.body)
    assert {name: sent[name] for name in said} == said
    assert {name: sent.get(name) for name in claims} == {
        "offset": 40,
        "remote_addr": "127.0.0.1",
        "engine_name": "north",
        "unknown": None,
    }
    assert gateway.metric("svc_target_beats_total", source="forwarded") == 1
    assert gateway.metric("svc_poster_request_total", path="/v1/svc/center/heartbeat", code="200") == 1


@pytest.mark.parametrize(
    ("answer", "text", "code"),
    [
        (Answer(500, b"oops"), "HTTP 500: oops", "500"),
        (Answer(200, b'{"err": "no such group"}'), "HTTP 200: no such group", "200"),
        (Answer(200, b"<html>"), "HTTP 200: <html>", "200"),
        (Answer(200, b"[]"), "HTTP 200: []", "200"),
        (Answer(204), "HTTP 204: an empty answer", "204"),
    ],
)
def test_a_collector_is_told_that_no_center_took_its_heartbeat(
    gateway, sink: HttpSink, answer: Answer, text: str, code: str
) -> None:
    sink.default = answer
    told = gateway.agent.post("/v1/svc/heartbeat", {"hostname": "web01"})
    assert told.status == 503
    assert "failed to post data to center: " + text in told.text
    assert gateway.metric("svc_target_beats_refused_total", reason="unavailable") == 1
    assert gateway.metric("svc_poster_request_total", path="/v1/svc/center/heartbeat", code=code) == 1
    assert gateway.metric("svc_target_beats_total", source="forwarded") == 0


def test_what_is_no_heartbeat_stays_here(gateway, sink: HttpSink) -> None:
    assert gateway.agent.post("/v1/svc/heartbeat", {"hostname": ""}).status == 400
    assert gateway.agent.request("POST", "/v1/svc/heartbeat", body=b"{").status == 400
    assert not sink.requests


def test_hosts_that_were_seen_are_named_until_a_center_has_taken_them(gateway, sink: HttpSink) -> None:
    from tocsin.ingest.hosts import HostRegister

    sink.default = Answer(503)
    gateway.app.core.get(HostRegister).announce(["web01", "db01"])
    gateway.flush()
    sink.default = TAKEN
    sink.clear()
    gateway.flush()
    (request,) = sink.requests
    assert request.path == "/v1/svc/target-update"
    assert json.loads(request.body) == {"lst": ["web01", "db01"], "now": int(gateway.clock())}
    gateway.flush()
    assert len(sink.requests) == 1


def test_the_center_believes_its_gateways_and_nobody_else(center) -> None:
    """What a gateway says of a heartbeat's way is kept; a collector at the gateways' own address is not asked for it."""
    claims = {"offset": 5, "remote_addr": "203.0.113.9", "engine_name": "north"}
    center.known("near", "far")
    gateway = center.agent.with_headers(Authorization=BASIC)
    assert gateway.post("/v1/svc/center/heartbeat", {"hostname": "far", **claims}).status == 200
    assert center.agent.post("/v1/svc/center/heartbeat", {"hostname": "far", **claims}).status == 401
    assert center.agent.post("/v1/svc/edge/heartbeat", {"hostname": "near", **claims}).status == 200
    center.flush()
    hosts = center.hosts()
    assert {name: hosts["far"][name] for name in claims} == claims
    assert {name: hosts["near"][name] for name in claims} == {
        "offset": 0,
        "remote_addr": "127.0.0.1",
        "engine_name": "default",
    }


# --- calls ---


def test_any_address_will_do(sink: HttpSink) -> None:
    dead = [f"http://127.0.0.1:{free_port()}" for _ in range(2)]
    metrics = Metrics()
    center = Center(CenterApiSettings(addresses=[*dead, sink.url]), metrics)
    for _ in range(5):
        assert center.get("/v1/svc/targets", a="b c") == {"new_version": "v2"}
    assert [urlencode(request.query, doseq=True) for request in sink.requests] == ["a=b+c"] * 5
    count = metrics.registry.get_sample_value
    assert count("svc_poster_request_total", {"path": "/v1/svc/targets", "code": "200"}) == 5
    assert (count("svc_poster_request_total", {"path": "/v1/svc/targets", "code": "neterror"}) or 0) <= 10


def test_a_silent_address_is_the_last_resort(sink: HttpSink, clock) -> None:
    started = clock.now
    with HttpSink(lambda request: Hang()) as hanging:
        settings = CenterApiSettings(addresses=[hanging.url, sink.url], timeout=500)
        center = Center(settings, Metrics(), monotonic=clock)

        def asked(seconds: float) -> int:
            clock.now = started + seconds
            assert center.get("/v1/svc/targets") == {"new_version": "v2"}
            return len(hanging.requests)

        while not asked(0):
            pass
        assert [asked(1), asked(SILENT_SECONDS)] == [1, 1]
        assert asked(SILENT_SECONDS + 1) == 2  # once more, so that its return is noticed, and by one call only
        assert [asked(SILENT_SECONDS + 2), asked(2 * SILENT_SECONDS)] == [2, 2]
        hanging.default = TAKEN
        assert asked(3 * SILENT_SECONDS) == 3
        sink.default = Reset()
        assert [asked(3 * SILENT_SECONDS) for _ in range(20)] == list(range(4, 24))


def test_credentials_are_in_no_message(sink: HttpSink) -> None:
    sink.default = Answer(401, b"who is " + BASIC.encode())
    center = Center(CenterApiSettings(addresses=[sink.url], user="gateway", password="secret"), Metrics())
    with pytest.raises(CenterError) as caught:
        center.get("/v1/svc/targets")
    assert str(caught.value) == "HTTP 401: who is Basic ***"


@pytest.mark.parametrize("address", ["", "center:17000", "ftp://center"])
def test_an_address_that_cannot_work_stops_the_start(make_world, address: str) -> None:
    with pytest.raises(SettingsError, match=r"CenterApi\.Addrs: "):
        make_world({"CenterApi": {"Addrs": [address]}}, process="pushgw")


# --- labels ---


def test_labels_come_from_the_center(center, make_mirror: Callable[[], Mirror]) -> None:
    center.known("web01", "db01", "bare")
    center.bind(center.group("shop", label="shop"), "web01", tags=["role=web"])
    center.beat("db01", global_labels={"region": "north"})
    mirror = make_mirror()
    mirror.refresh()
    assert mirror.lookup("web01") == Target({b"role": b"web"}, b"shop")
    assert mirror.lookup("db01") == Target({b"region": b"north"})
    assert mirror.lookup("bare") is mirror.lookup("nobody") is None
    assert mirror.changes(0) == (1, {"web01", "db01"})


def test_only_hosts_that_changed_are_looked_up_again(center, make_mirror: Callable[[], Mirror]) -> None:
    center.known("web01", "db01")
    group = center.group("shop")
    center.bind(group, "web01", "db01", tags=["k=1"])
    mirror = make_mirror()
    mirror.refresh()
    mirror.refresh()
    assert mirror.changes(1) == (1, ())
    center.bind(group, "web01", tags=["l=2"])  # within the same second
    mirror.refresh()
    center.clock.now += 1
    center.bind(group, "db01", tags=["l=3"])
    for _ in range(2):
        mirror.refresh()
    version, changed = mirror.changes(mirror.changes(0)[0] - 1)
    assert "db01" in (changed or ())
    assert mirror.changes(0) == (version, None)
    assert mirror.lookup("db01") == Target({b"k": b"1", b"l": b"3"})
    assert mirror.lookup("web01") == Target({b"k": b"1", b"l": b"2"})


def test_a_gateway_starts_without_its_center_when_it_knows_the_hosts(
    center, wire: Wire, make_mirror: Callable[[], Mirror], caplog: pytest.LogCaptureFixture
) -> None:
    center.known("web01")
    center.bind(center.group("shop", label="shop"), "web01", tags=["role=wéb"])
    wire.down = True
    with pytest.raises(SettingsError, match=r"CenterApi\.Addrs: no center answers.*nobody there"):
        make_mirror().check()
    wire.down = False
    make_mirror().check()
    wire.down = True
    later = make_mirror()
    later.check()
    assert "labels that were last known" in caplog.text
    later.load()
    assert later.lookup("web01") == Target({b"role": "wéb".encode()}, b"shop")
    assert later.changes(0) == (1, {"web01": 0}.keys())


def test_reading_survives_a_center_that_is_away(
    wire: Wire, make_mirror: Callable[[], Mirror], caplog: pytest.LogCaptureFixture
) -> None:
    wire.down = True
    mirror = make_mirror()
    mirror.start()
    mirror.stop()  # after the round that was begun
    assert caplog.text.count("hosts keep the labels that were last known: nobody there") == 1


@pytest.mark.parametrize("said", [b"1", b'[{"ident": "a"}]', b'["a"]', b"null"])
def test_a_center_that_says_something_else_changes_nothing(sink: HttpSink, tmp_path: Path, said: bytes) -> None:
    sink.default = Answer(200, b'{"dat": ' + said + b', "err": ""}')
    center = Center(CenterApiSettings(addresses=[sink.url]), Metrics())
    mirror = Mirror(center, tmp_path / "hosts.json", ReadLog("targets"))
    with pytest.raises(CenterError, match="cannot be read"):
        mirror.refresh()
    assert mirror.changes(0) == (0, ())


def test_reads_are_told(center, wire: Wire, tmp_path: Path) -> None:
    center.known("web01")
    center.bind(center.group("shop", label="shop"), "web01")
    reads = ReadLog("targets")
    mirror = Mirror(wire, tmp_path / "hosts.json", reads)  # type: ignore[arg-type]

    def told() -> list[str]:
        return [line.partition("count: ")[2] for line in reads.lines()]

    mirror.refresh()
    assert told() == ["1, message: success"]
    for _ in range(2):
        mirror.refresh()
    assert told() == ["1, message: success", "-1, message: not changed"]
    wire.down = True
    with pytest.raises(CenterError):
        mirror.refresh()
    assert told() == ["-1, message: not changed", "-1, message: failed to query records: nobody there"]


def test_a_broken_file_is_no_file(make_mirror: Callable[[], Mirror], tmp_path: Path) -> None:
    (tmp_path / "hosts.json").write_bytes(b'{"web01"')
    mirror = make_mirror()
    mirror.load()
    assert mirror.changes(0) == (0, ())
