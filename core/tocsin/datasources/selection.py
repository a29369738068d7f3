"""Which datasources a rule's selectors mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import translate
from typing import Any

from tocsin.datasources.records import DatasourceRecord

EXACT, WILDCARD, ALL = 0, 1, 2
Test = Callable[[DatasourceRecord], bool]


def select(records: Iterable[DatasourceRecord], queries: Sequence[Mapping[str, Any]]) -> list[DatasourceRecord]:
    """Return the datasources that pass every selector ``{match_type, op, values}`` in turn; none for no selector.

    Match type 0 compares ids (texts: first as a name, then as an id; the single value 0 means all), 1 name patterns
    with ``*`` and ``?``, 2 takes all.  ``op`` is ``in`` or ``not in``.
    """
    if not queries:
        return []
    found = list(records)
    for query in queries:
        found = _apply(found, query)
    return found


def _apply(records: list[DatasourceRecord], query: Mapping[str, Any]) -> list[DatasourceRecord]:
    match_type, op, values = query.get("match_type", EXACT), query.get("op", "in"), query.get("values") or []
    if match_type == ALL:
        return records
    if match_type == EXACT:
        if op == "in" and [str(value) for value in values] == ["0"]:
            return records
        test = _exact(records, values)
    elif match_type == WILDCARD:
        test = _wildcard(values)
    else:
        return []
    if op == "in":
        return [record for record in records if test(record)]
    return [record for record in records if not test(record)] if op == "not in" else []


def _exact(records: Iterable[DatasourceRecord], values: Iterable[Any]) -> Test:
    by_name = {record.name: record.id for record in records}
    wanted: set[int] = set()
    for value in values:
        if isinstance(value, str):
            if value in by_name:
                wanted.add(by_name[value])
            elif value.isdecimal():
                wanted.add(int(value))
        elif isinstance(value, int | float):
            wanted.add(int(value))
    return lambda record: record.id in wanted


def _wildcard(values: Iterable[Any]) -> Test:
    # Only the star and the question mark are special: a bracket in a name is a bracket.
    patterns = [re.compile(translate(str(value).replace("[", "[[]"))) for value in values]
    return lambda record: any(pattern.match(record.name) for pattern in patterns)
