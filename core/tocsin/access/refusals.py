"""Failures that compatible clients expect as status 200 with an ``err`` text, even through a path alias."""

from __future__ import annotations

from tocsin.plugin import ApiError


def refused(message: str, code: str = "invalid") -> ApiError:
    """Return the error for a request that was understood and is turned down for what it says."""
    return ApiError(message, code, status=200)


def taken(message: str) -> ApiError:
    """Return the error for a name that another object has."""
    return refused(message, "conflict")
