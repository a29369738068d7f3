"""The contract of writer types: subclass :class:`WriterContract` in your plugin's tests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

import pytest

from tocsin.app.config import Settings
from tocsin.app.settings import Loader, SettingsError
from tocsin.http.metrics import Metrics
from tocsin.plugin import Batch, WriteError, Writer, WriterContext, WriteResult, WriterType
from tocsin.plugin.testkit.backend import BackendContract, reveals_nothing
from tocsin.plugin.testkit.components import Answer, Hang, HttpSink, Redirect, Request, Reset
from tocsin.plugin.testkit.components.sink import Behaviour
from tocsin.plugin.testkit.contract import SECRET, silent_listener, within

FAULTS: Mapping[str, Behaviour | None] = {
    "refused connection": None,
    "server error": Answer(500, b"out of order"),
    "overload": Answer(503, b"later"),
    "reset": Reset(),
    "silence": Hang(),
}
TAKEN = (200, 202, 204)
REFUSED = (400, 403, 404, 413, 422)
# Two entries of field 1, each a TimeSeries with one label and one sample: a valid write request.
BODY = bytes.fromhex(
    "0a220a0e0a085f5f6e616d655f5f1202613112100900000000000059401080d095ffbc31"
    "0a220a0e0a085f5f6e616d655f5f1202613212100900000000000059401080d095ffbc31"
)
BATCH = Batch(BODY, 2, 2)


class WriterContract(BackendContract, ABC):
    """What a writer type promises, tried against a backend that misbehaves.

    Set ``plugin``, write down one element of the configuration (:meth:`element`) and say how to get a batch back out of
    what arrived (:meth:`received`).
    """

    type_name: ClassVar[str] = ""
    """Which type to test when the plugin supplies several."""
    faults = FAULTS
    echoes: ClassVar[Mapping[str, int]] = {"echo": 400}

    @abstractmethod
    def element(self, url: str, secret: str = SECRET) -> Mapping[str, Any]:
        """Return one element of the configuration, with ``secret`` wherever credentials go and a limit of ``limit`` s."""

    @abstractmethod
    def received(self, request: Request) -> bytes:
        """Return the series that a request brought, in the wire format."""

    def unusable(self) -> Mapping[str, Mapping[str, Any]]:
        """Return elements that can never work, by what is wrong with them."""
        return {"no address": self.element(""), "another scheme": self.element("ftp://127.0.0.1")}

    @property
    def kind(self) -> WriterType:
        """The type under test."""
        return self.supplied(WriterType, self.type_name)

    def build(self, element: Mapping[str, Any]) -> Writer:
        """Return a writer for an element, its settings checked as the gateway checks them."""
        kind, settings = self.kind, dict(element)
        context = WriterContext(Settings({}), Metrics())
        if kind.settings is None:
            return kind.build(settings, context)
        loader = Loader({}, {})
        loaded: Any = loader.read(kind.settings, settings, kind.config_key)
        assert not loader.unknown, f"the settings class does not know {loader.unknown}"
        return kind.build(loaded, context)

    @contextmanager
    def writing(self, url: str) -> Iterator[Writer]:
        """Build a writer for a backend, and close it afterwards."""
        writer = self.build(self.element(url))
        try:
            yield writer
        finally:
            writer.close()

    def test_it_describes_itself(self) -> None:
        """The name is what logs say, the key is where its elements stand."""
        kind = self.kind
        assert kind.name == kind.name.strip().lower()
        assert kind.config_key or type(kind).implied is not WriterType.implied, "nothing can ever configure it"

    def test_building_uses_no_network(self) -> None:
        """A gateway starts while its backends are down."""
        with silent_listener() as (url, somebody_came), self.writing(url):
            assert not somebody_came(), "build() opened a connection"

    def test_settings_that_cannot_work_stop_the_start(self) -> None:
        """A mistake in the configuration is found at the start, not at the first batch."""
        for name, element in self.unusable().items():
            try:
                self.build(element).close()
            except SettingsError as error:
                told = str(error)
            else:
                pytest.fail(f"{name}: build() took it")
            reveals_nothing(told)

    @pytest.mark.parametrize("status", TAKEN)
    def test_a_batch_arrives_as_it_is(self, sink: HttpSink, status: int) -> None:
        """Every success status is one, and nothing is lost or changed on the way."""
        sink.default, self.limit = Answer(status), self.patience
        with self.writing(sink.url) as writer:
            result = writer.write(BATCH)
        assert result == WriteResult(), result
        assert [self.received(request) for request in sink.requests] == [BODY]

    @pytest.mark.parametrize("status", REFUSED)
    def test_a_refusal_is_told_and_not_repeated(self, sink: HttpSink, status: int) -> None:
        """The batch is lost, and the accounts say with which status."""
        sink.default, self.limit = Answer(status, b"out of bounds"), self.patience
        with self.writing(sink.url) as writer:
            result = writer.write(BATCH)
        assert result.refused_with == status
        assert "out of bounds" in result.detail
        assert len(sink.requests) == 1, "a refused batch was sent again"

    @pytest.mark.parametrize("fault", FAULTS)
    def test_a_fault_is_worth_another_try(self, sink: HttpSink, fault: str) -> None:
        """The gateway keeps the batch and decides when to repeat it; the writer itself gives up in time."""
        with self.writing(self.broken(sink, fault)) as writer, pytest.raises(WriteError) as caught:
            within(self.limit, lambda: writer.write(BATCH))
        assert str(caught.value).strip(), "the error has no text"

    @pytest.mark.parametrize("status", [429, 503])
    def test_the_backends_wish_to_wait_is_passed_on(self, sink: HttpSink, status: int) -> None:
        """``Retry-After`` makes a status worth another try, at the time the backend names."""
        sink.default, self.limit = Answer(status, b"slow down", {"Retry-After": "7"}), self.patience
        with self.writing(sink.url) as writer, pytest.raises(WriteError) as caught:
            writer.write(BATCH)
        assert caught.value.retry_after == 7.0
        assert caught.value.status == status

    def test_it_works_again_when_the_backend_does(self, sink: HttpSink) -> None:
        """A fault leaves nothing behind."""
        self.limit = 1.0  # the same writer waits in vain and is answered on a busy machine
        with self.writing(sink.url) as writer:
            for fault in [behaviour for behaviour in self.faults.values() if behaviour is not None]:
                sink.default = fault
                with pytest.raises(WriteError):
                    writer.write(BATCH)
                sink.default = Answer(204)
                assert writer.write(BATCH) == WriteResult()

    def test_a_redirect_is_no_success_and_gets_no_credentials(self, sink: HttpSink) -> None:
        """Samples and passwords go to the configured address only."""
        self.limit = self.patience
        with HttpSink() as elsewhere:
            sink.default = Redirect(f"{elsewhere.url}/x")
            with self.writing(sink.url) as writer:
                try:
                    assert writer.write(BATCH).refused_with, "a redirect was taken for success"
                except WriteError as error:
                    assert str(error)  # noqa: PT017 - either is a truthful account
            assert elsewhere.requests == [], "the redirect was followed"

    @pytest.mark.parametrize("fault", [*FAULTS, "echo"])
    def test_no_secret_leaves_in_errors_labels_or_logs(
        self, sink: HttpSink, fault: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Not even when the backend repeats our headers in its error."""
        caplog.set_level("DEBUG")
        with self.writing(self.broken(sink, fault)) as writer:
            texts = [writer.url, repr(writer)]
            try:
                texts.append(repr(writer.write(BATCH)))
            except WriteError as error:
                texts += [str(error), repr(error)]
        reveals_nothing("\n".join([*texts, caplog.text]))

    def test_threads_share_a_writer(self, sink: HttpSink) -> None:
        """Every queue has a consumer of its own; each batch arrives once."""
        sink.default, self.limit = Answer(204), self.patience
        bodies = [BODY.replace(b"a1", b"%02x" % number) for number in range(40)]
        with self.writing(sink.url) as writer:

            def work(part: list[bytes]) -> None:
                for body in part:
                    writer.write(Batch(body, 2, 2))

            self.at_once(partial(work, bodies[start::8]) for start in range(8))
        assert sorted(self.received(request) for request in sink.requests) == sorted(bodies)

    def test_a_raw_body_is_passed_on_unread(self, sink: HttpSink) -> None:
        """The pass-through endpoint changes nothing, and lends the caller's credentials to nobody."""
        raw = b"\x00not even snappy\xff"
        headers = {
            "content-type": "application/x-custom",
            "content-encoding": "zstd",
            "authorization": "Bearer caller",
            "cookie": "a=b",
        }
        self.limit = self.patience
        with self.writing(sink.url) as writer:
            if type(writer).forward_raw is Writer.forward_raw:
                pytest.skip("this writer passes no raw bodies on")
            writer.forward_raw(raw, headers, "tenant=1")
            sink.default = Answer(404, b"no")
            with pytest.raises(WriteError) as caught:
                writer.forward_raw(raw, headers)
        assert caught.value.status == 404
        first = sink.requests[0]
        assert first.body == raw
        assert first.query == {"tenant": ["1"]}
        assert first.headers["content-type"] == "application/x-custom"
        assert first.headers["content-encoding"] == "zstd"
        assert "caller" not in repr(first.headers)
        assert "cookie" not in first.headers

    def test_closing_gives_up_connections(self, sink: HttpSink) -> None:
        """A writer that is no longer configured leaves no socket behind."""
        self.limit = self.patience
        with self.writing(sink.url) as writer:
            writer.write(BATCH)
        self.no_connection_is_left(sink)
