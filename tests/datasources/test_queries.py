"""Queries of the page API: steps, points, order, errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.datasources.queries import effective_step
from tocsin.plugin import DatasourceError, MetricQuery, Series, SettingsError
from tocsin.plugin.testkit import AppFactory, TestApp, dat, err


@pytest.mark.parametrize(
    ("span", "step", "max_points", "expected"),
    [
        (3600, 15, 1000, (15, False)),
        (3600, 0, 1000, (4, False)),
        (86400, 15, 1000, (87, True)),
        (1000, 1, 1000, (1, False)),
        (1001, 1, 1000, (2, True)),
        (0, 0, 1000, (1, False)),
        (0, 5, 1, (5, False)),
        (10, 0.5, 1000, (0.5, False)),
    ],
)
def test_steps(span: float, step: float, max_points: int, expected: tuple[float, bool]) -> None:
    assert effective_step(span, step, max_points) == expected


@given(st.floats(0, 1e9), st.just(0.0) | st.floats(0.001, 1e6), st.integers(1, 20000))
def test_no_range_has_more_points_than_asked_for(span: float, step: float, max_points: int) -> None:
    chosen, raised = effective_step(span, step, max_points)
    assert chosen > 0
    assert span // chosen <= max_points
    assert not raised or chosen > step > 0


def batch(app: TestApp, kind: str, **body: Any) -> Any:
    return app.root.post(f"/api/svc/query-{kind}-batch", body)


def ramp(query: MetricQuery) -> Sequence[Series]:
    if query.is_instant:
        return [Series({"q": query.spec["query"]}, (query.end,), (0.5,))]
    return [Series({"q": query.spec["query"]}, (query.start, query.end), (1.0, float("nan")))]


def test_a_range_batch_answers_in_order_with_values_as_texts(
    app: TestApp, journal: Any, save: Callable[..., int]
) -> None:
    journal.answer = ramp
    queries = [{"query": "a", "start": 100, "end": 200, "step": 10}, {"query": "b", "start": 0.5, "end": 5000.5}]
    answer = batch(app, "range", datasource_id=save(), queries=queries)
    first, second = dat(answer)
    assert first == [{"metric": {"q": "a"}, "values": [[100.0, "1"], [200.0, "NaN"]]}]
    assert second == [{"metric": {"q": "b"}, "values": [[0.5, "1"], [5000.5, "NaN"]]}]
    assert (answer.json()["truncated"], answer.json()["steps"]) == (False, [10.0, 5.0])
    assert [(q.start, q.end, q.step) for q in journal.asked] == [(100, 200, 10), (0.5, 5000.5, 5)]


def test_steps_are_raised_to_keep_to_max_points(app: TestApp, journal: Any, save: Callable[..., int]) -> None:
    journal.answer = ramp
    day = {"query": "a", "start": 100000, "end": 186400}
    saved = save()
    answer = batch(app, "range", datasource_id=saved, queries=[{**day, "step": 15}])
    assert (answer.json()["truncated"], answer.json()["steps"]) == (True, [87.0])
    answer = batch(app, "range", datasource_id=saved, queries=[{**day, "step": 15, "max_points": 6000}])
    assert (answer.json()["truncated"], answer.json()["steps"]) == (False, [15.0])
    answer = batch(app, "range", datasource_id=saved, queries=[day], step=60, max_points=100)
    assert (answer.json()["truncated"], answer.json()["steps"]) == (True, [864.0])


def test_an_instant_batch(app: TestApp, journal: Any, save: Callable[..., int]) -> None:
    journal.answer = ramp
    queries = [{"query": "a", "time": 100}, {"query": "b", "time": 200.25}]
    answer = batch(app, "instant", datasource_id=save(), queries=queries)
    assert dat(answer) == [
        [{"metric": {"q": "a"}, "value": [100.0, "0.5"]}],
        [{"metric": {"q": "b"}, "value": [200.25, "0.5"]}],
    ]
    assert "truncated" not in answer.json()


def test_the_first_failure_ends_a_batch(app: TestApp, journal: Any, save: Callable[..., int]) -> None:
    def fails(query: MetricQuery) -> Sequence[Series]:
        raise DatasourceError("bad_data: parse error", refused=True)

    journal.answer = fails
    answer = batch(app, "instant", datasource_id=save(), queries=[{"query": "a", "time": 1}, {"query": "b", "time": 1}])
    assert err(answer) == "bad_data: parse error"
    assert answer.headers["x-error-code"] == "invalid"
    assert len(journal.asked) == 1


def test_the_datasources_own_timeout_holds(app: TestApp, journal: Any, save: Callable[..., int]) -> None:
    saved = save(http={"url": "http://127.0.0.1:9", "timeout": 1500})
    dat(batch(app, "instant", datasource_id=saved, queries=[{"query": "a", "time": 1}]))
    assert journal.asked[0].timeout == 1.5


@pytest.mark.parametrize(
    ("kind", "query", "message"),
    [
        ("range", {"start": 1, "end": 2, "step": 1}, "queries.0.query: Missing data"),
        ("range", {"query": "", "start": 1, "end": 2}, "queries.0.query"),
        ("range", {"query": "up", "end": 2}, "queries.0.start: Missing data"),
        ("range", {"query": "up", "start": 0, "end": 2}, "queries.0.start"),
        ("range", {"query": "up", "start": 3, "end": 2}, "queries[0].end: got 2, expected a time not before start 3"),
        ("range", {"query": "up", "start": 1, "end": 2, "step": -1}, "queries.0.step: got -1, expected seconds"),
        ("range", {"query": "up", "start": 1, "end": 2, "step": 0.0001}, "queries.0.step: got 0.0001"),
        ("range", {"query": "up", "start": 1, "end": 2, "max_points": -1}, "queries.0.max_points"),
        ("range", {"query": "up", "start": "x", "end": 2}, "queries.0.start: got a text, expected a number"),
        ("instant", {"query": "up"}, "queries.0.time: Missing data"),
        ("instant", {"query": 5, "time": 1}, "queries.0.query: got 5, expected a text"),
    ],
)
def test_faults_in_a_query_are_named(
    app: TestApp, save: Callable[..., int], kind: str, query: dict[str, Any], message: str
) -> None:
    assert message in err(batch(app, kind, datasource_id=save(), queries=[query]))


def test_a_batch_needs_a_datasource_that_exists(app: TestApp) -> None:
    queries = [{"query": "up", "time": 1}]
    assert err(batch(app, "instant", datasource_id=77, queries=queries)) == "no such datasource id: 77"
    assert "datasource_id" in err(batch(app, "instant", queries=queries))
    assert "queries" in err(batch(app, "instant", datasource_id=1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"MaxPoints": 0}, "Datasource.MaxPoints: got 0, expected a number of at least 1"),
        ({"DeniedNetworks": ["10.0.0.0/33"]}, "Datasource.DeniedNetworks: got ['10.0.0.0/33'], expected networks like"),
        ({"CheckTimeout": 0}, "Datasource.CheckTimeout"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(make_app: AppFactory, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        make_app(settings={"Datasource": settings})
    assert message in str(caught.value)


def test_the_number_of_points_is_a_setting(make_app: AppFactory, plugin: Any, journal: Any) -> None:
    app = make_app(plugins=[plugin], settings={"Datasource": {"MaxPoints": 10}}, start="http")
    body = {"name": "s", "plugin_type": "store", "http": {"url": "http://127.0.0.1:9"}}
    saved = dat(app.root.post("/api/svc/datasource/upsert", body))["id"]
    answer = batch(app, "range", datasource_id=saved, queries=[{"query": "a", "start": 100, "end": 200, "step": 1}])
    assert (answer.json()["truncated"], answer.json()["steps"]) == (True, [10.0])
