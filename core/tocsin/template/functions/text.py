"""Text, lists, maps and encodings."""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, quote_plus

from ..builtins import bounded
from ..errors import CallError, LimitError
from ..jsonenc import json_text
from ..show import MAX_TEXT, sprint
from ..values import Function, SafeHTML, SafeURL

_MAX_PATTERN = 2000
_GROUP = re.compile(r"\$(?:\$|(\w+)|\{(\w+)\})")


# -- regular expressions -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _pattern(text: str) -> Any:
    """A compiled RE2 pattern: linear time, so no pattern can be made to explode."""
    import re2

    if len(text) > _MAX_PATTERN:
        raise LimitError(f"regular expression is longer than {_MAX_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options=options)
    except re2.error as error:
        reason = error.args[0] if error.args else "invalid"
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise CallError(f"error parsing regexp: {shown}") from None


def _match(pattern: str, text: str) -> bool:
    return _pattern(pattern).search(text) is not None


def _replace_all(pattern: str, replacement: str, text: str) -> str:
    """Every match of ``pattern`` replaced; ``$1``, ``${name}`` insert groups, ``$$`` a dollar sign."""
    parts: list[str] = []
    place = room = 0
    for found in _pattern(pattern).finditer(text):
        piece = text[place : found.start()] + _expand(found, replacement)
        place = found.end()
        room += len(piece)
        if room > MAX_TEXT:
            raise LimitError("replaced text is too long")
        parts.append(piece)
    return bounded("".join(parts) + text[place:])


def _expand(found: Any, replacement: str) -> str:
    if "$" not in replacement:
        return replacement

    def group(reference: re.Match[str]) -> str:
        name = reference[1] or reference[2]
        if name is None:
            return "$"
        try:
            return found.group(int(name) if name.isdecimal() else name) or ""
        except (LookupError, ValueError, OverflowError):
            return ""

    return _GROUP.sub(group, replacement)


# -- words ---------------------------------------------------------------------------------------------------------------


def _title(text: str) -> str:
    """The first letter of every word in upper case, the rest unchanged."""
    parts: list[str] = []
    separated = True
    for char in text:
        parts.append(char.title() if separated else char)
        separated = not (char.isalnum() or char == "_") if char.isascii() else char.isspace()
    return "".join(parts)


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _texts(items: Any) -> list[str]:
    for item in items:
        if not isinstance(item, str):
            raise CallError(f"expected a list of strings, got an item {sprint(item)[:80]}")
    return list(items)


def _join(items: Any, separator: str) -> str:
    texts = _texts(items)
    _check_size(texts, len(separator))
    return separator.join(texts)


def _check_size(texts: list[str], between: int) -> None:
    if sum(map(len, texts)) + between * len(texts) > MAX_TEXT:
        raise LimitError("joined text is too long")


def _mapping_and_join(items: Any, prefix: str, suffix: str, joiner: str) -> str:
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        return ""
    kept = [item for item in items if item]
    _check_size(kept, len(prefix) + len(suffix) + len(joiner))
    return joiner.join(f"{prefix}{item}{suffix}" for item in kept)


def _args(*values: Any) -> dict[str, Any]:
    return {f"arg{place}": value for place, value in enumerate(values)}


def _map_difference(first: dict[Any, Any], second: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in first.items() if key not in second}


def _tags_text(tags: dict[Any, Any]) -> str:
    pairs = [f"{sprint(key)}={sprint(value)}" for key, value in tags.items()]
    _check_size(pairs, 1)
    return ",".join(sorted(pairs))


# -- encodings -----------------------------------------------------------------------------------------------------------


def _b64enc(text: str) -> str:
    return bounded(base64.b64encode(text.encode("utf-8", "replace")).decode())


def _b64dec(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return text


def _path_escape(text: str) -> str:
    return bounded(quote(text, safe="$&+=:@", errors="replace"))


def _graph_link(tab: int) -> Any:
    return lambda expression: bounded(f"/graph?g0.expr={quote_plus(expression, errors='replace')}&g0.tab={tab}")


def _host_port(text: str) -> tuple[str, str] | None:
    """Host and port of ``host:port`` or ``[v6]:port``, ``None`` for anything else."""
    found = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^:\[\]]*)):([^:\[\]]*)", text)
    if not found:
        return None
    return found[1] if found[1] is not None else found[2], found[3]


def _strip_port(text: str) -> str:
    parts = _host_port(text)
    return text if parts is None else parts[0]


def _strip_domain(text: str) -> str:
    host, port = _host_port(text) or (text, "")
    try:
        ip_address(host)
    except ValueError:
        pass
    else:
        return text
    host = host.split(".", 1)[0]
    return f"{host}:{port}" if port else host


def _url_path(url: str) -> str:
    found = re.fullmatch(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?#]*([^?#]*).*", url, re.S)
    return found[1] if found else url


FUNCTIONS = (
    Function("escape", _path_escape, ("string",)),
    Function("unescaped", SafeHTML, ("string",)),
    Function("safeHtml", SafeHTML, ("string",)),
    Function("urlconvert", SafeURL, ("string",)),
    Function("args", _args, (), "any"),
    Function("reReplaceAll", _replace_all, ("string", "string", "string"), cost=8),
    Function("match", _match, ("string", "string")),
    Function("toUpper", lambda text: text.upper(), ("string",)),
    Function("toLower", lambda text: text.lower(), ("string",)),
    Function("title", _title, ("string",)),
    Function("contains", lambda text, part: part in text, ("string", "string")),
    Function("split", _split, ("string", "string")),
    Function("join", _join, ("list", "string")),
    Function("toString", sprint, ("any",)),
    Function("graphLink", _graph_link(0), ("string",)),
    Function("tableLink", _graph_link(1), ("string",)),
    Function("stripPort", _strip_port, ("string",)),
    Function("stripDomain", _strip_domain, ("string",)),
    Function("pathPrefix", _url_path, ("string",)),
    Function("externalURL", lambda url: str(url), ("string",)),
    Function("mappingAndJoin", _mapping_and_join, ("any", "string", "string", "string")),
    Function("jsonMarshal", lambda value: SafeHTML(json_text(value)), ("any",)),
    Function("mapDifference", _map_difference, ("map", "map")),
    Function("tagsMapToStr", _tags_text, ("map",)),
    Function("b64enc", _b64enc, ("string",)),
    Function("b64dec", _b64dec, ("string",)),
)
"""Functions of text, lists and maps."""
