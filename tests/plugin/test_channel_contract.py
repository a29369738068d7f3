"""The contract of channels: a good plugin passes, and each clause fails for a plugin that breaks it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugin.flawed import Case, clauses, doze, expect_complaint

from tocsin.plugin import (
    ChannelSeed,
    Delivery,
    HttpClient,
    HttpOptions,
    Receipt,
    SendError,
    SendPlan,
    TemplateSeed,
)
from tocsin.plugin.testkit._imports import BareCore
from tocsin.plugin.testkit.channel import ChannelContract
from tocsin.plugin.testkit.contract import SECRET

sys.path.append(str(Path(__file__).parent / "samples"))  # packages of their own, as installed plugins are
if TYPE_CHECKING:
    from tests.plugin.samples.tocsin_channel_sample import SampleChannel
else:
    from tocsin_channel_sample import SampleChannel


class SampleContract(ChannelContract):
    plugin = "tocsin_channel_sample"
    fields = ("content",)
    bad = b"no"

    def request_config(self, url: str, secret: str = SECRET) -> dict[str, Any]:
        return {"url": url, "key": secret}


class TestSample(SampleContract):
    """The sample plugin keeps the contract."""


# --- plugins that break one clause each


class Spaced(SampleChannel):
    ident = "two words"


class Untitled(SampleChannel):
    title = " "


class Never(SampleChannel):
    def plan(self, config: Mapping[str, Any]) -> SendPlan:
        return SendPlan(attempts=0)


class RefusesAll(SampleChannel):
    def check(self, config: Mapping[str, Any]) -> None:
        raise ValueError("not today")


class BadSeed(SampleChannel):
    def default_channels(self) -> Sequence[ChannelSeed]:
        return [ChannelSeed("Sample", {})]


class BadTemplate(SampleChannel):
    def default_templates(self) -> Sequence[TemplateSeed]:
        return [TemplateSeed("Sample", {"content": "{{$event.No}}"})]


class TakesAll(SampleChannel):
    def check(self, config: Mapping[str, Any]) -> None:
        return


class TellsAtCheck(SampleChannel):
    def check(self, config: Mapping[str, Any]) -> None:
        raise ValueError(f"cannot use {config}")


class Eager(SampleChannel):
    def check(self, config: Mapping[str, Any]) -> None:
        super().check(config)
        client = HttpClient(HttpOptions((config["url"],), timeout=0.05))
        client.request("GET", "")


class Only200(SampleChannel):
    def judge(self, delivery: Delivery, client: HttpClient, status: int, text: str) -> Receipt:
        if status != 200:
            raise SendError("not 200", retryable=False)
        return super().judge(delivery, client, status, text)


class Empty(SampleChannel):
    def post(self, client: HttpClient, delivery: Delivery) -> tuple[int, str]:
        client.request("POST", "")
        return 200, "ok"


class Taciturn(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        super().send(delivery)
        return Receipt("")


class Scribbles(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        delivery.events[0]["seen"] = True  # type: ignore[index]
        return super().send(delivery)


class Hopes(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        try:
            return super().send(delivery)
        except SendError as error:
            raise SendError(str(error)) from None


class GivesUp(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        try:
            return super().send(delivery)
        except SendError as error:
            raise SendError(str(error), retryable=False) from None


class HidesReason(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        try:
            return super().send(delivery)
        except SendError as error:
            raise SendError(str(error)[:8], retryable=error.retryable) from None


class HidesStatus(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        try:
            return super().send(delivery)
        except SendError as error:
            raise SendError("no such room", retryable=error.retryable) from None


class Insists(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        try:
            return super().send(delivery)
        except SendError:
            return super().send(delivery)


class Gullible(SampleChannel):
    def judge(self, delivery: Delivery, client: HttpClient, status: int, text: str) -> Receipt:
        return super().judge(delivery, client, status, f"{text}.")


class Swallows(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        try:
            return super().send(delivery)
        except SendError:
            return Receipt("HTTP 200")


class Silent(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        try:
            return super().send(delivery)
        except SendError as error:
            raise SendError("", retryable=error.retryable) from None


class Slow(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        doze()
        return super().send(delivery)


class Follows(SampleChannel):
    def post(self, client: HttpClient, delivery: Delivery) -> tuple[int, str]:
        answer = client.request("POST", "", body=delivery.content["content"].encode())
        if answer.status == 307:
            answer = client.request("POST", "", url=answer.headers["location"], body=b"x")
        return answer.status, "ok"


class ReadsAll(SampleChannel):
    def post(self, client: HttpClient, delivery: Delivery) -> tuple[int, str]:
        answer = client.request("POST", "", body=delivery.content["content"].encode(), timeout=delivery.timeout)
        return answer.status, answer.body.decode()


class ReadsToTheEnd(SampleChannel):
    def post(self, client: HttpClient, delivery: Delivery) -> tuple[int, str]:
        return client.request("POST", "", timeout=4.0).status, ""


class Verbose(SampleChannel):
    def judge(self, delivery: Delivery, client: HttpClient, status: int, text: str) -> Receipt:
        return Receipt(text * 100)


class Repeats(SampleChannel):
    def judge(self, delivery: Delivery, client: HttpClient, status: int, text: str) -> Receipt:
        return Receipt(f"HTTP {status}: {text}")


class Tells(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        try:
            return super().send(delivery)
        except SendError as error:
            raise SendError(f"{error} with {delivery.config}", retryable=error.retryable) from None


class Logs(SampleChannel):
    def send(self, delivery: Delivery) -> Receipt:
        logging.getLogger("sample").debug("with %s", delivery.config)
        return super().send(delivery)


class BreaksForGood(SampleChannel):
    broken = False

    def send(self, delivery: Delivery) -> Receipt:
        if self.broken:
            raise SendError("still broken")
        try:
            return super().send(delivery)
        except SendError:
            self.broken = True
            raise


class OneForAll(SampleChannel):
    last: Delivery | None = None

    def send(self, delivery: Delivery) -> Receipt:
        before, self.last = self.last or delivery, delivery
        return super().send(before)


CASES = [
    Case("test_importing_it_loads_nothing_third_party", "tocsin_channel_heavy", "urllib3"),
    Case("test_core_is_used_through_its_public_api", "tocsin_channel_private", "imports tocsin.store.vault"),
    Case("test_the_service_takes_it", "tocsin_channel_faulty", "no channels today"),
    Case("test_it_describes_itself", Spaced, "two words"),
    Case("test_it_describes_itself", Untitled, "no title"),
    Case("test_its_configuration_is_taken_and_its_plan_makes_sense", RefusesAll, "not today"),
    Case("test_its_configuration_is_taken_and_its_plan_makes_sense", Never, "attempts=0"),
    Case("test_what_it_brings_along_works", BadSeed, "channel Sample"),
    Case("test_what_it_brings_along_works", BadTemplate, r"template Sample \(en\).*No"),
    Case("test_configurations_that_cannot_work_are_refused", TakesAll, "no address: check"),
    Case("test_configurations_that_cannot_work_are_refused", TellsAtCheck, "a secret in"),
    Case("test_checking_uses_no_network", Eager, "opened a connection"),
    Case("test_every_success_status_is_one", Only200, "not 200", 204),
    Case("test_every_success_status_is_one", Empty, "not in the request", 200),
    Case("test_every_success_status_is_one", Taciturn, "does not tell the status", 200),
    Case("test_a_delivery_is_not_changed", Scribbles, "changed the delivery"),
    Case("test_a_refusal_is_final", Hopes, "would be tried again", 400),
    Case("test_a_refusal_is_final", HidesReason, "does not tell the reason", 404),
    Case("test_a_refusal_is_final", HidesStatus, "does not tell the status", 404),
    Case("test_a_refusal_is_final", Insists, "several requests", 403),
    Case("test_a_refusal_is_final", Swallows, "DID NOT RAISE", 422),
    Case("test_a_success_that_says_no_is_none", Gullible, "DID NOT RAISE"),
    Case("test_a_fault_of_the_receiver_is_an_error", Swallows, "DID NOT RAISE", 500),
    Case("test_a_fault_of_the_receiver_is_an_error", Insists, "several requests", 503),
    Case("test_what_does_not_arrive_is_worth_another_try", Swallows, "DID NOT RAISE", "reset"),
    Case("test_what_does_not_arrive_is_worth_another_try", GivesUp, "would be lost", "refused connection"),
    Case("test_what_does_not_arrive_is_worth_another_try", Silent, "no text", "reset"),
    Case("test_what_does_not_arrive_is_worth_another_try", Slow, "with a limit of", "reset"),
    Case("test_a_redirect_is_not_followed", Follows, "DID NOT RAISE"),
    Case("test_the_answer_is_not_waited_for_to_its_end", ReadsAll, "MiB of memory", "huge"),
    Case("test_the_answer_is_not_waited_for_to_its_end", ReadsToTheEnd, "with a limit of", "trickle"),
    Case("test_the_answer_is_not_waited_for_to_its_end", Verbose, "a text of", "huge"),
    Case("test_no_secret_leaves_in_receipts_errors_or_logs", Repeats, "a secret in", "taken"),
    Case("test_no_secret_leaves_in_receipts_errors_or_logs", Tells, "a secret in", "reset"),
    Case("test_no_secret_leaves_in_receipts_errors_or_logs", Logs, "a secret in", "refused"),
    Case("test_it_works_again_when_the_receiver_does", BreaksForGood, "still broken"),
    Case("test_threads_share_it", OneForAll, "assert"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.clause}-{case.complaint}")
def test_a_plugin_that_breaks_a_clause_fails_it(
    case: Case, caplog: pytest.LogCaptureFixture, bare_core: BareCore
) -> None:
    expect_complaint(SampleContract, case, caplog=caplog, bare_core=bare_core)


def test_every_clause_has_a_plugin_that_breaks_it() -> None:
    assert clauses(ChannelContract) == {case.clause for case in CASES}
