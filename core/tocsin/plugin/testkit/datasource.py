"""The contract of datasource types: subclass :class:`DatasourceContract` in your plugin's tests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from tocsin.plugin import Datasource, DatasourceConfig, DatasourceError, DatasourceType, LogQuery, MetricQuery
from tocsin.plugin.testkit.backend import LIMIT, BackendContract, reveals_nothing
from tocsin.plugin.testkit.components import Answer, Hang, HttpSink, Huge, Redirect, Request, Reset, Trickle
from tocsin.plugin.testkit.components.sink import Behaviour
from tocsin.plugin.testkit.contract import SECRET, forms_of, silent_listener, within

KNOWN_CAPABILITIES = frozenset(("metrics", "logs", "proxy", "alerting", "dashboard", "variable"))
FAULTS: Mapping[str, Behaviour | None] = {
    "refused connection": None,
    "server error": Answer(500, b"out of order"),
    "forbidden": Answer(403, b"not you"),
    "not this protocol": Answer(200, b"<html>a web page</html>", {"Content-Type": "text/html"}),
    "empty answer": Answer(200, b""),
    "half an answer": Reset(after=10),
    "reset": Reset(),
    "silence": Hang(),
    "trickle": Trickle(b"x" * 10_000, interval=0.02),
    "endless answer": Huge(1 << 40),
}


class DatasourceContract(BackendContract, ABC):
    """What a datasource type promises, tried against a backend that misbehaves.

    Set ``plugin``, say how a healthy backend answers (:meth:`healthy`), and override what is special about your type.
    """

    type_name: ClassVar[str] = ""
    """Which type to test when the plugin supplies several."""
    spec: ClassVar[Mapping[str, Any]] = {"query": "up"}
    """A query that a healthy backend answers."""
    other_spec: ClassVar[Mapping[str, Any]] = {"query": "down"}
    """A query that asks for something else."""
    faults = FAULTS
    echoes: ClassVar[Mapping[str, int]] = {"echo": 500}

    @abstractmethod
    def healthy(self, request: Request) -> Behaviour:
        """Return how a healthy backend answers a request of the type's check or of ``spec``."""

    def refusal(self, request: Request) -> Behaviour | None:
        """Return how a backend says that a query is wrong, or ``None`` when the protocol cannot."""
        return None

    def config(self, url: str, secret: str = SECRET) -> DatasourceConfig:
        """Return a configuration for the backend at ``url`` with ``secret`` wherever credentials go.

        ``limit`` is its time limit in seconds.
        """
        http = {
            "url": url,
            "timeout": int(self.limit * 1000),
            "dial_timeout": int(self.limit * 1000),
            "headers": {"X-Api-Key": secret},
        }
        auth = {"basic_auth": True, "basic_auth_user": "reader", "basic_auth_password": secret}
        return DatasourceConfig(1, "contract", self.kind.name, self.settings(), http, auth)

    def settings(self) -> Mapping[str, Any]:
        """Return the ``settings`` object of the configuration."""
        return {}

    def unusable(self) -> Mapping[str, DatasourceConfig]:
        """Return configurations that can never work, by what is wrong with them."""
        return {"no address": self.config(""), "another scheme": self.config("ftp://127.0.0.1")}

    @property
    def kind(self) -> DatasourceType:
        """The type under test."""
        return self.supplied(DatasourceType, self.type_name)

    @contextmanager
    def connected(self, url: str) -> Iterator[Datasource]:
        """Connect to a backend, and close afterwards."""
        datasource = self.kind.connect(self.config(url))
        try:
            yield datasource
        finally:
            datasource.close()

    def ask(self, datasource: Datasource, timeout: float | None = None) -> Any:
        """Send ``spec`` to a datasource, with ``limit`` as its time limit unless another is given."""
        seconds = self.limit if timeout is None else timeout
        if "metrics" in self.kind.capabilities:
            return datasource.query_metrics(MetricQuery(self.spec, 1700000000.0, 1700000000.0, timeout=seconds))
        return datasource.query_logs(LogQuery(self.spec, 1700000000.0, 1700003600.0, timeout=seconds))

    def test_it_describes_itself(self) -> None:
        """Name, title and capabilities are what users and the core go by."""
        kind = self.kind
        assert kind.name == kind.name.strip().lower()
        assert kind.title, "title is empty"
        assert kind.category, "category is empty"
        assert kind.capabilities <= KNOWN_CAPABILITIES, kind.capabilities - KNOWN_CAPABILITIES
        assert kind.capabilities & {"metrics", "logs"}, "it answers neither metrics nor logs"

    def test_its_schema_accepts_its_settings(self) -> None:
        """The settings these tests use are settings that people could save."""
        schema = self.kind.settings_schema()
        if schema is not None:
            assert schema(unknown="include").validate(self.settings()) == {}

    def test_public_settings_hold_no_secret(self) -> None:
        """Everybody sees them."""
        config = self.config("http://127.0.0.1:9")
        assert SECRET not in repr(self.kind.public_settings({**config.settings, "password": SECRET}) or {})

    def test_connecting_uses_no_network(self) -> None:
        """``connect`` only prepares: it is called while others wait."""
        with silent_listener() as (url, somebody_came), self.connected(url):
            assert not somebody_came(), "connect() opened a connection"

    def test_settings_that_cannot_work_are_refused_when_connecting(self) -> None:
        """Such a datasource is never saved, not even by force."""
        for name, config in self.unusable().items():
            try:
                self.kind.connect(config).close()
            except DatasourceError:
                continue
            pytest.fail(f"{name}: connect() took it")

    def test_check_passes_for_a_healthy_backend(self, sink: HttpSink) -> None:
        """A success means that the backend was asked."""
        sink.default, self.limit = self.healthy, self.patience
        with self.connected(sink.url) as datasource:
            within(LIMIT, lambda: datasource.check(self.limit))
        assert sink.requests, "check() passed without asking the backend"

    @pytest.mark.parametrize("fault", FAULTS)
    def test_check_fails_with_the_backend(self, sink: HttpSink, fault: str) -> None:
        """Whatever is wrong with the backend, ``check`` says so in time."""
        with self.connected(self.broken(sink, fault)) as datasource, pytest.raises(DatasourceError) as caught:
            within(self.limit, lambda: datasource.check(self.limit))
        assert str(caught.value).strip(), "the error has no text"

    @pytest.mark.parametrize("fault", FAULTS)
    def test_queries_fail_with_the_backend(self, sink: HttpSink, fault: str) -> None:
        """A backend out of order is no refusal of the question, and never an empty answer."""
        with self.connected(self.broken(sink, fault)) as datasource, pytest.raises(DatasourceError) as caught:
            within(self.limit, lambda: self.ask(datasource))
        assert str(caught.value).strip(), "the error has no text"
        assert not caught.value.refused, "refused is for questions that the backend understood"

    def test_a_query_keeps_to_its_own_limit(self, sink: HttpSink) -> None:
        """The query's timeout counts, where it is shorter than the datasource's."""
        sink.default, self.limit = Hang(), self.patience
        with self.connected(sink.url) as datasource, pytest.raises(DatasourceError):
            within(0.1, lambda: self.ask(datasource, 0.1))

    def test_queries_answer_with_columns(self, sink: HttpSink) -> None:
        """Times and values are parallel numbers, labels are texts; log rows are objects."""
        sink.default, self.limit = self.healthy, self.patience
        with self.connected(sink.url) as datasource:
            found = self.ask(datasource)
        if "metrics" not in self.kind.capabilities:
            assert all(isinstance(row, Mapping) for row in found.rows)
            return
        assert found, "the healthy backend's answer was lost"
        for series in found:
            assert len(series.timestamps) == len(series.values) > 0
            assert all(isinstance(value, float) for value in series.values), "values are floats"
            assert all(1e9 < at < 1e10 for at in series.timestamps), "times are seconds since the epoch"
            assert all(isinstance(text, str) for pair in series.labels.items() for text in pair)

    def test_a_wrong_question_is_refused(self, sink: HttpSink) -> None:
        """The backend's own words reach the user, and the rule that asks is to blame."""
        probe = Request("POST", "/", {}, {}, b"", 0.0)
        if self.refusal(probe) is None:
            pytest.skip("the protocol has no refusals")
        sink.default, self.limit = lambda request: self.refusal(request) or Answer(500), self.patience
        with self.connected(sink.url) as datasource, pytest.raises(DatasourceError) as caught:
            self.ask(datasource)
        assert caught.value.refused

    def test_it_works_again_when_the_backend_does(self, sink: HttpSink) -> None:
        """A fault leaves nothing behind."""
        self.limit = self.patience
        with self.connected(sink.url) as datasource:
            for fault in [behaviour for behaviour in self.faults.values() if behaviour is not None]:
                sink.default = fault
                with pytest.raises(DatasourceError):
                    self.ask(datasource, LIMIT)
                sink.default = self.healthy
                self.ask(datasource)

    @pytest.mark.parametrize("fault", [*FAULTS, "echo"])
    def test_no_secret_leaves_in_errors_or_logs(
        self, sink: HttpSink, fault: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Not even when the backend repeats our headers in its error."""
        caplog.set_level("DEBUG")
        with self.connected(self.broken(sink, fault)) as datasource:
            texts = [repr(datasource), repr(self.config(sink.url))]
            for call in (lambda: datasource.check(self.limit), lambda: self.ask(datasource)):
                with pytest.raises(DatasourceError) as caught:
                    call()
                texts += [str(caught.value), repr(caught.value)]
        reveals_nothing("\n".join([*texts, caplog.text]))

    def test_credentials_go_to_the_configured_address_only(self, sink: HttpSink) -> None:
        """A redirect is not followed with credentials."""
        with HttpSink() as elsewhere:
            elsewhere.default = self.healthy
            sink.default = Redirect(f"{elsewhere.url}/x")
            with self.connected(sink.url) as datasource:
                for call in (lambda: datasource.check(self.limit), lambda: self.ask(datasource)):
                    try:
                        call()
                    except DatasourceError:
                        continue
            told = "\n".join(repr(request) for request in elsewhere.requests)
        assert not [form for form in forms_of(SECRET) if form in told], f"credentials were sent elsewhere: {told}"

    def test_threads_share_a_datasource(self, sink: HttpSink) -> None:
        """Page requests and the alert engine ask at the same time."""
        sink.default, self.limit = self.healthy, self.patience
        with self.connected(sink.url) as datasource:
            self.at_once([lambda: [self.ask(datasource) for _ in range(5)]] * 8)

    def test_query_keys_tell_questions_apart(self) -> None:
        """Rules that ask the same share one query; others must not."""
        with self.connected("http://127.0.0.1:9") as datasource:
            assert datasource.query_key(dict(self.spec)) == datasource.query_key(dict(self.spec))
            assert datasource.query_key(self.spec) != datasource.query_key(self.other_spec)

    def test_what_it_can_do_is_what_it_says(self, sink: HttpSink) -> None:
        """Capabilities and methods agree."""
        with self.connected(sink.url) as datasource:
            can = {
                "metrics": type(datasource).query_metrics is not Datasource.query_metrics,
                "logs": type(datasource).query_logs is not Datasource.query_logs,
                "proxy": datasource.http_target() is not None,
            }
        assert {name for name, able in can.items() if able} == self.kind.capabilities & set(can)

    def test_passed_through_requests_carry_the_datasources_credentials(self, sink: HttpSink) -> None:
        """The proxy adds what the datasource needs, and nobody else's."""
        self.limit = self.patience
        with self.connected(sink.url) as datasource:
            client = datasource.http_target()
            if client is None:
                pytest.skip("not reached by HTTP")
            client.open("GET", "/x").close()
        told = repr(sink.requests[0].headers)
        assert [form for form in forms_of(SECRET) if form in told], "no credentials in a request through http_target()"

    def test_closing_gives_up_connections(self, sink: HttpSink) -> None:
        """A datasource that was changed or deleted leaves no socket behind."""
        sink.default, self.limit = self.healthy, self.patience
        with self.connected(sink.url) as datasource:
            self.ask(datasource)
        self.no_connection_is_left(sink)
