"""Durations as PromQL writes them: `1h30m`, `15s`, `500ms`."""

from __future__ import annotations

import re

_UNITS_MS = {"y": 31_536_000_000, "w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PATTERN = re.compile(r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
MAX_DURATION_MS = (1 << 63) // 1_000_000
"""Prometheus keeps durations in 64-bit nanoseconds; more is refused rather than wrapped around."""


def parse_duration(text: str) -> int:
    """Return milliseconds. Units descend (y w d h m s ms), each at most once; raises ValueError otherwise."""
    match = _PATTERN.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"not a valid duration string: {quote(text)}")
    total = sum(int(n) * unit for n, unit in zip(match.groups(), _UNITS_MS.values(), strict=True) if n)
    if total > MAX_DURATION_MS:
        raise ValueError("duration out of range")
    return total


def format_duration(milliseconds: int) -> str:
    """Return the shortest exact text, the way Prometheus prints it: weeks and years only when nothing is left over."""
    if milliseconds < 0:
        return "-" + format_duration(-milliseconds)
    if milliseconds == 0:
        return "0s"
    parts: list[str] = []
    rest = milliseconds
    for unit, size in _UNITS_MS.items():
        if unit in ("y", "w") and rest % size:
            continue
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def quote(text: str) -> str:
    """Quote text the way Go's `%q` does for ordinary input."""
    out = ['"']
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char in _SHORT_ESCAPES:
            out.append(_SHORT_ESCAPES[char])
        elif char.isprintable():
            out.append(char)
        elif ord(char) < 0x80:
            out.append(f"\\x{ord(char):02x}")
        else:
            out.append(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}")
    out.append('"')
    return "".join(out)


_SHORT_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
