"""Failures of the API: a status, Prometheus's error type and a text for the user."""

from __future__ import annotations

from http import HTTPStatus

import falcon
import orjson


class Failure(Exception):
    """Answers a request with Prometheus's error envelope."""

    def __init__(self, status: int, error_type: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type


def bad_data(message: str) -> Failure:
    """The request is wrong."""
    return Failure(400, "bad_data", message)


def too_large(message: str) -> Failure:
    """The body is over the limit."""
    return Failure(413, "bad_data", message)


def invalid_parameter(name: str, message: str) -> Failure:
    """A parameter does not parse."""
    return bad_data(f'invalid parameter "{name}": {message}')


def render(status: int, error_type: str, message: str) -> bytes:
    """Return the error envelope."""
    return orjson.dumps({"status": "error", "errorType": error_type, "error": message})


def answer_failure(_req: falcon.Request, resp: falcon.Response, failure: Failure, _params: object) -> None:
    """Falcon error handler for `Failure`."""
    _answer(resp, failure.status, failure.error_type, str(failure))


def answer_http_error(_req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError, _params: object) -> None:
    """Falcon error handler for what the framework refuses itself: unknown paths and methods."""
    resp.set_headers(error.headers or {})
    kinds = {404: "not_found", 405: "bad_data", 400: "bad_data"}
    text = error.title or HTTPStatus(error.status_code).phrase
    _answer(resp, error.status_code, kinds.get(error.status_code, "internal"), text)


def _answer(resp: falcon.Response, status: int, error_type: str, message: str) -> None:
    resp.status = status
    resp.content_type = falcon.MEDIA_JSON
    resp.data = render(status, error_type, message)
