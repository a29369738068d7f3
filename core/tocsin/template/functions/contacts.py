"""Mentions and recipient lists in the forms that chat services expect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import CallError, LimitError
from ..jsonenc import json_text
from ..show import MAX_TEXT, sprint
from ..values import Function, SafeHTML


def _contacts(items: Any) -> list[str]:
    texts = []
    size = 0
    for item in items:
        if not isinstance(item, str):
            raise CallError(f"expected a list of strings, got an item {sprint(item)[:80]}")
        size += len(item) + 32
        if size > MAX_TEXT:
            raise LimitError("list of contacts is too long")
        texts.append(str(item))
    return texts


def _mentions(text: str) -> str:
    """``a,b`` or ``a b`` as ``@a @b``; a single token unchanged."""
    parts = [part.strip() for part in text.split(",")] if "," in text else text.split()
    if len(parts) < 2:
        return text
    return " ".join(f"@{part}" for part in parts if part)


def _each(form: str) -> Callable[[Any], SafeHTML]:
    return lambda items: SafeHTML(" ".join(form.replace("*", item) for item in _contacts(items)))


FUNCTIONS = (
    Function("ats", _mentions, ("string",)),
    Function("batchContactsAts", lambda items: " ".join(f"@{item}" for item in _contacts(items)), ("list",)),
    Function("batchContactsJsonMarshal", lambda items: SafeHTML(json_text(_contacts(items))), ("list",)),
    Function("batchContactsJoinComma", lambda items: ",".join(_contacts(items)), ("list",)),
    Function("batchContactsAtsInFeishuEmail", _each('<at email=\\"*\\"></at>'), ("list",)),
    Function("batchContactsAtsInFeishuId", _each('<at id="*"></at>'), ("list",)),
)
"""Functions of recipients."""
