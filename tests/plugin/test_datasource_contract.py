"""The contract of datasources: a good plugin passes, and each clause fails for a plugin that breaks it."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from marshmallow import Schema, fields
from tests.plugin.flawed import Case, clauses, doze, expect_complaint

from tocsin.plugin import (
    Datasource,
    DatasourceConfig,
    DatasourceError,
    HttpClient,
    HttpOptions,
    LogPage,
    LogQuery,
    MetricQuery,
    Series,
)
from tocsin.plugin.testkit._imports import BareCore
from tocsin.plugin.testkit.components import Answer, Request
from tocsin.plugin.testkit.components.sink import Behaviour
from tocsin.plugin.testkit.contract import SECRET
from tocsin.plugin.testkit.datasource import DatasourceContract

SAMPLES = Path(__file__).parent / "samples"
sys.path.append(str(SAMPLES))  # the samples are packages of their own, as installed plugins are
if TYPE_CHECKING:
    from tests.plugin.samples.tocsin_datasource_sample import SampleSource, SampleType
else:
    from tocsin_datasource_sample import SampleSource, SampleType

HEALTHY = json.dumps({"series": [[{"__name__": "up"}, 1700000000, 1]]}).encode()


class SampleContract(DatasourceContract):
    plugin = "tocsin_datasource_sample"

    def healthy(self, request: Request) -> Behaviour:
        return Answer(200, HEALTHY)

    def refusal(self, request: Request) -> Behaviour:
        return Answer(400, b'{"error": "no such series"}')


class TestSample(SampleContract):
    """The sample plugin keeps the contract."""


# --- plugins that break one clause each


class CheckNothing(SampleSource):
    def check(self, timeout: float) -> None:
        return


class SilentFailure(SampleSource):
    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        try:
            return super().query_metrics(query)
        except DatasourceError:
            return []


class BlamesTheQuestion(SampleSource):
    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        try:
            return super().query_metrics(query)
        except DatasourceError as error:
            raise DatasourceError(str(error), refused=True) from None


class BlamesTheBackend(SampleSource):
    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        try:
            return super().query_metrics(query)
        except DatasourceError as error:
            raise DatasourceError(str(error)) from None


class ChecksLongAfter(SampleSource):
    def check(self, timeout: float) -> None:
        doze()
        super().check(timeout)


class IgnoresTheLimit(SampleSource):
    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        return super().query_metrics(replace(query, timeout=60.0))


class Milliseconds(SampleSource):
    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        return [Series(s.labels, [t * 1000 for t in s.timestamps], s.values) for s in super().query_metrics(query)]


class Texts(SampleSource):
    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        return [Series(s.labels, s.timestamps, ["1"]) for s in super().query_metrics(query)]  # type: ignore[list-item]


class Forgetful(SampleSource):
    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        super().query_metrics(query)
        return []


class BreaksForGood(SampleSource):
    broken = False

    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        if self.broken:
            raise DatasourceError("still broken")
        try:
            return super().query_metrics(query)
        except DatasourceError:
            self.broken = True
            raise


class TellsPassword(SampleSource):
    def check(self, timeout: float) -> None:
        try:
            super().check(timeout)
        except DatasourceError as error:
            raise DatasourceError(f"{error} (password {self.client.options.password})") from None


class LogsPassword(SampleSource):
    def check(self, timeout: float) -> None:
        logging.getLogger("sample").debug("asking with %s", self.client.options.headers)
        super().check(timeout)


class RepeatsTheBackend(SampleSource):
    def fetch(self, path: str, timeout: float) -> Any:
        answer = self.client.request("GET", path, timeout=timeout)
        if answer.status != 200:
            raise DatasourceError(answer.body.decode())
        return json.loads(answer.body)


class FollowsRedirects(SampleSource):
    def fetch(self, path: str, timeout: float) -> Any:
        answer = self.client.request("GET", path, timeout=timeout)
        if answer.status == 307:
            answer = self.client.request("GET", "", url=answer.headers["location"], timeout=timeout)
        return json.loads(answer.body)


class OneAtATime(SampleSource):
    busy = False

    def query_metrics(self, query: MetricQuery) -> Sequence[Series]:
        if self.busy:
            raise DatasourceError("another question is under way")
        self.busy = True
        try:
            time.sleep(0.01)
            return super().query_metrics(query)
        finally:
            self.busy = False


class OneKey(SampleSource):
    def query_key(self, spec: Mapping[str, Any]) -> str:
        return "the same"


class NeverTheSameKey(SampleSource):
    def query_key(self, spec: Mapping[str, Any]) -> str:
        return str(id(spec))


class MoreThanItSays(SampleSource):
    def query_logs(self, query: LogQuery) -> LogPage:
        return LogPage([], 0)


class BareProxy(SampleSource):
    def http_target(self) -> HttpClient | None:
        return HttpClient(HttpOptions(self.client.options.urls))


class LeavesOpen(SampleSource):
    def close(self) -> None:
        return


class AnyAddress(SampleType):
    def connect(self, config: DatasourceConfig) -> Datasource:
        return self.source(HttpClient(HttpOptions(())))


class Eager(SampleType):
    def connect(self, config: DatasourceConfig) -> Datasource:
        source = super().connect(config)
        with contextlib.suppress(DatasourceError):
            source.check(0.05)
        return source


class Untitled(SampleType):
    title = ""


class Boastful(SampleType):
    capabilities = frozenset(("metrics", "proxy", "teleport"))


class Shouting(SampleType):
    name = "SAMPLE"


class Picky(SampleType):
    def settings_schema(self) -> type[Schema]:
        return Schema.from_dict({"needed": fields.String(required=True)})


class Indiscreet(SampleType):
    def public_settings(self, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return settings


def with_source(kind: type[SampleSource]) -> Callable[[], SampleType]:
    return lambda: type("Flawed", (SampleType,), {"source": kind})()


CASES = [
    Case("test_importing_it_loads_nothing_third_party", "tocsin_datasource_heavy", "urllib3"),
    Case("test_core_is_used_through_its_public_api", "tocsin_datasource_private", "imports tocsin.store.vault"),
    Case("test_the_service_takes_it", "tocsin_datasource_faulty", "expected an instance of DatasourceType"),
    Case("test_it_describes_itself", Untitled, "title is empty"),
    Case("test_it_describes_itself", Boastful, "teleport"),
    Case("test_it_describes_itself", Shouting, "SAMPLE"),
    Case("test_its_schema_accepts_its_settings", Picky, "needed"),
    Case("test_public_settings_hold_no_secret", Indiscreet, SECRET),
    Case("test_connecting_uses_no_network", Eager, "opened a connection"),
    Case("test_settings_that_cannot_work_are_refused_when_connecting", AnyAddress, "no address: connect"),
    Case("test_check_passes_for_a_healthy_backend", with_source(CheckNothing), "without asking"),
    Case("test_check_passes_for_a_healthy_backend", with_source(ChecksLongAfter), "with a limit of"),
    Case("test_check_fails_with_the_backend", with_source(CheckNothing), "DID NOT RAISE", "server error"),
    Case("test_check_fails_with_the_backend", with_source(ChecksLongAfter), "with a limit of", "reset"),
    Case("test_queries_fail_with_the_backend", with_source(SilentFailure), "DID NOT RAISE", "reset"),
    Case("test_queries_fail_with_the_backend", with_source(BlamesTheQuestion), "refused is for", "silence"),
    Case("test_queries_fail_with_the_backend", with_source(RepeatsTheBackend), "Expecting value", "empty answer"),
    Case("test_a_query_keeps_to_its_own_limit", with_source(SilentFailure), "DID NOT RAISE"),
    Case("test_queries_answer_with_columns", with_source(Milliseconds), "seconds since the epoch"),
    Case("test_queries_answer_with_columns", with_source(Texts), "values are floats"),
    Case("test_queries_answer_with_columns", with_source(Forgetful), "was lost"),
    Case("test_a_wrong_question_is_refused", with_source(BlamesTheBackend), "refused"),
    Case("test_it_works_again_when_the_backend_does", with_source(BreaksForGood), "still broken"),
    Case("test_no_secret_leaves_in_errors_or_logs", with_source(TellsPassword), "a secret in", "reset"),
    Case("test_no_secret_leaves_in_errors_or_logs", with_source(LogsPassword), "a secret in", "reset"),
    Case("test_no_secret_leaves_in_errors_or_logs", with_source(RepeatsTheBackend), "a secret in", "echo"),
    Case("test_credentials_go_to_the_configured_address_only", with_source(FollowsRedirects), "sent elsewhere"),
    Case("test_threads_share_a_datasource", with_source(OneAtATime), "another question"),
    Case("test_query_keys_tell_questions_apart", with_source(OneKey), "the same"),
    Case("test_query_keys_tell_questions_apart", with_source(NeverTheSameKey), "assert"),
    Case("test_what_it_can_do_is_what_it_says", with_source(MoreThanItSays), "logs"),
    Case("test_passed_through_requests_carry_the_datasources_credentials", with_source(BareProxy), "no credentials"),
    Case("test_closing_gives_up_connections", with_source(LeavesOpen), "the end of all connections"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.clause}-{case.complaint}")
def test_a_plugin_that_breaks_a_clause_fails_it(
    case: Case, caplog: pytest.LogCaptureFixture, bare_core: BareCore
) -> None:
    expect_complaint(SampleContract, case, caplog=caplog, bare_core=bare_core)


def test_every_clause_has_a_plugin_that_breaks_it() -> None:
    assert clauses(DatasourceContract) == {case.clause for case in CASES}
