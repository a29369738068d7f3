"""The contract of channel types that speak HTTP: subclass :class:`ChannelContract` in your plugin's tests."""

from __future__ import annotations

import copy
import datetime as dt
import re
import time
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import pytest

from tocsin.http.metrics import Metrics
from tocsin.notify.metrics import NotifyMetrics
from tocsin.notify.providers import Providers, fault_of
from tocsin.notify.rendering import FieldError, Renderer
from tocsin.notify.trials import mock_event
from tocsin.plugin import ChannelType, Delivery, Receipt, SendError
from tocsin.plugin.testkit.backend import LIMIT, BackendContract, everything, reveals_nothing
from tocsin.plugin.testkit.components import Answer, Hang, HttpSink, Huge, Redirect, Reset, Trickle
from tocsin.plugin.testkit.components.sink import Behaviour
from tocsin.plugin.testkit.contract import SECRET, silent_listener, within
from tocsin.template import TemplateEngine, field_functions

LONGEST_TEXT = 2000
"""Characters that a receipt or error may have: it goes into a database row and onto a page."""
MOST_MEMORY = 16 << 20
"""Bytes that an attempt may take, whatever the receiver answers."""
MARK = "mark-4711"
"""What the tests look for in requests: it is in every field of the message and the name of the event's rule."""
TAKEN = (200, 201, 202, 204)
REFUSED = (400, 403, 404, 422)
FAULTS: Mapping[str, Behaviour | None] = {"refused connection": None, "reset": Reset(), "silence": Hang()}


class ChannelContract(BackendContract, ABC):
    """What a channel type promises, tried against a receiver that misbehaves.

    Set ``plugin`` and write down a configuration (:meth:`request_config`); override what is special about your type.
    """

    ident: ClassVar[str] = ""
    """Which type to test when the plugin supplies several."""
    params: ClassVar[Mapping[str, Any]] = {}
    """What a notification rule fills in."""
    targets: ClassVar[tuple[str, ...]] = ()
    """Recipients, for channels that send to people."""
    fields: ClassVar[tuple[str, ...]] = ("title", "content")
    """The fields of the message template that the channel puts into its requests."""
    faults = FAULTS
    echoes: ClassVar[Mapping[str, int]] = {"taken": 200, "refused": 400}
    good: ClassVar[bytes] = b"ok"
    """The body with which the receiver takes a notification."""
    bad: ClassVar[bytes] = b""
    """The body of a 200 with which it says no; empty when its protocol has none."""

    @abstractmethod
    def request_config(self, url: str, secret: str = SECRET) -> dict[str, Any]:
        """Return the configuration of a channel to ``url``, with ``secret`` wherever credentials go."""

    def unusable(self) -> Mapping[str, Mapping[str, Any]]:
        """Return configurations that can never work, by what is wrong with them."""
        return {"no address": self.request_config(""), "another scheme": self.request_config("ftp://127.0.0.1")}

    @property
    def kind(self) -> ChannelType:
        """The type under test."""
        return self.supplied(ChannelType, self.ident)

    def delivery(self, url: str, number: int = 0) -> Delivery:
        """Return a notification for the receiver at ``url``; ``number`` is in its texts."""
        event = mock_event(f"{MARK}-{number}", "contract", 1_700_000_000)
        content = dict.fromkeys(self.fields, f"{MARK}-{number}")
        text = _renderer(self.kind).channel_text(content, self.params, [event], self.targets)
        config = self.request_config(url)
        return Delivery(config, self.params, content, [event], text, self.targets, self.limit, f"key-{number}")

    def send(self, url: str) -> Receipt:
        """Send one notification within the limit."""
        delivery, kind = self.delivery(url), self.kind
        receipt: Receipt = within(self.limit, lambda: kind.send(delivery))
        assert isinstance(receipt, Receipt), f"send() returned {receipt!r}"
        return receipt

    def test_it_describes_itself(self) -> None:
        """Idents are part of addresses and templates; titles are for people."""
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", self.kind.ident), self.kind.ident
        assert self.kind.title.strip(), "it has no title"
        assert self.kind.request_type.strip(), "it has no request type"

    def test_its_configuration_is_taken_and_its_plan_makes_sense(self) -> None:
        """What the tests send with is what people may save."""
        config = self.request_config("http://127.0.0.1:9/x")
        assert fault_of(self.kind, config) == ""
        plan = self.kind.plan(config)
        assert plan.timeout > 0, plan
        assert plan.attempts >= 1, plan
        assert plan.interval >= 0, plan
        assert plan.concurrency >= 1, plan

    def test_what_it_brings_along_works(self) -> None:
        """Channels of a fresh installation can be saved, its templates can be rendered."""
        kind, event = self.kind, mock_event("CPU busy", "contract", 1_700_000_000)
        for seed in kind.default_channels():
            assert fault_of(kind, seed.request_config) == "", f"channel {seed.name}"
        for template in kind.default_templates():
            try:
                _renderer(kind).strict_message(template.content, kind.ident, [event], "http://127.0.0.1")
            except FieldError as error:
                pytest.fail(f"template {template.name} ({template.language or 'zh'}): {error}")

    def test_configurations_that_cannot_work_are_refused(self) -> None:
        """A mistake is found when the channel is saved, not at night."""
        for name, config in self.unusable().items():
            fault = fault_of(self.kind, config)
            assert fault, f"{name}: check() took it"
            reveals_nothing(fault)

    def test_checking_uses_no_network(self) -> None:
        """A channel can be saved while its receiver is down."""
        with silent_listener() as (url, somebody_came):
            fault_of(self.kind, self.request_config(url))
            self.kind.plan(self.request_config(url))
            assert not somebody_came(), "check() or plan() opened a connection"

    @pytest.mark.parametrize("status", TAKEN)
    def test_every_success_status_is_one(self, sink: HttpSink, status: int) -> None:
        """The message arrives once, and the receipt has the beginning of the answer."""
        sink.default, self.limit = Answer(status, self.good), self.patience
        receipt = self.send(sink.url)
        (request,) = sink.requests
        assert MARK in everything(request), "the message is not in the request"
        assert str(status) in receipt.response, f"the receipt does not tell the status: {receipt.response!r}"

    def test_a_delivery_is_not_changed(self, sink: HttpSink) -> None:
        """The same objects serve further attempts and other recipients."""
        sink.default, self.limit = Answer(200, self.good), self.patience
        delivery = self.delivery(sink.url)
        before = copy.deepcopy((delivery.config, delivery.params, delivery.content, delivery.events))
        self.kind.send(delivery)
        after = (delivery.config, delivery.params, delivery.content, delivery.events)
        assert after == before, "send() changed the delivery"

    @pytest.mark.parametrize("status", REFUSED)
    def test_a_refusal_is_final(self, sink: HttpSink, status: int) -> None:
        """The receiver has decided: sending the same again would get the same answer."""
        sink.default, self.limit = Answer(status, b"no such room"), self.patience
        with pytest.raises(SendError) as caught:
            self.send(sink.url)
        assert not caught.value.retryable, "the refusal would be tried again"
        assert str(status) in str(caught.value), f"the error does not tell the status: {caught.value}"
        assert "no such room" in f"{caught.value}{caught.value.response}", "the error does not tell the reason"
        assert len(sink.requests) == 1, "one attempt sent several requests"

    def test_a_success_that_says_no_is_none(self, sink: HttpSink) -> None:
        """Some receivers answer 200 with an error in the body."""
        if not self.bad:
            pytest.skip("this protocol has no such answer")
        sink.default, self.limit = Answer(200, self.bad), self.patience
        with pytest.raises(SendError):
            self.send(sink.url)

    @pytest.mark.parametrize("status", [500, 503])
    def test_a_fault_of_the_receiver_is_an_error(self, sink: HttpSink, status: int) -> None:
        """Whether another attempt helps is for the type to know."""
        sink.default, self.limit = Answer(status, b"out of order"), self.patience
        with pytest.raises(SendError, match=str(status)):
            self.send(sink.url)
        assert len(sink.requests) == 1, "one attempt sent several requests"

    @pytest.mark.parametrize("fault", FAULTS)
    def test_what_does_not_arrive_is_worth_another_try(self, sink: HttpSink, fault: str) -> None:
        """The attempt ends in time and says that another one may help."""
        with pytest.raises(SendError) as caught:
            self.send(self.broken(sink, fault))
        assert caught.value.retryable, "the notification would be lost"
        assert str(caught.value).strip(), "the error has no text"

    def test_a_redirect_is_not_followed(self, sink: HttpSink) -> None:
        """Messages and credentials go to the configured address only."""
        self.limit = self.patience
        with HttpSink(Answer(200, self.good)) as elsewhere:
            sink.default = Redirect(f"{elsewhere.url}/x")
            with pytest.raises(SendError):
                self.send(sink.url)
            assert not elsewhere.requests, "the message went elsewhere"

    @pytest.mark.parametrize("body", ["huge", "trickle"])
    def test_the_answer_is_not_waited_for_to_its_end(self, sink: HttpSink, body: str) -> None:
        """However much the receiver says, the attempt takes little memory and the time it has."""
        sink.default = Huge(1 << 40) if body == "huge" else Trickle(b"x" * 10_000, interval=0.02)
        tracemalloc.start()
        try:
            text = self.send(sink.url).response
        except SendError as error:
            text = f"{error}{error.response}"
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert len(text) <= LONGEST_TEXT, f"a text of {len(text)} characters"
        assert peak < MOST_MEMORY, f"{peak >> 20} MiB of memory"

    @pytest.mark.parametrize("fault", [*FAULTS, "taken", "refused"])
    def test_no_secret_leaves_in_receipts_errors_or_logs(
        self, sink: HttpSink, caplog: pytest.LogCaptureFixture, fault: str
    ) -> None:
        """Records are read by more people than may read the channel's configuration."""
        caplog.set_level(0)
        try:
            receipt = self.send(self.broken(sink, fault))
            text = f"{receipt.target} {receipt.response}"
        except SendError as error:
            text = f"{error} {error.response}"
        reveals_nothing("\n".join([text, caplog.text, repr(self.delivery(sink.url))]))

    def test_it_works_again_when_the_receiver_does(self, sink: HttpSink) -> None:
        """A fault leaves nothing behind."""
        kind = self.kind
        for behaviour in [fault for fault in self.faults.values() if fault is not None]:
            sink.default, self.limit = behaviour, LIMIT
            with pytest.raises(SendError):
                kind.send(self.delivery(sink.url))
            sink.default, self.limit = Answer(200, self.good), self.patience
            kind.send(self.delivery(sink.url))

    def test_threads_share_it(self, sink: HttpSink) -> None:
        """Every notification arrives once and whole when several are sent at once."""
        sink.default, self.limit = Answer(200, self.good), self.patience
        kind, deliveries = self.kind, [self.delivery(sink.url, number) for number in range(100, 140)]

        def work(part: list[Delivery]) -> None:
            for delivery in part:
                kind.send(delivery)

        self.at_once(partial(work, deliveries[start::8]) for start in range(8))
        found = sorted(re.findall(rf"{MARK}-(\d+)", everything(request))[0] for request in sink.requests)
        assert found == [str(number) for number in range(100, 140)]


def _renderer(kind: ChannelType) -> Renderer:
    engine = TemplateEngine(field_functions(time.time, dt.UTC))
    return Renderer(engine, Providers({kind.ident: kind}), NotifyMetrics(Metrics()))
