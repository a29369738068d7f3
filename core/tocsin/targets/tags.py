"""Tags of hosts: texts ``key=value``, kept as JSON lists."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import orjson

from tocsin.plugin import invalid

LONGEST_TAGS = 512
"""Characters that all tags which people give one host may have together."""
KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def load(text: str) -> list[str]:
    """Return the tags of a stored list."""
    return list(orjson.loads(text or "[]"))


def dump(tags: Iterable[str]) -> str:
    """Return the text in which tags are stored."""
    return orjson.dumps(list(tags)).decode()


def escaped(text: str) -> str:
    """Return a text as it stands inside a stored list."""
    return orjson.dumps(text)[1:-1].decode()


def key_of(tag: str) -> str:
    """Return what stands before the first ``=``."""
    return tag.partition("=")[0]


def pairs(*lists: Iterable[str]) -> dict[str, str]:
    """Return tags with exactly one ``=`` as a map; later lists win."""
    parted = (tag.split("=") for tags in lists for tag in tags)
    return {parts[0]: parts[1] for parts in parted if len(parts) == 2}


def of_labels(labels: Mapping[str, str]) -> list[str]:
    """Return the sorted tags that stand for labels."""
    return sorted(f"{name}={value}" for name, value in labels.items())


def check(tags: Iterable[str]) -> list[str]:
    """Return tags with blanks around key and value removed; raise ``invalid`` naming the first that is none."""
    return [_checked(tag) for tag in tags]


def _checked(tag: str) -> str:
    parts = tag.split("=")
    if len(parts) != 2:
        raise invalid(f"invalid tag format: {tag} (expected format: key=value)")
    key, value = parts[0].strip(), parts[1].strip()
    if not key:
        raise invalid(f"invalid tag: key is empty in tag {tag}")
    if not value:
        raise invalid(f"invalid tag: value is empty in tag {tag}")
    if not KEY.fullmatch(key):
        raise invalid(f"invalid tag key: {key} (expected letters, digits and _, not beginning with a digit)")
    return f"{key}={value}"


def check_length(tags: Collection[str]) -> Collection[str]:
    """Return the tags of one host; raise ``invalid`` when they are too long together."""
    length = sum(map(len, tags)) + len(tags)
    if length > LONGEST_TAGS:
        raise invalid(f"tags: got {length} characters for one host, expected at most {LONGEST_TAGS}")
    return tags
