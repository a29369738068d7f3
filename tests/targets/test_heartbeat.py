"""Heartbeats: what they register, write and refuse."""

import gzip
from typing import Any
from urllib.parse import urlencode

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.plugin.testkit import dat
from tocsin.targets.pulse import EXTEND, META, SEEN

NOW = 1_760_000_000

SAID = {
    "agent_version": "v0.4.5",
    "os": "linux",
    "arch": "amd64",
    "cpu_num": 8,
    "cpu_util": 12.7,
    "mem_util": 61.3,
    "unixtime": NOW * 1000 - 250,
    "host_ip": "10.0.0.11",
    "global_labels": {"region": "north", "env": "prod"},
    "extend_info": {"cpu": {"model_name": "X"}, "memory": None},
    "anything": "else",
}


def test_a_host_registers_and_describes_itself(world) -> None:
    world.beat("web01", **SAID)
    first = world.hosts()["web01"]
    assert (first["host_ip"], first["host_tags"], first["os"]) == ("", None, "")
    assert (first["beat_time"], first["target_up"], first["cpu_num"]) == (NOW, 2, 8)
    world.clock.now += 10
    world.beat("web01", **SAID)
    host = world.hosts()["web01"]
    assert host == {
        **first,
        "host_ip": "10.0.0.11",
        "agent_version": "v0.4.5",
        "engine_name": "default",
        "os": "linux",
        "host_tags": ["env=prod", "region=north"],
        "tags_maps": {"env": "prod", "region": "north"},
        "update_at": NOW + 10,
        "beat_time": NOW + 10,
        "offset": 10_250,
        "remote_addr": "127.0.0.1",
    }
    assert (host["cpu_util"], host["mem_util"], host["arch"], host["unixtime"]) == (
        12.7,
        61.3,
        "amd64",
        SAID["unixtime"],
    )
    found = dat(world.root.get("/api/svc/target/extra-meta", query={"ident": "web01"}))
    assert found["ident"] == "web01"
    assert orjson.loads(found["extend_info"]) == SAID["extend_info"]


def test_a_beat_without_news_leaves_the_row_alone(world) -> None:
    for _ in range(3):
        world.beat("web01", **SAID)
        world.clock.now += 10
    assert world.hosts()["web01"]["update_at"] == NOW + 10


def test_a_beat_without_news_is_one_query(world) -> None:
    query = {"gid": world.group("shop"), "overwrite_gids": "true"}
    for _ in range(2):
        world.beat("web01", query, **SAID)

    def operations() -> float:
        families = world.app.core.metrics.registry.collect()
        samples = [sample for family in families for sample in family.samples]
        return sum(sample.value for sample in samples if sample.name == "svc_db_operation_total")

    before = operations()
    answer = world.agent.post("/v1/svc/heartbeat?" + urlencode(query), {"hostname": "web01", **SAID})
    assert answer.status == 200
    assert operations() - before == 1


def test_plain_json_and_the_answer(world) -> None:
    answer = world.agent.post("/v1/svc/heartbeat", {"hostname": "a"})
    body = answer.json()
    assert (answer.status, body["dat"], body["err"]) == (200, None, "")
    assert body["request_id"] == answer.headers["x-trace-id"]


def test_what_a_gateway_added_is_kept(world) -> None:
    more = {"offset": 77, "remote_addr": "192.0.2.1", "engine_name": "edge"}
    world.beat("web01", **SAID)
    world.beat("web01", **SAID, **more)
    host = world.hosts()["web01"]
    assert {name: host[name] for name in more} == more


def test_a_gateway_beside_the_center_takes_heartbeats_for_the_same_engines(world, make_world) -> None:
    beside = make_world(process="pushgw")
    for _ in range(2):
        beside.beat("web01")
    assert make_world().hosts()["web01"]["engine_name"] == "default"


def test_the_address_a_front_proxy_names(world) -> None:
    for value, shown in (("192.0.2.7, 10.0.0.1", "192.0.2.7"), ("<script>", "127.0.0.1")):
        world.agent.with_headers(X_Forwarded_For=value).post("/v1/svc/heartbeat", {"hostname": "a"})
        world.flush()
        assert world.hosts()["a"]["remote_addr"] == shown


def test_records_in_the_cache(world) -> None:
    world.beat("web01", **SAID)
    records = world.app.core.cache.get_many([prefix + "web01" for prefix in (META, EXTEND, SEEN)])
    assert orjson.loads(records[SEEN + "web01"]) == {"ident": "web01", "update_time": NOW}
    assert orjson.loads(records[EXTEND + "web01"]) == SAID["extend_info"]
    assert "extend_info" not in orjson.loads(records[META + "web01"])
    world.beat("web01")
    assert world.app.core.cache.get(EXTEND + "web01") == records[EXTEND + "web01"]


def test_target_up_fades(world) -> None:
    world.beat("web01")
    for seconds, up in ((59, 2), (60, 1), (179, 1), (180, 0)):
        world.clock.now = NOW + seconds
        assert world.hosts()["web01"]["target_up"] == up, seconds


def test_the_collectors_label_wins_over_a_tag(world) -> None:
    world.known("web01")
    body = {"idents": ["web01"], "tags": ["region=south", "role=web"]}
    assert dat(world.root.post("/api/svc/targets/tags", body)) == {}
    world.beat("web01", **SAID)
    host = world.hosts()["web01"]
    assert (host["tags"], host["host_tags"]) == (["role=web"], ["env=prod", "region=north"])
    world.beat("web01", **{**SAID, "global_labels": {}})
    host = world.hosts()["web01"]
    assert (host["tags"], host["host_tags"]) == (["role=web"], None)


def test_groups_of_a_beat(world) -> None:
    one, two, three = (world.group(name) for name in ("one", "two", "three"))

    def groups(**query: Any) -> list[int]:
        world.beat("web01", query)
        return world.hosts()["web01"]["group_ids"]

    assert groups(gid=one) == []
    assert groups(gid=one) == [one]
    assert groups(gid=f"{two},{three}") == [one, two, three]
    assert groups() == [one, two, three]
    assert groups(gid=two, overwrite_gids="true") == [two]
    assert groups(gid=f"{two},nonsense,999", overwrite_gids="true") == [two]
    assert groups(overwrite_gids="true") == []


BAD: list[tuple[bytes, dict[str, str], str]] = [
    (b"", {}, "EOF"),
    (b"{", {}, "json body invalid"),
    (b"[]", {}, "json body invalid"),
    (b"null", {}, "json body invalid"),
    (b"{}", {}, "hostname is required"),
    (b'{"hostname": ""}', {}, "hostname is required"),
    (b'{"hostname": null}', {}, "hostname is required"),
    (b'{"hostname": 7}', {}, "hostname"),
    (b'{"hostname": "%s"}' % (b"x" * 192), {}, "hostname: got a length of 192, expected at most 191"),
    (b'{"hostname": "a\\u0000b"}', {}, "U+0000"),
    (b'{"hostname": "a", "cpu_num": "8"}', {}, "cpu_num"),
    (b'{"hostname": "a", "cpu_util": "8"}', {}, "cpu_util"),
    (b'{"hostname": "a", "unixtime": 99999999999999999999}', {}, "unixtime"),
    (b'{"hostname": "a", "unixtime": 1e300}', {}, "unixtime"),
    (b'{"hostname": "a", "global_labels": {"a": 1}}', {}, "global_labels"),
    (b'{"hostname": "a", "global_labels": []}', {}, "global_labels"),
    (b'{"hostname": "a", "global_labels": %s}' % orjson.dumps({str(n): "" for n in range(101)}), {}, "at most 100"),
    (
        b'{"hostname": "a", "global_labels": {"a": "%s", "b": "y"}}' % (b"x" * 8190),
        {},
        "global_labels: got 8193 characters, expected at most 8192",
    ),
    (b'{"hostname": "a", "extend_info": "x"}', {}, "extend_info"),
    (b'{"hostname": "a", "os": "%s"}' % (b"x" * 32), {}, "os: got a length of 32, expected at most 31"),
    (b"not gzip", {"Content-Encoding": "gzip"}, "gzip: corrupt"),
    (gzip.compress(b'{"hostname": "a"}', mtime=0)[:-9], {"Content-Encoding": "gzip"}, "gzip: unexpected end"),
]


@pytest.mark.parametrize(("body", "headers", "text"), BAD)
def test_what_is_no_heartbeat(world, body: bytes, headers: dict[str, str], text: str) -> None:
    answer = world.agent.request("POST", "/v1/svc/heartbeat", headers=headers, body=body)
    assert answer.status == 400
    assert text in answer.text
    assert world.metric("svc_target_beats_refused_total", reason="invalid") == 1
    world.flush()
    assert world.hosts() == {}


def test_bombs_are_not_unpacked(world) -> None:
    bomb = gzip.compress(b"\0" * (9 << 20))
    answer = world.agent.request("POST", "/v1/svc/heartbeat", headers={"Content-Encoding": "gzip"}, body=bomb)
    assert answer.status == 413
    answer = world.agent.request("POST", "/v1/svc/heartbeat", body=b" " * ((8 << 20) + 1))
    assert answer.status == 413
    assert world.metric("svc_target_beats_refused_total", reason="too_large") == 2


@pytest.mark.parametrize("encoding", ["deflate", "br", "gzip, gzip"])
def test_other_encodings_are_named(world, encoding: str) -> None:
    answer = world.agent.request("POST", "/v1/svc/heartbeat", headers={"Content-Encoding": encoding}, body=b"x")
    assert (answer.status, answer.text) == (415, f"Content-Encoding: got '{encoding}', expected gzip")
    assert world.metric("svc_target_beats_refused_total", reason="unsupported") == 1


def test_names_of_encodings_have_no_case(world) -> None:
    for encoding, body in (("GZIP", gzip.compress(b'{"hostname": "a"}')), ("Identity", b'{"hostname": "b"}')):
        answer = world.agent.request("POST", "/v1/svc/heartbeat", headers={"Content-Encoding": encoding}, body=body)
        assert answer.status == 200
    world.flush()
    assert set(world.hosts()) == {"a", "b"}


def test_overwrite_must_be_a_truth_value(world) -> None:
    answer = world.agent.post("/v1/svc/heartbeat?overwrite_gids=perhaps", {"hostname": "a"})
    assert (answer.status, answer.text) == (400, "unknown arg[overwrite_gids] value: perhaps")


def test_accounts(make_world) -> None:
    accounts = {"APIForAgent": {"BasicAuth": {"agent": "pw"}}, "APIForService": {"BasicAuth": {"ops": "pw"}}}
    world = make_world({"HTTP": accounts})
    for header, status in (("", 401), ("Basic b3BzOnB3", 401), ("Basic YWdlbnQ6cHc=", 200)):
        answer = world.agent.with_headers(Authorization=header).post("/v1/svc/heartbeat", {"hostname": "a"})
        assert answer.status == status, header
    assert world.agent.post("/v1/svc/heartbeat", {}).headers["www-authenticate"].startswith("Basic")


def test_no_heartbeats_when_collectors_are_shut_out(make_world) -> None:
    accounts = {"APIForAgent": {"Enable": False}, "APIForService": {"BasicAuth": {"ops": "pw"}}}
    world = make_world({"HTTP": accounts})
    world.agent.post("/v1/svc/heartbeat", {"hostname": "a"})
    ops = world.agent.with_headers(Authorization="Basic b3BzOnB3")
    assert dat(ops.post("/v1/svc/target-update", {"lst": ["b"], "now": 5})) is None
    world.flush()
    assert {ident: host["beat_time"] for ident, host in world.hosts().items()} == {"b": NOW}


@pytest.mark.parametrize("enable", [True, False])
def test_other_processes_may_name_hosts_to_a_gateway_too(world, make_world, enable: bool) -> None:
    accounts = {"APIForAgent": {"Enable": enable}, "APIForService": {"BasicAuth": {"ops": "pw"}}}
    beside = make_world({"HTTP": accounts}, process="pushgw")
    assert beside.agent.post("/v1/svc/target-update", {"lst": ["a"]}).status == 401
    ops = beside.agent.with_headers(Authorization="Basic b3BzOnB3")
    assert dat(ops.post("/v1/svc/target-update", {"lst": ["b"], "now": 5})) is None
    beside.flush()
    assert {ident: host["beat_time"] for ident, host in make_world().hosts().items()} == {"b": NOW}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    beat=st.fixed_dictionaries({}, optional=dict.fromkeys((*SAID, "hostname", "offset", "config"), json_values)),
    name=st.text(max_size=10) | st.just("web01"),
    gid=st.text(max_size=6),
    overwrite=st.booleans(),
)
def test_nothing_crashes(world, beat: dict[str, Any], name: str, gid: str, overwrite: bool) -> None:
    try:
        body = orjson.dumps({"hostname": name, **beat})
        gid.encode()
    except (TypeError, UnicodeEncodeError):
        return  # no JSON text holds it
    for _ in range(2):
        query = {"gid": gid, "overwrite_gids": str(overwrite).lower()}
        answer = world.agent.request("POST", "/v1/svc/heartbeat", query=query, body=body)
        assert answer.status in (200, 400), answer
        world.flush()
    assert world.metric("svc_target_update_errors_total") == 0
    assert world.metric("svc_target_flush_errors_total", stage="database") == 0
