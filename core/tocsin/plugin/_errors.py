"""Errors that plugins raise; their texts are shown to users, so they hold no secrets."""

from __future__ import annotations


class PluginCallError(Exception):
    """A plugin could not do what it was asked; the text says why."""


class DatasourceError(PluginCallError):
    """A datasource cannot be reached or refused a query.

    ``refused`` is true when the datasource understood and said no (a bad expression), false when it is out of reach.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class HttpError(PluginCallError):
    """There is no usable answer from an HTTP backend.

    ``kind`` is ``build`` (the request cannot be sent), ``denied`` (an address that must not be connected to),
    ``connect``, ``timeout``, ``broken`` (the connection ended too early) or ``too_large``.
    """

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class WriteError(PluginCallError):
    """A batch was not written and trying again may help; ``retry_after`` is the backend's wish in seconds.

    ``status`` is the HTTP status that said so, 0 when there was no answer.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, status: int = 0) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.status = status


class SendError(PluginCallError):
    """A notification was not delivered; ``retryable`` says whether trying again may help."""

    def __init__(self, message: str, *, retryable: bool = True, response: str = "") -> None:
        super().__init__(message)
        self.retryable = retryable
        self.response = response


class RenderError(SendError):
    """A template of a channel cannot be rendered; trying again does not help.

    ``reason`` is ``syntax``, ``execution`` or ``limit``.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message, retryable=False)
        self.reason = reason


class DecodeError(PluginCallError):
    """A request body that cannot be decoded: refused whole with ``status``."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class ProcessorError(PluginCallError):
    """A step of an event pipeline failed."""


class LoginError(PluginCallError):
    """A single-sign-on login was refused."""
