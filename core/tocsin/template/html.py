"""What HTML mode does to printed values: one escaper per place in the page.

The places are those of Go's ``html/template``: text, the text of ``<title>`` and ``<textarea>``, attribute values (plain, URL,
script, style), script and style elements. Which place an action stands in is found by :mod:`.html_context`.
"""

from __future__ import annotations

import re
from typing import Any

from .jsonenc import json_text
from .show import sprint
from .values import NO_VALUE, SafeHTML, SafeURL

BLOCKED = "ZgotmplZ"
"""What stands in for a value that must not appear where the template puts it."""

_PLAIN = {
    "\0": "�",
    '"': "&#34;",
    "&": "&amp;",
    "'": "&#39;",
    "+": "&#43;",
    "<": "&lt;",
    ">": "&gt;",
}
_BARE = _PLAIN | {char: f"&#{ord(char)};" for char in "\t\n\v\f\r =`"}
_PLAIN_CHARS = re.compile("[\0\"&'+<>]")
_KEEP_ENTITIES = re.compile("[\0\"'+<>]")
_BARE_CHARS = re.compile("[\0\"&'+<>\t\n\v\f\r =`]")
_BARE_ENTITIES = re.compile("[\0\"'+<>\t\n\v\f\r =`]")
_TAG = re.compile(r"<!--.*?-->|</?[a-zA-Z][^>]*>?", re.S)


def escape_plain(text: str) -> str:
    """``text`` for HTML text or a quoted attribute."""
    return _PLAIN_CHARS.sub(_plain_char, text) if _PLAIN_CHARS.search(text) else text


def _plain_char(found: re.Match[str]) -> str:
    return _PLAIN[found[0]]


def _bare_char(found: re.Match[str]) -> str:
    return _BARE[found[0]]


def printed(value: Any) -> str:
    """The text of a value in HTML mode: missing values and nil are empty."""
    return "" if value is None or value is NO_VALUE else sprint(value)


def in_text(value: Any) -> str:
    """A value between tags."""
    if value.__class__ is SafeHTML:
        return str(value)
    return escape_plain(value if value.__class__ is str else printed(value))


def in_rcdata(value: Any) -> str:
    """A value inside ``<title>`` or ``<textarea>``."""
    if isinstance(value, SafeHTML):
        return _KEEP_ENTITIES.sub(_plain_char, value)
    return escape_plain(printed(value))


def in_attribute(value: Any) -> str:
    """A value inside quotes."""
    if isinstance(value, SafeHTML):
        return _KEEP_ENTITIES.sub(_plain_char, _TAG.sub("", value))
    return escape_plain(printed(value))


def in_bare_attribute(value: Any) -> str:
    """A value of an attribute without quotes."""
    if isinstance(value, SafeHTML):
        text = _BARE_ENTITIES.sub(_bare_char, _TAG.sub("", value))
    else:
        text = _BARE_CHARS.sub(_bare_char, printed(value))
    return text or BLOCKED


def in_name(value: Any) -> str:
    """A value where a tag or attribute name stands: plain words only."""
    text = printed(value)
    word = text.isascii() and text.isalnum()
    risky = text.lower().startswith("on") or text.lower() in URL_ATTRIBUTES | {"style", "srcset", "srcdoc"}
    return text.lower() if word and not risky else BLOCKED


# -- URLs ----------------------------------------------------------------------------------------------------------------

URL_ATTRIBUTES = frozenset(
    [
        "action",
        "archive",
        "background",
        "cite",
        "classid",
        "codebase",
        "data",
        "formaction",
        "href",
        "icon",
        "longdesc",
        "manifest",
        "poster",
        "profile",
        "src",
        "usemap",
        "xmlns",
    ]
)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_RESERVED = frozenset(b"!#$&*+,/:;=?@[]")
_HEX_PAIR = re.compile(rb"[0-9a-fA-F]{2}")


def url_whole(value: Any) -> str:
    """A value that begins a URL: unknown schemes are blocked, the rest is normalised."""
    text = printed(value)
    if not isinstance(value, SafeURL):
        scheme, colon, _ = text.partition(":")
        if colon and "/" not in scheme and scheme.lower() not in ("http", "https", "mailto"):
            return "#" + BLOCKED
    return url_normal(text)


def url_normal(value: Any) -> str:
    """A value inside a URL's path: what URLs may hold stays, the rest is percent-encoded."""
    raw = printed(value).encode("utf-8", "replace")
    keep = _UNRESERVED | _RESERVED
    parts = []
    for place, byte in enumerate(raw):
        escaped = byte == 0x25 and _HEX_PAIR.match(raw, place + 1)
        parts.append(chr(byte) if byte in keep or escaped else f"%{byte:02x}")
    return "".join(parts)


def url_part(value: Any) -> str:
    """A value inside a URL's query: everything with a meaning is percent-encoded."""
    if isinstance(value, SafeURL):
        return url_normal(value)
    raw = printed(value).encode("utf-8", "replace")
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02x}" for byte in raw)


# -- scripts and styles --------------------------------------------------------------------------------------------------

_JS_CHARS = {char: f"\\u{ord(char):04x}" for char in "\0\v\"'`&+<>\u2028\u2029"} | {
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
    "/": "\\/",
    "\\": "\\\\",
}
_JS_TABLE = str.maketrans(_JS_CHARS)
_JS_TEMPLATE_TABLE = str.maketrans(_JS_CHARS | {char: f"\\u{ord(char):04x}" for char in "${}"})
_CSS_UNSAFE = re.compile(r"[\0\"'()/;@\[\\\]`{}<>]|--|expression|mozbinding", re.I)


def js_value(value: Any) -> str:
    """A value where a script expects an expression."""
    if value is None or value is NO_VALUE:
        return " null "
    if isinstance(value, str):
        return '"' + str(value).translate(_JS_TABLE) + '"'
    text = json_text(value).replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f" {text} " if not text.startswith(("{", "[", '"')) else text


def js_string(value: Any) -> str:
    """A value inside a script's quotes."""
    return printed(value).translate(_JS_TABLE)


def js_template(value: Any) -> str:
    """A value inside a script's template literal."""
    return printed(value).translate(_JS_TEMPLATE_TABLE)


def css_value(value: Any) -> str:
    """A value inside a style: plain words, numbers and colours only."""
    text = printed(value)
    return BLOCKED if _CSS_UNSAFE.search(text) else text


def nothing(value: Any) -> str:
    """A value inside a comment: dropped."""
    return ""
