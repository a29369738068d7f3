"""From a change of a host to its series: what the next request of a collector is given, in every process."""

import queue
from types import SimpleNamespace
from typing import Any

import cramjam
import pytest

from tocsin.ingest.gateway import Gateway
from tocsin.ingest.hosts import TargetLabels
from tocsin.plugin import (
    Batch,
    Decoded,
    IngestProtocol,
    IngestRoute,
    Writer,
    WriteResult,
    WriterType,
    decode_chunk,
    encode_labels,
    encode_series,
    hookimpl,
    text,
)
from tocsin.plugin.testkit import dat
from tocsin.plugin.testkit.components import PATIENCE

WIRE = {"WriterOpt": {"QueueNumber": 1, "BatchLinger": 0}}


def series(line: str) -> bytes:
    """Return one series in the wire format; labels are written ``name=value`` with commas between."""
    pairs = (part.encode().partition(b"=") for part in line.split(","))
    labels = [(name, value) for name, _, value in pairs]
    return bytes(encode_series(encode_labels(labels), [1000], [1.0]))


class Lines(IngestProtocol):
    """A protocol for tests: one series in the body."""

    name = "lines"

    def routes(self):
        reply = lambda request, decoded, accepted: text(str(accepted))  # noqa: E731
        return [IngestRoute("/lines", reply, lambda request: Decoded(series(request.body.decode())))]


class Keeper(Writer):
    """A backend that keeps the labels of each series."""

    url = "kept"

    def __init__(self) -> None:
        self.arrived: queue.Queue[dict[str, str]] = queue.Queue()

    def write(self, batch: Batch) -> WriteResult:
        for one in decode_chunk(batch.body):
            self.arrived.put(dict(one.labels))
        return WriteResult()


@pytest.fixture
def process(make_world):
    """Return a function that starts a process taking series; all share database and cache."""

    def start(pushgw: dict[str, Any] | None = None) -> Any:
        keeper = Keeper()

        class Kind(WriterType):
            name = "kept"
            config_key = "Kept"

            def build(self, settings, context):
                return keeper

        def tocsin_writers():
            return [Kind()]

        def tocsin_ingest_protocols():
            return [Lines()]

        plugin = SimpleNamespace(
            __name__="test_plugin",
            tocsin_writers=hookimpl(tocsin_writers),
            tocsin_ingest_protocols=hookimpl(tocsin_ingest_protocols),
        )
        settings = {"Pushgw": {**WIRE, "Kept": [{}], **(pushgw or {})}}
        world = make_world(settings, plugins=[plugin], start="http")

        def send(line: str) -> dict[str, str]:
            answer = world.agent.request("POST", "/lines", body=line.encode())
            assert (answer.status, answer.text) == (200, "1")
            return keeper.arrived.get(timeout=PATIENCE)

        return SimpleNamespace(world=world, send=send)

    return start


CPU = "__name__=cpu,agent_hostname=web01"
PLAIN = {"__name__": "cpu", "ident": "web01"}


def test_every_change_is_seen_by_the_next_request_of_every_process(process) -> None:
    here, there = process(), process()
    world = there.world  # tables belong to the database of the newest process, so it does all the writing

    def both(**labels: str) -> None:
        for one in (here, there):
            assert one.send(CPU) == {**PLAIN, **labels}

    both()
    world.beat("web01")
    world.known("db01")
    both()
    world.beat("web01", global_labels={"env": "prod"})
    both(env="prod")
    dat(world.root.post("/api/svc/targets/tags", {"idents": ["web01", "db01"], "tags": ["role=web"]}))
    both(env="prod", role="web")
    dat(world.root.delete("/api/svc/targets/tags", {"idents": ["web01"], "tags": ["role=web"]}))
    both(env="prod")
    shop = world.group("shop", label="shop-1")
    both(env="prod")
    world.bind(shop, "web01")
    both(env="prod", busigroup="shop-1")
    change = {"name": "shop", "label_enable": 1, "label_value": "shop-2"}
    dat(world.root.put(f"/api/svc/busi-group/{shop}", change))
    both(env="prod", busigroup="shop-2")
    world.bind(shop, "web01", tags=["busigroup=by hand"])
    both(env="prod", busigroup="by hand")
    world.bind([], "web01", action="reset")
    both(env="prod", busigroup="by hand")
    dat(world.root.delete("/api/svc/targets", {"idents": ["web01"]}))
    both()
    world.beat("web01", global_labels={"env": "prod"})
    both()
    world.beat("web01", global_labels={"env": "prod"})
    both(env="prod")
    assert there.send("__name__=up,ident=db01") == {"__name__": "up", "ident": "db01", "role": "web"}


def test_a_host_in_several_groups_has_the_label_of_the_first_with_one(process) -> None:
    one = process()
    plain, first, second = one.world.group("a"), one.world.group("b", label="b"), one.world.group("c", label="c")
    one.world.known("web01")
    one.world.bind([second, plain, first], "web01")
    assert one.send(CPU) == {**PLAIN, "busigroup": "b"}


def test_collisions_follow_the_setting(process) -> None:
    for rewrite, env in ((True, "prod"), (False, "own")):
        one = process({"LabelRewrite": rewrite})
        one.world.beat("web01", global_labels={"env": "prod"})
        one.world.beat("web01", global_labels={"env": "prod"})
        assert one.send(CPU + ",env=own") == {**PLAIN, "env": env}
        assert one.send(CPU + ",env=own,busigroup=own")["env"] == "own"


def test_tags_that_are_no_labels_stay_off_the_series(process) -> None:
    one = process()
    odd = {"data-center": "x", "__name__": "y", "ident": "z", "e": "", "q": "a=b", "é": "1", "ok": "1"}
    for _ in range(2):
        one.world.beat("web01", global_labels=odd)
    assert one.send(CPU) == {**PLAIN, "ok": "1"}
    assert len(one.world.hosts()["web01"]["host_tags"]) == len(odd)


def test_a_group_without_its_label(process) -> None:
    one = process({"BusiGroupLabelKey": "biz"})
    shop = one.world.group("shop", label="shop")
    one.world.known("web01")
    one.world.bind(shop, "web01")
    assert one.send(CPU) == {**PLAIN, "biz": "shop"}
    dat(one.world.root.put(f"/api/svc/busi-group/{shop}", {"name": "shop", "label_enable": 0}))
    assert one.send(CPU) == PLAIN


def test_series_register_their_hosts_when_asked_to(process) -> None:
    for settings, known in (
        ({}, []),
        ({"GetHeartbeatFromMetric": True, "IdentMetrics": ["up"]}, ["b"]),
        ({"GetHeartbeatFromMetric": True}, ["a", "b"]),
    ):
        one = process(settings)
        one.send("__name__=cpu,ident=a")
        one.send("__name__=up,ident=b")
        one.send("__name__=up,ident=" + "x" * 192)
        one.world.flush()
        assert list(one.world.hosts()) == known
    assert one.world.metric("svc_target_beats_refused_total", reason="name") == 1


def test_without_the_database_the_last_known_labels_are_used(process, monkeypatch: pytest.MonkeyPatch) -> None:
    one = process()
    for _ in range(2):
        one.world.beat("web01", global_labels={"env": "prod"})
    assert one.send(CPU)["env"] == "prod"
    with monkeypatch.context() as patch:
        patch.setattr(type(one.world.app.core.snapshots), "versions", lambda _: 1 / 0)
        one.world.app.core.db.renew_stamp()  # as after a change, so that the database is asked
        assert one.send(CPU)["env"] == "prod"
    assert one.world.metric("svc_target_labels_stale_total") == 1
    told = one.world.agent.get("/dumper/sync").text.partition("\ntargets:\n")[2].splitlines()[:2]
    assert [line.partition("count: ")[2] for line in told] == [
        "1, message: success",
        "-1, message: failed to query records: ZeroDivisionError",
    ]
    one.world.beat("web01", global_labels={"env": "test"})
    assert one.send(CPU)["env"] == "test"


def test_only_what_changed_is_forgotten(world) -> None:
    book = world.app.core.get(TargetLabels)
    world.known("a", "b")
    version, _ = book.changes(0)
    assert book.changes(version) == (version, ())
    dat(world.root.post("/api/svc/targets/tags", {"idents": ["a"], "tags": ["k=v"]}))
    version, changed = book.changes(version)
    assert changed == {"a"}
    dat(world.root.post("/api/svc/targets/tags", {"idents": ["b"], "tags": ["k=v"]}))
    newest, changed = book.changes(version)
    assert changed == {"b"}
    dat(world.root.put("/api/svc/targets/note", {"idents": ["a"], "note": "n"}))
    world.beat("c")
    world.beat("c", os="linux", host_ip="10.0.0.1")
    world.beat("b", os="linux")
    assert book.changes(newest) == (newest, ())  # nothing of it concerns labels
    world.bind(world.group("shop", label="shop"), "a")
    version, newest = newest, book.changes(newest)[0]
    assert book.changes(version) == (newest, None)
    world.bind([], "a", action="reset")
    dat(world.root.post("/api/svc/targets/tags", {"idents": ["b"], "tags": ["l=w"]}))
    version, newest = newest, book.changes(newest)[0]
    assert book.changes(version) == (newest, {"a", "b"})
    dat(world.root.delete("/api/svc/targets", {"idents": ["a", "c"]}))
    assert book.changes(newest) == (newest + 1, {"a"})
    assert book.lookup("a") is None
    assert book.lookup("b").labels == {b"k": b"v", b"l": b"w"}
    assert len(book) == 1


def test_remote_write_to_remote_write(make_world, http_sink) -> None:
    ingest = pytest.importorskip("tocsin_ingest_remotewrite")
    write = pytest.importorskip("tocsin_writer_remotewrite")
    settings = {"Pushgw": {**WIRE, "Writers": [{"Url": http_sink.url + "/write"}]}}
    world = make_world(settings, plugins=[ingest, write], start="http")
    for _ in range(2):
        world.beat("web01", global_labels={"env": "prod"})
    field = series(CPU)
    answer = world.agent.request("POST", "/rw/v1/write", body=bytes(cramjam.snappy.compress_raw(field)))
    assert answer.status == 200
    (request,) = http_sink.wait_for(1)
    body = bytes(cramjam.snappy.decompress_raw(request.body))
    (found,) = decode_chunk(body)
    assert dict(found.labels) == {**PLAIN, "env": "prod"}
    assert world.app.core.get(Gateway).running
