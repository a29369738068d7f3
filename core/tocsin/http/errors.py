"""The one error class of the API and the codes that travel with it."""

from __future__ import annotations

#: Code -> HTTP status used where the specification does not ask for 200.
STATUS_OF: dict[str, int] = {
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "invalid": 400,
    "conflict": 409,
    "limit": 429,
    "too_large": 413,
    "unsupported": 415,
    "unavailable": 503,
    "internal": 500,
}
REASON_OF = {"too_large": "limit", "unsupported": "invalid"}
"""What header ``X-Error-Code`` says for codes that only differ in their status; the others are told as they are."""


class ApiError(Exception):
    """A failure with a text for the user.

    ``code`` is a key of :data:`STATUS_OF`; ``status`` overrides the HTTP status on surfaces that use one;
    ``headers`` are added to the answer.  The text reaches the client as it is: put nothing internal into it.
    """

    def __init__(
        self,
        message: str,
        code: str = "invalid",
        *,
        status: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = STATUS_OF[code] if status is None else status
        self.headers = headers or {}


def invalid(message: str) -> ApiError:
    """Return the error for input that cannot be used; name the field, what came and what was expected."""
    return ApiError(message, "invalid")


def not_found(message: str) -> ApiError:
    """Return the error for an object that does not exist."""
    return ApiError(message, "not_found")


def forbidden(message: str = "forbidden") -> ApiError:
    """Return the error for a caller who is known but may not do this."""
    return ApiError(message, "forbidden")


def unauthorized(message: str = "unauthorized") -> ApiError:
    """Return the error for a caller who did not prove who they are."""
    return ApiError(message, "unauthorized")


def conflict(message: str) -> ApiError:
    """Return the error for a change that contradicts what is stored."""
    return ApiError(message, "conflict")
