"""Where in a page an action stands: a small reader of the literal text around the actions.

Follows Go's ``html/template`` for text, comments, tags, attributes, script and style; regular expressions inside scripts are
not told apart from division, and every value inside a style goes through the strict filter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from . import html

Escaper = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Context:
    """A place. ``state`` is text, tag, name, after, before, value, element or comment; the rest refines it."""

    state: str = "text"
    element: str = ""
    kind: str = ""  # of an attribute or element: plain, url, js, css, rcdata
    delimiter: str = ""  # what ends the attribute value; " " for one without quotes
    url: str = ""  # "", path or query
    quote: str = ""  # open quote or comment inside a script


TEXT = Context()
_OPENING = re.compile(r"<!--|<(/?)([a-zA-Z][a-zA-Z0-9:-]*)")
_NAME = re.compile(r"[^\s\"'<>/=]+")
_KINDS = {"script": "js", "style": "css", "title": "rcdata", "textarea": "rcdata"}
_JS_TOKEN = re.compile(r"//|/\*|[\"'`]")
_JS_ENDS = {
    "//": re.compile(r"[\n\r\u2028\u2029]"),
    "/*": re.compile(r"\*/"),
    '"': re.compile(r'(?<!\\)(?:\\\\)*"'),
    "'": re.compile(r"(?<!\\)(?:\\\\)*'"),
    "`": re.compile(r"(?<!\\)(?:\\\\)*`"),
}


class ContextError(ValueError):
    """Text that leaves the reader no safe way to go on."""


def read(context: Context, text: str) -> tuple[Context, str]:
    """The place after ``text``, and ``text`` without its comments; raises :class:`ContextError`."""
    kept: list[str] = []
    place = 0
    while place < len(text):
        context, end, keep = _READERS[context.state](context, text, place)
        if keep:
            kept.append(text[place:end])
        place = end
    return context, "".join(kept)


def _text(context: Context, text: str, place: int) -> tuple[Context, int, bool]:
    found = _OPENING.search(text, place)
    if not found:
        return context, len(text), True
    if found.start() > place:
        return context, found.start(), True
    if found[0] == "<!--":
        return Context("comment"), found.end(), False
    element = "" if found[1] else found[2].lower()
    return Context("tag", element), found.end(), True


def _comment(context: Context, text: str, place: int) -> tuple[Context, int, bool]:
    end = text.find("-->", place)
    return (context, len(text), False) if end < 0 else (TEXT, end + 3, False)


def _tag(context: Context, text: str, place: int) -> tuple[Context, int, bool]:
    char = text[place]
    if char == ">":
        kind = _KINDS.get(context.element)
        return (Context("element", context.element, kind) if kind else TEXT), place + 1, True
    if char.isspace() or char == "/":
        return context, place + 1, True
    found = _NAME.match(text, place)
    if not found:
        shown = text[place : place + 20]
        raise ContextError(f'expected space, attr name, or end of tag, but got "{shown}"')
    return Context("name", context.element, _attribute_kind(found[0])), found.end(), True


def _attribute_kind(name: str) -> str:
    name = name.lower()
    if name.startswith("data-"):
        name = name[5:]
    elif ":" in name:
        prefix, name = name.split(":", 1)
        if prefix == "xmlns":
            return "url"
    if name.startswith("on"):
        return "js"
    if name == "style":
        return "css"
    if name == "srcdoc":
        return "plain"
    if name in html.URL_ATTRIBUTES or any(part in name for part in ("src", "uri", "url")):
        return "url"
    return "plain"


def _name(context: Context, text: str, place: int) -> tuple[Context, int, bool]:
    found = _NAME.match(text, place)
    if found:
        return context, found.end(), True
    return replace(context, state="after"), place, True


def _after(context: Context, text: str, place: int) -> tuple[Context, int, bool]:
    if text[place].isspace():
        return context, place + 1, True
    if text[place] == "=":
        return replace(context, state="before"), place + 1, True
    return Context("tag", context.element), place, True


def _before(context: Context, text: str, place: int) -> tuple[Context, int, bool]:
    char = text[place]
    if char.isspace():
        return context, place + 1, True
    if char in "\"'":
        return replace(context, state="value", delimiter=char), place + 1, True
    if text.startswith('\\"', place):
        # The page is itself inside a JSON string, where attribute quotes are written \".
        return replace(context, state="value", delimiter='\\"'), place + 2, True
    return replace(context, state="value", delimiter=" "), place, True


def _value(context: Context, text: str, place: int) -> tuple[Context, int, bool]:
    if context.delimiter == " ":
        found = re.compile(r"[\s>]").search(text, place)
        end = close = found.start() if found else -1
    else:
        end = text.find(context.delimiter, place)
        close = end + len(context.delimiter)
    inner = text[place : len(text) if end < 0 else end]
    if end < 0:
        return _inside(context, inner), len(text), True
    return Context("tag", context.element), close, True


def _inside(context: Context, inner: str) -> Context:
    """The place after literal text inside an attribute value."""
    if context.kind == "js":
        return replace(context, quote=_script_quote(context.quote, inner))
    if context.kind == "url" and inner.strip():
        return replace(context, url="query" if context.url == "query" or re.search(r"[?#]", inner) else "path")
    return context


def _element(context: Context, text: str, place: int) -> tuple[Context, int, bool]:
    found = re.compile(rf"</{context.element}(?=[\s>/])", re.I).search(text, place)
    if found:
        return Context("tag"), found.end(), True
    if context.kind == "js":
        context = replace(context, quote=_script_quote(context.quote, text[place:]))
    return context, len(text), True


def _script_quote(quote: str, text: str) -> str:
    """Which quote or comment is open after ``text``."""
    place = 0
    while True:
        pattern = _JS_ENDS[quote] if quote else _JS_TOKEN
        found = pattern.search(text, place)
        if not found:
            return quote
        quote = "" if quote else found[0]
        place = found.end()


_READERS = {
    "text": _text,
    "comment": _comment,
    "tag": _tag,
    "name": _name,
    "after": _after,
    "before": _before,
    "value": _value,
    "element": _element,
}


def before_action(context: Context) -> Context:
    """The place an action really stands in: one right after ``=`` begins a value without quotes."""
    if context.state == "before":
        return replace(context, state="value", delimiter=" ")
    if context.state in ("after", "tag"):
        return Context("name", context.element, "plain")
    return context


def after_action(context: Context) -> Context:
    """The place after an action's output."""
    if context.state == "value" and context.kind == "url" and not context.url:
        return replace(context, url="path")
    return context


def join(first: Context, second: Context) -> Context | None:
    """The place after two branches meet, ``None`` when they end in places that cannot be one."""
    if first == second:
        return first
    if replace(first, url="") == replace(second, url=""):
        return replace(first, url="query" if "query" in (first.url, second.url) else "path")
    names = {first.state, second.state} <= {"tag", "name", "after"}
    if names and first.element == second.element:
        return Context("tag", first.element)
    return None


def escaper(context: Context) -> Escaper:
    """What to do to a value printed in this place."""
    if context.state == "text":
        return html.in_text
    if context.state == "comment":
        return html.nothing
    if context.state == "element":
        return _SCRIPT_QUOTES[context.quote] if context.kind == "js" else _ELEMENTS[context.kind]
    if context.state != "value":
        return html.in_name
    outer = html.in_bare_attribute if context.delimiter == " " else html.in_attribute
    inner = _attribute_value(context)
    return outer if inner is None else lambda value: outer(inner(value))


_ELEMENTS: dict[str, Escaper] = {"css": html.css_value, "rcdata": html.in_rcdata}
_SCRIPT_QUOTES: dict[str, Escaper] = {
    "": html.js_value,
    '"': html.js_string,
    "'": html.js_string,
    "`": html.js_template,
    "//": html.nothing,
    "/*": html.nothing,
}


def _attribute_value(context: Context) -> Escaper | None:
    """The escaper inside the attribute's own, if its kind needs one."""
    if context.kind == "js":
        return _SCRIPT_QUOTES[context.quote]
    if context.kind == "css":
        return html.css_value
    if context.kind == "url":
        return {"": html.url_whole, "path": html.url_normal, "query": html.url_part}[context.url]
    return None
