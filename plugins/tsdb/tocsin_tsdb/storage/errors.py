"""What can go wrong in the store, as the callers need to tell it apart."""

from __future__ import annotations

import errno


class StoreError(Exception):
    """Base of the store's own errors; `str()` is the message for the user."""


class MalformedWrite(StoreError):
    """The bytes of a write request do not parse; nothing of the request was stored."""


class CommitFailed(StoreError):
    """The samples could not be made durable (disk full, input/output error); nothing of the request was stored."""


class StoreUnusable(StoreError):
    """The data directory cannot be used: locked by another process, read-only, not a directory."""


class CorruptBlock(StoreError):
    """A block on disk is torn or altered."""


class ReadFailed(StoreError):
    """A block that may be whole could not be read: no memory, no file handles. Worth a retry."""


def unreadable(name: str, error: OSError) -> CorruptBlock | ReadFailed:
    """Return what it means that a block's file cannot be read."""
    scarce = error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
    return (ReadFailed if scarce else CorruptBlock)(f"{name}: {error}")
