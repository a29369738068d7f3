"""The HTTP API from outside: shapes, statuses, parameters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import cramjam
import falcon.testing
import pytest

from tocsin.plugin.testkit.components import PATIENCE
from tocsin_tsdb.api.app import create_app
from tocsin_tsdb.api.options import MAX_BODY, ApiOptions
from tocsin_tsdb.api.params import parse_seconds_or_duration, parse_time
from tocsin_tsdb.api.slots import SlotCanceled, Slots, SlotTimeout
from tocsin_tsdb.promql.engine import Engine
from tocsin_tsdb.promql.interface import QueryCanceled, QueryTimeout
from tocsin_tsdb.storage import wire

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SNAPPY = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}


class Api:
    """The application over a store."""

    def __init__(self, box: Any, options: ApiOptions, max_samples: int = 1_000_000) -> None:
        self.box = box
        engine = Engine(box.store, max_samples=max_samples, timeout=options.query_timeout)
        self.app = create_app(box.store, box.maintenance, engine, options, box.registry)
        self.client = falcon.testing.TestClient(self.app)

    def get(self, path: str, *, status: int = 200, **parameters: Any) -> Any:
        """GET below /api/v1 and return the JSON answer; the status must be the one given."""
        query = urlencode({name.replace("match", "match[]"): value for name, value in parameters.items()}, doseq=True)
        answer = self.client.simulate_get(f"/api/v1/{path}", query_string=query)
        assert answer.status_code == status, answer.text
        return answer.json if answer.text else None

    def post(self, path: str, body: bytes = b"", headers: Any = None, *, status: int = 200, query: str = "") -> Any:
        """POST below /api/v1."""
        answer = self.client.simulate_post(f"/api/v1/{path}", body=body, headers=headers or FORM, query_string=query)
        assert answer.status_code == status, answer.text
        return answer.json if answer.text else None


@pytest.fixture
def make_api(make_box: Callable[..., Any]) -> Callable[..., Api]:
    def make(max_samples: int = 1_000_000, **options: Any) -> Api:
        return Api(make_box(), ApiOptions(**options), max_samples)

    return make


@pytest.fixture
def api(make_api: Callable[..., Api], encode: Any, now: int) -> Api:
    """An API over ten minutes of two series, one sample a minute."""
    made = make_api()
    rows = {}
    for host, factor in (("a", 1.0), ("b", 10.0)):
        labels = (("__name__", "load"), ("host", host), ("job", "node"))
        rows[labels] = [(now - (10 - i) * 60_000, i * factor) for i in range(11)]
    made.box.store.write(encode(rows))
    return made


def test_instant_vector(api: Api, now: int) -> None:
    answer = api.get("query", query='load{host="b"}', time=now / 1000)
    assert answer == {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [{"metric": {"__name__": "load", "host": "b", "job": "node"}, "value": [now / 1000, "100"]}],
        },
    }


def test_time_is_now_when_it_is_not_given(api: Api, now: int) -> None:
    assert api.get("query", query="time()")["data"] == {
        "resultType": "scalar",
        "result": [now / 1000, str(now // 1000)],
    }


def test_scalar_string_and_matrix(api: Api, now: int) -> None:
    assert api.get("query", query="1.5", time=5.5)["data"] == {"resultType": "scalar", "result": [5.5, "1.5"]}
    assert api.get("query", query='"x"', time=5)["data"] == {"resultType": "string", "result": [5, "x"]}
    data = api.get("query", query='load{host="a"}[2m]', time=now / 1000)["data"]
    assert data["resultType"] == "matrix"
    assert data["result"][0]["values"] == [[now / 1000 - 60, "9"], [now / 1000, "10"]]


def test_range(api: Api, now: int) -> None:
    seconds = now / 1000
    data = api.get("query_range", query="sum(load)", start=seconds - 60, end=seconds, step="1m")["data"]
    assert data == {
        "resultType": "matrix",
        "result": [{"metric": {}, "values": [[seconds - 60, "99"], [seconds, "110"]]}],
    }


def test_forms_and_query_strings_mean_the_same(api: Api, now: int) -> None:
    query = urlencode({"query": "load", "time": now / 1000})
    assert api.post("query", query.encode()) == api.get("query", query="load", time=now / 1000)
    assert api.post("query", query=query) == api.get("query", query="load", time=now / 1000)
    form = urlencode({"match[]": ['load{host="a"}', "none"]}, doseq=True)
    assert api.post("series", form.encode())["data"] == [{"__name__": "load", "host": "a", "job": "node"}]


@pytest.mark.parametrize(
    ("path", "parameters", "text"),
    [
        ("query", {}, "query parameter is required"),
        ("query", {"query": "sum("}, 'invalid parameter "query": 1:5: parse error: unclosed left parenthesis'),
        (
            "query",
            {"query": "up", "time": "x"},
            'invalid parameter "time": Invalid time value for \'time\': cannot parse "x" to a valid timestamp',
        ),
        ("query", {"query": "up", "timeout": "x"}, 'invalid parameter "timeout": cannot parse "x" to a valid duration'),
        (
            "query",
            {"query": "up", "limit": "-1"},
            'invalid parameter "limit": limit must be non-negative',
        ),
        (
            "query_range",
            {"query": "up", "end": 1, "step": 1},
            'invalid parameter "start": cannot parse "" to a valid timestamp',
        ),
        (
            "query_range",
            {"query": "up", "start": 1, "end": 2},
            'invalid parameter "step": cannot parse "" to a valid duration',
        ),
        (
            "query_range",
            {"query": "up", "start": 2, "end": 1, "step": 1},
            'invalid parameter "end": end timestamp must not be before start time',
        ),
        (
            "query_range",
            {"query": "up", "start": 1, "end": 2, "step": 0},
            'invalid parameter "step": zero or negative query resolution step widths are not accepted. Try a positive integer',
        ),
        (
            "query_range",
            {"query": "up", "start": 0, "end": 11_001, "step": 1},
            "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
        ),
        ("query_range", {"query": "up[5m]", "start": 1, "end": 2, "step": 1}, "invalid expression type"),
        ("series", {}, "no match[] parameter provided"),
        ("series", {"match": "{"}, 'invalid parameter "match[]"'),
        ("series", {"match": "up", "start": 2, "end": 1}, "end timestamp must not be before start time"),
        ("labels", {"match": '{a="'}, 'invalid parameter "match[]"'),
        ("label/a-b/values", {}, "invalid label name: a-b"),
        ("format_query", {"query": "("}, "parse error"),
        ("parse_query", {"query": "("}, "parse error"),
        ("query_exemplars", {"query": "("}, "parse error"),
        ("metadata", {"limit": "x"}, "limit must be a number"),
        ("metadata", {"limit_per_metric": "x"}, "limit_per_metric must be a number"),
        ("status/tsdb", {"limit": "0"}, "limit must be a positive number"),
        ("status/tsdb", {"limit": "10001"}, "limit must not exceed 10000"),
        (
            "series",
            {"match[]": "up", "limit": "x"},
            'invalid parameter "limit": strconv.Atoi: parsing "x": invalid syntax',
        ),
        ("labels", {"match": "{a=~'.*'}"}, "match[] must contain at least one non-empty matcher"),
        (
            "series",
            {"match[]": "up", "end": "x"},
            "Invalid time value for 'end': cannot parse \"x\" to a valid timestamp",
        ),
    ],
)
def test_bad_parameters(api: Api, path: str, parameters: dict[str, Any], text: str) -> None:
    answer = api.get(path, status=400, **parameters)
    assert (answer["status"], answer["errorType"]) == ("error", "bad_data")
    assert text in answer["error"]


def test_errors_of_execution_limits_and_time(api: Api, make_api: Any, now: int) -> None:
    answer = api.get("query", status=422, query="load * on () load", time=now / 1000)
    assert answer["errorType"] == "execution"
    api.box.close()
    small = make_api(max_samples=5)
    answer = small.get("query", status=422, query="load[10m]", time=now / 1000)
    assert answer["errorType"] == "execution"
    assert "too many samples" in answer["error"]


@pytest.mark.parametrize(("raised", "error_type"), [(QueryTimeout, "timeout"), (QueryCanceled, "canceled")])
def test_queries_that_end_early(api: Api, monkeypatch: Any, raised: type[Exception], error_type: str) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise raised()

    monkeypatch.setattr(Engine, "instant", stop)
    assert api.get("query", status=503, query="load")["errorType"] == error_type


def test_names_values_and_series(api: Api, now: int) -> None:
    assert api.get("labels")["data"] == ["__name__", "host", "job"]
    assert api.get("label/host/values")["data"] == ["a", "b"]
    assert api.get("label/host/values", match='load{host="b"}')["data"] == ["b"]
    assert api.get("label/none/values")["data"] == []
    assert api.get("label/U__ho_73_t/values")["data"] == ["a", "b"]
    assert [row["host"] for row in api.get("series", match=["load", '{host="a"}'])["data"]] == ["a", "b"]
    assert api.get("series", match="load", start=1, end=2)["data"] == []
    cut = api.get("label/host/values", limit=1)
    assert (cut["data"], cut["warnings"]) == (["a"], ["results truncated due to limit"])


def test_limit_and_stats_of_queries(api: Api, now: int) -> None:
    answer = api.get("query", query="load", time=now / 1000, limit=1, stats="all")
    assert len(answer["data"]["result"]) == 1
    assert answer["warnings"] == ["results truncated due to limit"]
    assert answer["data"]["stats"]["samples"]["totalQueryableSamples"] == 2
    assert "execTotalTime" in answer["data"]["stats"]["timings"]
    assert "stats" not in api.get("query", query="load", time=now / 1000)["data"]
    ranged = api.get("query_range", query="load", start=now / 1000 - 60, end=now / 1000, step=60, limit=1)
    assert len(ranged["data"]["result"]) == 1
    assert len(api.get("query", query="load[5m]", time=now / 1000, limit=1)["data"]["result"]) == 1


def test_lookback_delta(api: Api, now: int) -> None:
    later = now / 1000 + 90
    assert len(api.get("query", query="load", time=later)["data"]["result"]) == 2
    assert api.get("query", query="load", time=later, lookback_delta="1m")["data"]["result"] == []


def test_write_then_query(make_api: Any, encode: Any, now: int) -> None:
    api = make_api()
    described = wire.encode_metadata(wire.Metadata("up", "gauge", "Up or not.", ""))
    body = encode({(("__name__", "up"),): [(now, 1.0)]}) + described
    api.post("write", bytes(cramjam.snappy.compress_raw(body)), SNAPPY, status=204)
    assert api.get("query", query="up", time=now / 1000)["data"]["result"][0]["value"] == [now / 1000, "1"]
    expected = {"up": [{"type": "gauge", "help": "Up or not.", "unit": ""}]}
    assert api.get("metadata")["data"] == expected
    assert api.get("metadata", metric="up", limit=1, limit_per_metric=1)["data"] == expected
    assert api.get("metadata", metric="down")["data"] == {}
    plain = encode({(("__name__", "up"),): [(now + 1, 0.0)]})
    api.post("write", plain, {**SNAPPY, "Content-Encoding": "identity"}, status=204)
    assert api.get("query", query="up", time=(now + 1) / 1000)["data"]["result"][0]["value"][1] == "0"


def test_writes_of_refused_samples_succeed(make_api: Any, encode: Any, now: int, caplog: Any) -> None:
    api = make_api()
    for value in (1.0, 2.0, 3.0):
        body = encode({(("__name__", "up"),): [(now, value)]})
        api.post("write", bytes(cramjam.snappy.compress_raw(body)), SNAPPY, status=204)
    assert [record.message for record in caplog.records if "samples refused" in record.message] == [
        "1 samples refused: 0 older than the out-of-order window, 0 too far in the future or past, "
        "1 with another value for a stored time, 0 with unusable labels"
    ]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"not snappy", SNAPPY, 400),
        (bytes(cramjam.snappy.compress_raw(b"\x0a\x05")), SNAPPY, 400),
        (b"\x81\x80\x80\x10" + b"x" * 10, SNAPPY, 413),
        (b"x" * (MAX_BODY + 1), SNAPPY, 413),
        (b"", {**SNAPPY, "Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}, 415),
        (b"", {**SNAPPY, "Content-Encoding": "gzip"}, 415),
    ],
    ids=["not snappy", "not protobuf", "bomb", "large", "version 2", "gzip"],
)
def test_bad_writes(make_api: Any, body: bytes, headers: Any, status: int) -> None:
    answer = make_api().post("write", body, headers, status=status)
    assert (answer["status"], answer["errorType"]) == ("error", "bad_data")


def test_a_write_that_cannot_be_durable_is_a_500(make_api: Any, encode: Any, now: int, monkeypatch: Any) -> None:
    api = make_api()

    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fdatasync", refuse)
    body = bytes(cramjam.snappy.compress_raw(encode({(("__name__", "up"),): [(now, 1.0)]})))
    answer = api.post("write", body, SNAPPY, status=500)
    assert answer["errorType"] == "internal"
    assert "No space left on device" in answer["error"]


def test_status_endpoints(api: Api, now: int) -> None:
    assert api.get("status/buildinfo")["data"]["revision"] == "svc-embedded-tsdb"
    assert set(api.get("status/runtimeinfo")["data"]) >= {"startTime", "storageRetention", "corruptionCount"}
    assert api.get("status/flags")["data"] == {}
    assert api.get("status/config")["data"] == {"yaml": ""}
    data = api.get("status/tsdb", limit=1)["data"]
    assert data["headStats"]["numSeries"] == 2
    assert data["seriesCountByMetricName"] == [{"name": "load", "value": 2}]
    assert data["labelValueCountByLabelName"] == [{"name": "host", "value": 2}]
    assert api.get("format_query", query=" sum(up)by(job) ")["data"] == "sum by (job) (up)"
    assert api.get("parse_query", query="1 + up")["data"]["lhs"] == {"type": "numberLiteral", "val": "1"}
    assert api.get("query_exemplars", query="up", start=1, end=2)["data"] == []


def test_unknown_paths_and_methods(api: Api) -> None:
    assert api.get("nothing", status=404)["errorType"] == "not_found"
    assert api.client.simulate_delete("/api/v1/query").status_code == 405


def test_admin_endpoints_only_with_their_switch(api: Api) -> None:
    answer = api.post("admin/tsdb/delete_series", query=urlencode({"match[]": "load"}), status=404)
    assert answer == {"status": "error", "errorType": "unavailable", "error": "admin APIs disabled"}
    assert len(api.get("query", query="load")["data"]["result"]) == 2


def test_admin_endpoints(make_api: Any, encode: Any, now: int, tmp_path: Path) -> None:
    api = make_api(enable_admin=True)
    api.box.store.write(encode({(("__name__", name),): [(now, 1.0)] for name in ("a", "b")}))
    api.post("admin/tsdb/delete_series", status=400)
    api.post("admin/tsdb/delete_series", urlencode({"match[]": "a"}).encode(), status=204)
    assert [row["metric"]["__name__"] for row in api.get("query", query='{__name__=~".+"}')["data"]["result"]] == ["b"]
    api.post("admin/tsdb/clean_tombstones", status=204)
    assert api.get("label/__name__/values")["data"] == ["b"]
    name = api.post("admin/tsdb/snapshot")["data"]["name"]
    assert (tmp_path / "tsdb" / "snapshots" / name / "blocks").is_dir()
    api.post("admin/tsdb/snapshot", query="skip_head=maybe", status=400)


def test_there_are_no_rules_alerts_or_targets(api: Api) -> None:
    assert api.get("rules")["data"] == {"groups": []}
    assert api.get("alerts")["data"] == {"alerts": []}
    assert api.get("targets")["data"] == {"activeTargets": [], "droppedTargets": []}


def test_metrics_have_their_standard_names(api: Api) -> None:
    text = api.client.simulate_get("/metrics").text
    for name in (
        "prometheus_tsdb_head_series 2.0",
        'prometheus_tsdb_head_samples_appended_total{type="float"} 22.0',
        "prometheus_tsdb_storage_blocks_bytes 0.0",
        "prometheus_tsdb_wal_corruptions_total 0.0",
        "prometheus_engine_queries 0.0",
        "prometheus_engine_queries_concurrent_max 20.0",
    ):
        assert f"\n{name}\n" in text
    assert api.client.simulate_get("/-/ready").status_code == 200


def test_caches_are_counted(api: Api, now: int) -> None:
    def counted() -> dict[str, float]:
        lines = api.client.simulate_get("/metrics").text.splitlines()
        rows = [line.rpartition(" ") for line in lines if line.startswith("svc_tsdb_cache")]
        return {name: float(value) for name, _, value in rows}

    before = counted()
    for _ in range(3):
        api.get("query", query='load{cpu=~"never asked before|[01]"}', time=now / 1000)
    after = counted()
    requests = 'svc_tsdb_cache_requests_total{cache="%s",outcome="%s"}'
    assert after[requests % ("expression", "hit")] == before[requests % ("expression", "hit")] + 2
    assert after[requests % ("expression", "miss")] == before[requests % ("expression", "miss")] + 1
    assert after['svc_tsdb_cache_entries{cache="expression"}'] == 1
    assert after[requests % ("regex", "miss")] == before[requests % ("regex", "miss")] + 1
    assert after['svc_tsdb_cache_entries{cache="regex"}'] > 0


def test_a_crash_is_an_internal_error_without_details(api: Api, monkeypatch: Any, caplog: Any) -> None:
    monkeypatch.setattr(api.box.store, "label_names", lambda *_: 1 / 0)
    answer = api.get("labels", status=500)
    assert (answer["errorType"], answer["error"]) == ("internal", "internal error; see the log of the store")
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1", 1000),
        ("1.0005", 1000),
        ("-1.5", -1500),
        ("1e3", 1_000_000),
        (".5", 500),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000_123),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
    ],
)
def test_times(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["x", "nan", "inf", "1e30", "2023-11-14", "2023-13-14T22:13:20Z", "2023-11-14 22:13:20Z", "1_0"]
)
def test_bad_times(text: str) -> None:
    with pytest.raises(ValueError, match="cannot parse"):
        parse_time(text)


def test_durations() -> None:
    assert [parse_seconds_or_duration(text) for text in ("15", "0.5", "1h30m")] == [15_000, 500, 5_400_000]
    for text in ("x", "1e30", "1m1h", "-"):
        with pytest.raises(ValueError, match="cannot parse"):
            parse_seconds_or_duration(text)


def test_slots_make_surplus_requests_wait() -> None:
    slots = Slots(1)
    inside, leave, done = threading.Event(), threading.Event(), threading.Event()

    def hold() -> None:
        with slots.slot(lambda: False, 10):
            inside.set()
            leave.wait(PATIENCE)

    def queue() -> None:
        with slots.slot(lambda: False, 10):
            done.set()

    threads = [threading.Thread(target=hold), threading.Thread(target=queue)]
    threads[0].start()
    inside.wait(PATIENCE)
    with pytest.raises(SlotCanceled), slots.slot(lambda: True, 10):
        pass
    with pytest.raises(SlotTimeout), slots.slot(lambda: False, 0):
        pass
    threads[1].start()
    assert not done.is_set()
    leave.set()
    assert done.wait(PATIENCE)
    for thread in threads:
        thread.join()
    assert (slots.running, slots.waiting) == (0, 0)
