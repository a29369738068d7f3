"""Label sets as text, and the identity of an alert."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

METRIC_NAME = "__name__"
_ESCAPED = re.compile(r'[\\"\x00-\x1f\x7f-\xa0\xad\u2028\u2029\ud800-\udfff]')
_SHORT = {
    "\\": "\\\\",
    '"': '\\"',
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def notation(labels: Mapping[str, str]) -> str:
    """Return a label set as ``name{a="x", b="y"}``; without labels the name alone, ``{}`` when there is nothing."""
    name = labels.get(METRIC_NAME, "")
    texts = sorted(f"{label}={quoted(value)}" for label, value in labels.items() if label != METRIC_NAME)
    if texts:
        return f"{name}{{{', '.join(texts)}}}"
    return name or "{}"


def quoted(value: str) -> str:
    """Return ``value`` in double quotes with Go's escapes."""
    return f'"{_ESCAPED.sub(_escape, value)}"' if _ESCAPED.search(value) else f'"{value}"'


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"


def identity(rule_id: int, labels: str, datasource_id: int, severity: int, query: str) -> str:
    """Return the hash that names one alert: rule, label set as :func:`notation`, datasource, severity and query."""
    text = f"{rule_id}_{labels}_{datasource_id}_{severity}_{query}"
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()
