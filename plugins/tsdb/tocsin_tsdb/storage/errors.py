"""What can go wrong in the store, as the callers need to tell it apart."""

from __future__ import annotations


class StoreError(Exception):
    """Base of the store's own errors; `str()` is the message for the user."""


class MalformedWrite(StoreError):  # noqa: N818 - the field's term
    """The bytes of a write request do not parse; nothing of the request was stored."""


class CommitFailed(StoreError):  # noqa: N818 - the field's term
    """The samples could not be made durable (disk full, input/output error); nothing of the request was stored."""


class StoreUnusable(StoreError):  # noqa: N818 - the field's term
    """The data directory cannot be used: locked by another process, read-only, not a directory."""


class CorruptBlock(StoreError):  # noqa: N818 - the field's term
    """A block on disk is torn or altered."""
