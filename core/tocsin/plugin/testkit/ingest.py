"""The contract of ingest protocols: subclass :class:`IngestContract` in your plugin's tests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from tocsin.http.context import Raw
from tocsin.ingest.interface import Verdict
from tocsin.ingest.wire import wire
from tocsin.plugin import Decoded, DecodeError, DecompressError, IngestProtocol, IngestRequest, IngestRoute, WireError
from tocsin.plugin.testkit._app import AppFactory
from tocsin.plugin.testkit.contract import PluginContract

REFUSALS = (DecodeError, DecompressError, WireError)
LIMIT = 1 << 20
"""Bytes that decompressing may produce in these tests."""


class IngestContract(PluginContract, ABC):
    """What a protocol promises: a body is decoded to the wire format or refused whole, within bounds."""

    protocol_name: ClassVar[str] = ""
    """Which protocol to test when the plugin supplies several."""

    @abstractmethod
    def valid(self) -> Mapping[str, IngestRequest]:
        """Return requests that carry at least one series, by what they show; ``max_decoded`` is replaced."""

    def refused(self) -> Mapping[str, IngestRequest]:
        """Return requests that must be refused whole, beside the truncated ones that the contract makes itself."""
        return {}

    def bomb(self) -> IngestRequest | None:
        """Return a small request that decompresses to more than a mebibyte, for protocols that compress."""
        return None

    @property
    def protocol(self) -> IngestProtocol:
        """The protocol under test."""
        return self.supplied(IngestProtocol, self.protocol_name)

    def decode(self, request: IngestRequest) -> Decoded:
        """Decode as the gateway does: by the route with the request's path, with a bound."""
        decoders = [route.decode for route in self.protocol.routes() if route.path == request.path and route.decode]
        assert decoders, f"no decoding route for {request.path}"
        return decoders[0](_bounded(request))

    def test_its_routes_are_well_formed(self) -> None:
        """Paths are absolute and apart, at least one of them decodes."""
        routes: Sequence[IngestRoute] = self.protocol.routes()
        assert any(route.decode for route in routes), "no route decodes anything"
        for route in routes:
            assert route.path.startswith("/"), f"{route.path} does not begin with a slash"
            assert route.method in ("GET", "HEAD", "POST", "PUT"), f"{route.path}: method {route.method}"
            assert route.auth in ("basic", "api_key", "none"), f"{route.path}: auth {route.auth}"
        places = [(route.method, route.path) for route in routes]
        assert len(set(places)) == len(places), "a route is declared twice"

    def test_valid_requests_become_series(self) -> None:
        """What a decoder hands on is the wire format, with at least one series."""
        for name, request in self.valid().items():
            decoded = self.decode(request)
            assert series_in(decoded.body + decoded.hostless) > 0, f"{name}: no series"

    def test_invalid_requests_are_refused_whole(self) -> None:
        """A refusal is one of the three decoding errors and has a text."""
        for name, request in self.refused().items():
            with pytest.raises(REFUSALS) as caught:
                self._walk(request)
            assert str(caught.value).strip(), f"{name}: the refusal has no text"

    def test_a_body_cut_anywhere_is_decoded_or_refused(self) -> None:
        """Nothing but a decoding error escapes, wherever the connection broke."""
        for name, request in self.valid().items():
            for cut in _cuts(len(request.body)):
                shorter = IngestRequest(**{**vars(request), "body": request.body[:cut]})
                try:
                    self._walk(shorter)
                except REFUSALS:
                    continue
                except Exception as error:
                    pytest.fail(f"{name}, cut at {cut}: {type(error).__name__}: {error}")

    def test_a_decompression_bomb_is_refused(self) -> None:
        """The size is checked before memory is taken."""
        bomb = self.bomb()
        if bomb is None:
            pytest.skip("this protocol does not compress")
        with pytest.raises(REFUSALS):
            self.decode(bomb)

    def test_the_gateway_serves_it(self, make_app: AppFactory) -> None:
        """A valid request is answered with success and counted under the protocol's name."""
        import importlib

        app = make_app(plugins=[importlib.import_module(self.plugin)], start="http")
        for name, request in self.valid().items():
            query = "&".join(f"{k}={v}" for k, v in request.query.items())
            path = f"{request.path}?{query}" if query else request.path
            answer = app.client.request("POST", path, body=request.body, headers=dict(request.headers))
            assert 200 <= answer.status < 300, f"{name}: {answer.status} {answer.text}"
        counted = f'svc_pushgw_samples_received_total{{channel="{self.protocol.name}"}}'
        assert counted in app.client.get("/metrics").text

    def test_replies_are_answers(self) -> None:
        """A route without a decoder answers too, like the companion calls of some agents."""
        for route in self.protocol.routes():
            if route.decode is None:
                request = IngestRequest(route.path, {}, {}, b"", "127.0.0.1", LIMIT)
                assert isinstance(route.reply(request, Decoded(b""), 0), Raw)

    def _walk(self, request: IngestRequest) -> None:
        decoded = self.decode(request)
        series_in(decoded.body + decoded.hostless)


def series_in(body: bytes) -> int:
    """Return how many series a body in the wire format holds; raise ``WireError`` when it is malformed."""
    cache = wire.LabelCache(lambda labels: Verdict(labels), 16)
    return wire.rewrite(body, cache).received


def _bounded(request: IngestRequest) -> IngestRequest:
    values: dict[str, Any] = {**vars(request), "max_decoded": LIMIT}
    return IngestRequest(**values)


def _cuts(length: int) -> Iterator[int]:
    step = max(1, length // 200)
    yield from range(0, length, step)
