"""Which hosts are meant: search texts, group filters and the host queries that rules use too.

Searching takes no notice of case. MariaDB and MySQL tell names apart by it, so there the lower case is searched as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any

from peewee import OP, SQL, Expression, NodeList, Value, fn

from tocsin.plugin import invalid
from tocsin.targets.models import TargetGroup, TargetRow
from tocsin.targets.tags import escaped

UNGROUPED = 0
"""Stands for "in no group" wherever ids of groups are asked for."""


def everything() -> Any:
    """Return the condition that all hosts meet."""
    return TargetRow.id > 0


def grouped() -> Any:
    """Return the condition that a host is in some group."""
    return TargetRow.ident.in_(TargetGroup.select(TargetGroup.target_ident))


def in_groups(group_ids: Collection[int]) -> Any:
    """Return the condition that a host is in any of these groups; 0 stands for no group at all."""
    real = [group for group in group_ids if group != UNGROUPED]
    found = TargetRow.ident.in_(TargetGroup.select(TargetGroup.target_ident).where(TargetGroup.group_id.in_(real)))
    return found | ~grouped() if UNGROUPED in group_ids else found


def matching(text: str) -> Any:
    """Return the condition that every word of a text is found in a host; words after ``-`` must not be."""
    found = everything()
    for word in text.split():
        found &= ~_has(word[1:]) if word.startswith("-") and len(word) > 1 else _has(word)
    return found


def _has(word: str) -> Any:
    plain = (TargetRow.ident, TargetRow.host_ip, TargetRow.note, TargetRow.os)
    stored = (TargetRow.tags, TargetRow.host_tags)
    within = [field.contains(word) for field in plain] + [field.contains(escaped(word)) for field in stored]
    return reduce(or_, within, fn.LOWER(TargetRow.ident).contains(word.lower()))


def named(entries: str) -> Any:
    """Return the condition that a host has one of these names or addresses, separated by commas or blanks."""
    wanted = [entry for entry in re.split(r"[,\s]+", entries) if entry]
    return TargetRow.ident.in_(wanted) | TargetRow.host_ip.in_(wanted) if wanted else everything()


def of_names(idents: Collection[str]) -> Any:
    """Return the condition that a host has one of these names."""
    return TargetRow.ident.in_(list(idents))


# --- host queries ---


def of_queries(queries: Sequence[Mapping[str, Any]]) -> Any:
    """Return the condition of host queries, ``{"key", "op", "values"}`` each; all must hold."""
    parts = [_KEYS[query["key"]](query["op"], query["values"]) for query in queries if query["key"] in _KEYS]
    return reduce(and_, parts, everything())


def _of_groups(op: str, values: Sequence[Any]) -> Any:
    for value in values:
        if type(value) is not int or abs(value) >= 1 << 31:
            raise invalid(f"queries.values: got {value!r} for key group_ids, expected ids of business groups")
    if not values:
        return everything()
    return in_groups(values) if op == "==" else ~in_groups(values)


def _of_tags(op: str, values: Sequence[Any]) -> Any:
    wanted = [escaped(text) for text in _texts("tags", values)]
    if not wanted:
        return everything()
    found = reduce(or_, [field.contains(tag) for tag in wanted for field in (TargetRow.tags, TargetRow.host_tags)])
    return found if op == "==" else ~found


def _of_hosts(op: str, values: Sequence[Any]) -> Any:
    wanted = _texts("hosts", values)
    if op in ("==", "!="):
        return TargetRow.ident.in_(wanted) if op == "==" else TargetRow.ident.not_in(wanted)
    if op not in ("=~", "!~"):
        return everything()
    found = reduce(or_, [_like(pattern) for pattern in wanted], TargetRow.id < 0)
    return found if op == "=~" else ~found


def _like(pattern: str) -> Any:
    """Return the condition that a host's whole name fits a pattern in which ``*`` is any text."""
    text = re.sub(r"([\\%_])", r"\\\1", pattern).replace("*", "%")

    def like(name: Any, wanted: str) -> Any:
        return Expression(name, OP.ILIKE, NodeList((Value(wanted), SQL("ESCAPE"), Value("\\"))))

    return like(TargetRow.ident, text) | like(fn.LOWER(TargetRow.ident), text.lower())


def _texts(key: str, values: Sequence[Any]) -> list[str]:
    found = [value for value in values if value is not None]
    for value in found:
        if not isinstance(value, str):
            raise invalid(f"queries.values: got {value!r} for key {key}, expected texts")
    return found


_KEYS: Mapping[str, Callable[[str, Sequence[Any]], Any]] = {
    "group_ids": _of_groups,
    "tags": _of_tags,
    "hosts": _of_hosts,
}
