"""The contract of writers: a good plugin passes, and each clause fails for a plugin that breaks it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugin.flawed import Case, clauses, doze, expect_complaint

from tocsin.ingest import _wire_py
from tocsin.plugin import (
    Batch,
    HttpAnswer,
    HttpClient,
    HttpOptions,
    SettingsError,
    WriteError,
    Writer,
    WriterContext,
    WriteResult,
)
from tocsin.plugin.testkit._imports import BareCore
from tocsin.plugin.testkit.components import Request
from tocsin.plugin.testkit.contract import SECRET
from tocsin.plugin.testkit.writer import BATCH, BODY, WriterContract

sys.path.append(str(Path(__file__).parent / "samples"))  # packages of their own, as installed plugins are
if TYPE_CHECKING:
    from tests.plugin.samples.tocsin_writer_sample import SampleWriter, SampleWriterType
else:
    from tocsin_writer_sample import SampleWriter, SampleWriterType


class SampleContract(WriterContract):
    plugin = "tocsin_writer_sample"

    def element(self, url: str, secret: str = SECRET) -> Mapping[str, Any]:
        return {"Url": url, "Password": secret, "Timeout": self.limit}

    def received(self, request: Request) -> bytes:
        return request.body


class TestSample(SampleContract):
    """The sample plugin keeps the contract."""


# --- plugins that break one clause each


class Swallows(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        try:
            return super().write(batch)
        except WriteError:
            return WriteResult()


class Only200(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        if self.post(batch.body, {}).status != 200:
            raise WriteError("not 200")
        return WriteResult()


class Truncates(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        return super().write(Batch(batch.body[:-1], batch.series, batch.samples))


class RepeatsRefusals(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        result = super().write(batch)
        return super().write(batch) if result.refused_with else result


class HidesRefusals(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        super().write(batch)
        return WriteResult()


class HidesTheReason(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        return WriteResult(super().write(batch).refused_with)


class Slow(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        doze()
        return super().write(batch)


class Impatient(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        try:
            return super().write(batch)
        except WriteError as error:
            raise WriteError(str(error), status=error.status) from None


class BreaksForGood(SampleWriter):
    broken = False

    def write(self, batch: Batch) -> WriteResult:
        if self.broken:
            raise WriteError("still broken")
        try:
            return super().write(batch)
        except WriteError:
            self.broken = True
            raise


class FollowsRedirects(SampleWriter):
    def post(self, body: bytes, headers: Mapping[str, str], query: str = "") -> HttpAnswer:
        answer = super().post(body, headers, query)
        if answer.status == 307:
            return self.client.request("POST", "", url=answer.headers["location"], body=body)
        return answer


class TakesRedirectsForSuccess(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        result = super().write(batch)
        return WriteResult() if result.refused_with == 307 else result


class TellsPassword(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        try:
            return super().write(batch)
        except WriteError as error:
            raise WriteError(f"{error} ({self.client.options.password})") from None


class LogsPassword(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        logging.getLogger("sample").debug("as user:%s", self.client.options.password)
        return super().write(batch)


class RepeatsTheBackend(SampleWriter):
    def write(self, batch: Batch) -> WriteResult:
        answer = self.post(batch.body, {})
        return WriteResult(answer.status, answer.body.decode())


class LabelsWithPassword(SampleWriter):
    def __init__(self, client: HttpClient) -> None:
        super().__init__(client)
        self.url = f"{self.url}?key={client.options.password}"


class OneBatchTwice(SampleWriter):
    last = b""

    def write(self, batch: Batch) -> WriteResult:
        body, self.last = self.last or batch.body, batch.body
        return super().write(Batch(body, batch.series, batch.samples))


class RewritesRaw(SampleWriter):
    def forward_raw(self, body: bytes, headers: Mapping[str, str], query: str = "") -> None:
        super().forward_raw(body.strip(b"\x00"), headers, query)


class LendsCredentials(SampleWriter):
    def forward_raw(self, body: bytes, headers: Mapping[str, str], query: str = "") -> None:
        client = HttpClient(HttpOptions(self.client.options.urls))
        answer = client.request("POST", "", body=body, headers=headers, query=query)
        client.close()
        if answer.status >= 300:
            raise WriteError("no", status=answer.status)


class DropsTheStatus(SampleWriter):
    def forward_raw(self, body: bytes, headers: Mapping[str, str], query: str = "") -> None:
        try:
            super().forward_raw(body, headers, query)
        except WriteError as error:
            raise WriteError(str(error)) from None


class LeavesOpen(SampleWriter):
    def close(self) -> None:
        return


class AnyAddress(SampleWriterType):
    def build(self, settings: Any, context: WriterContext) -> Writer:
        return SampleWriter(HttpClient(HttpOptions(("http://127.0.0.1:9",))))


class ShowsPassword(SampleWriterType):
    def build(self, settings: Any, context: WriterContext) -> Writer:
        raise SettingsError(f"Samples: cannot use {settings.password}")


class Eager(SampleWriterType):
    def build(self, settings: Any, context: WriterContext) -> Writer:
        writer = super().build(settings, context)
        try:
            writer.write(Batch(b"", 0, 0))
        except WriteError:
            return writer
        return writer


class Unreachable(SampleWriterType):
    config_key = ""


class Shouting(SampleWriterType):
    name = "SAMPLE"


def with_writer(kind: type[SampleWriter]) -> Callable[[], SampleWriterType]:
    return lambda: type("Flawed", (SampleWriterType,), {"writer": kind})()


CASES = [
    Case("test_importing_it_loads_nothing_third_party", "tocsin_writer_heavy", "urllib3"),
    Case("test_core_is_used_through_its_public_api", "tocsin_writer_private", "imports tocsin.store.vault"),
    Case("test_the_service_takes_it", "tocsin_writer_faulty", "no writers today"),
    Case("test_it_describes_itself", Unreachable, "nothing can ever configure it"),
    Case("test_it_describes_itself", Shouting, "SAMPLE"),
    Case("test_building_uses_no_network", Eager, "opened a connection"),
    Case("test_settings_that_cannot_work_stop_the_start", AnyAddress, "no address: build"),
    Case("test_a_batch_arrives_as_it_is", with_writer(Only200), "not 200", 204),
    Case("test_a_batch_arrives_as_it_is", with_writer(Truncates), "At index 0 diff", 200),
    Case("test_a_refusal_is_told_and_not_repeated", with_writer(HidesRefusals), "refused_with", 404),
    Case("test_a_refusal_is_told_and_not_repeated", with_writer(HidesTheReason), "out of bounds", 404),
    Case("test_a_refusal_is_told_and_not_repeated", with_writer(RepeatsRefusals), "sent again", 400),
    Case("test_a_fault_is_worth_another_try", with_writer(Swallows), "DID NOT RAISE", "reset"),
    Case("test_a_fault_is_worth_another_try", with_writer(Slow), "with a limit of", "server error"),
    Case("test_the_backends_wish_to_wait_is_passed_on", with_writer(Impatient), "retry_after", 429),
    Case("test_it_works_again_when_the_backend_does", with_writer(BreaksForGood), "still broken"),
    Case("test_a_redirect_is_no_success_and_gets_no_credentials", with_writer(FollowsRedirects), "for success"),
    Case("test_a_redirect_is_no_success_and_gets_no_credentials", with_writer(TakesRedirectsForSuccess), "for success"),
    Case("test_no_secret_leaves_in_errors_labels_or_logs", with_writer(TellsPassword), "a secret in", "reset"),
    Case("test_no_secret_leaves_in_errors_labels_or_logs", with_writer(LogsPassword), "a secret in", "reset"),
    Case("test_no_secret_leaves_in_errors_labels_or_logs", with_writer(RepeatsTheBackend), "a secret in", "echo"),
    Case("test_no_secret_leaves_in_errors_labels_or_logs", with_writer(LabelsWithPassword), "a secret in", "echo"),
    Case("test_settings_that_cannot_work_stop_the_start", ShowsPassword, "a secret in"),
    Case("test_threads_share_a_writer", with_writer(OneBatchTwice), "assert"),
    Case("test_a_raw_body_is_passed_on_unread", with_writer(RewritesRaw), "At index 0 diff"),
    Case("test_a_raw_body_is_passed_on_unread", with_writer(LendsCredentials), "caller"),
    Case("test_a_raw_body_is_passed_on_unread", with_writer(DropsTheStatus), "404"),
    Case("test_closing_gives_up_connections", with_writer(LeavesOpen), "the end of all connections"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.clause}-{case.complaint}")
def test_a_plugin_that_breaks_a_clause_fails_it(
    case: Case, caplog: pytest.LogCaptureFixture, bare_core: BareCore
) -> None:
    expect_complaint(SampleContract, case, caplog=caplog, bare_core=bare_core)


def test_the_kits_batch_is_one() -> None:
    assert _wire_py.skip(BODY, 0, BATCH.series) == (len(BODY), BATCH.series)


def test_every_clause_has_a_plugin_that_breaks_it() -> None:
    assert clauses(WriterContract) == {case.clause for case in CASES}
