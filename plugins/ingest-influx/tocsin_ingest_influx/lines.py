"""Lines of text into series: ``measurement,tag=value field=1,other=2i 1760000000000000000``.

The layout is that of the published line protocol reference.  Most bodies have neither quotes nor backslashes; such lines
are split, all others are matched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tocsin.plugin import DecodeError, LabelSets, encode_series, encode_texts

HEAD = re.compile(rb"((?>[^ \\\n]+|\\[ ,=]?)++) ++")
"""Measurement and tags up to the first blank that is not escaped."""
FIELD = re.compile(rb'((?>[^=, \\\n]+|\\[ ,=]?)++)=("(?>[^"\\]+|\\.)*+"|[^," \n]++)(,?)', re.DOTALL)
"""A field and the comma when another one follows."""
TAIL = re.compile(rb" *+(-?\d++)?[ \r]*+(?:\n|\Z)")
"""Timestamp and end of a line."""
PART = re.compile(rb"((?>[^,\\]+|\\[ ,=]?)*+)(,|\Z)")
PAIR = re.compile(rb"((?>[^=\\]+|\\[ ,=]?)++)=(.*)", re.DOTALL)
ESCAPED = re.compile(rb"\\([ ,=])")
NOT_METRIC = re.compile(r"[^a-zA-Z0-9_:]")
NOT_LABEL = re.compile(r"[^a-zA-Z0-9_]")

TRUTH = {
    **dict.fromkeys((b"t", b"T", b"true", b"True", b"TRUE"), 1.0),
    **dict.fromkeys((b"f", b"F", b"false", b"False", b"FALSE"), 0.0),
}
INTEGERS = {ord("i"): (-(1 << 63), 1 << 63), ord("u"): (0, 1 << 64)}
"""Bounds of integers by the letter behind them."""
QUOTE = ord('"')
SHOWN = 80


class Lines:
    """The series of one body, samples of equal series together.

    :ivar texts: fields left out because their values are texts.
    """

    def __init__(self, sets: LabelSets, database: str, factor: int, divisor: int, now_ms: int) -> None:
        """Read into nothing yet.

        :param database: value of a label ``db``, empty for none.
        :param factor: what a timestamp is multiplied by,
        :param divisor: and divided by, to be milliseconds.
        """
        self._sets, self._database = sets, database
        self._prefix = database.encode(errors="replace") + b"\n"
        self._factor, self._divisor, self._now_ms = factor, divisor, now_ms
        self._series: dict[bytes, tuple[bytes, list[int], list[float]]] = {}
        self.texts = 0

    def encode(self) -> bytes:
        """Return the series in the wire format."""
        return b"".join([encode_series(*series) for series in self._series.values()])

    def read(self, body: bytes) -> None:
        """Read all lines; raise ``DecodeError`` that names the first one that is malformed."""
        line_number = 0
        try:
            if b'"' in body or b"\\" in body:
                for line_number, head, fields, stamp in _matched(body):  # noqa: B007 - named by the error
                    self._line(head, fields, stamp)
                return
            for line_number, line in enumerate(body.split(b"\n"), 1):  # noqa: B007 - named by the error
                parts = line.split()
                if not parts or parts[0].startswith(b"#"):
                    continue
                if not 2 <= len(parts) <= 3:
                    raise ValueError(f"got {_shown(line)}, expected measurement, fields and at most a timestamp")
                fields = [field.split(b"=", 1) for field in parts[1].split(b",")]
                self._line(parts[0], fields, parts[2] if len(parts) == 3 else b"")
        except ValueError as error:
            raise DecodeError(f"line {getattr(error, 'line', line_number)}: {error}") from None

    def _line(self, head: bytes, fields: list[list[bytes]], stamp: bytes) -> None:
        """Add the fields of a line."""
        time_ms = integer(stamp, INTEGERS[105]) * self._factor // self._divisor if stamp else self._now_ms
        for field in fields:
            if len(field) != 2:
                raise ValueError(f"got {_shown(field[0])}, expected field=value")
            name, text = field
            value = number(text)
            if value is None:
                self.texts += 1
                continue
            key = b"%b%b %b" % (self._prefix, head, name)
            series = self._series.get(key)
            if series is None:
                labels = self._sets.get(key)
                if labels is None:
                    labels = encode_texts(label_set(head, name, self._database))
                    self._sets.put(key, labels)
                self._series[key] = (labels, [time_ms], [value])
            else:
                series[1].append(time_ms)
                series[2].append(value)


def _matched(body: bytes) -> Iterator[tuple[int, bytes, list[list[bytes]], bytes]]:
    """Yield number, head, fields and timestamp of each line, quotes and backslashes respected."""
    pos, line = 0, 1
    while pos < len(body):
        end = body.find(b"\n", pos)
        end = len(body) if end < 0 else end
        text = body[pos:end].strip()
        if not text or text.startswith(b"#"):
            pos, line = end + 1, line + 1
            continue
        while body[pos] in b" \t\r":
            pos += 1
        start = pos
        head = HEAD.match(body, pos)
        fields: list[list[bytes]] = []
        field = None
        if head is not None:
            pos = head.end()
            while field is None or field[3]:
                field = FIELD.match(body, pos)
                if field is None:
                    break
                fields.append([field[1], field[2]])
                pos = field.end()
        tail = TAIL.match(body, pos)
        if head is None or field is None or tail is None:
            raise LineError(
                line, f"got {_shown(body[start:end])}, expected measurement, fields and at most a timestamp"
            )
        yield line, head[1], fields, tail[1] or b""
        line += body.count(b"\n", start, tail.end())
        pos = tail.end()


class LineError(ValueError):
    """A line that is not matched; ``line`` is its number."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def integer(text: bytes, bounds: tuple[int, int]) -> int:
    """Return an integer within bounds; raise :class:`ValueError` for anything else."""
    if not text.lstrip(b"-").isdigit() or len(text) > 20 or not bounds[0] <= int(text) < bounds[1]:
        raise ValueError(f"got {_shown(text)}, expected an integer of 64 bits")
    return int(text)


def number(text: bytes) -> float | None:
    """Return the value of a field, None for a text; raise :class:`ValueError` for what is neither."""
    last = text[-1] if text else 0
    if 48 <= last <= 57 or last == 46:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if value - value == 0 and b"_" not in text:
            return value
    elif last in INTEGERS and len(text) > 1:
        return integer(text[:-1], INTEGERS[last])
    elif last == QUOTE and text[0] == QUOTE and len(text) > 1:
        return None
    elif text in TRUTH:
        return TRUTH[text]
    raise ValueError(f"got {_shown(text)}, expected the value of a field")


def label_set(head: bytes, field: bytes, database: str) -> list[tuple[str, str]]:
    """Return the labels of a field: ``measurement_field``, or ``measurement`` for a field named ``value``, and the tags.

    Characters that names must not have become ``_``.  Tags without value are left out, as a label without value is none.
    """
    parts = list(_parts(head))
    measurement = _text(parts[0])
    name = _text(field)
    if not measurement or not name:
        raise ValueError(f"got {_shown(head)}, expected the name of a measurement and of a field")
    metric = NOT_METRIC.sub("_", measurement if name == "value" else f"{measurement}_{name}")
    found = {"db": database} if database else {}
    for part in parts[1:]:
        pair = PAIR.fullmatch(part)
        if pair is None:
            raise ValueError(f"got {_shown(part)}, expected tag=value")
        if value := _text(pair[2]):
            found[_safe(NOT_LABEL.sub("_", _text(pair[1])))] = value
    found["__name__"] = _safe(metric)
    return list(found.items())


def _parts(head: bytes) -> Iterator[bytes]:
    """Yield measurement and tags, still escaped."""
    for part in PART.finditer(head):
        yield part[1]
        if not part[2]:
            break


def _safe(name: str) -> str:
    return f"_{name}" if name[:1].isdigit() else name


def _text(escaped: bytes) -> str:
    """Return a name or value without its escapes; raise :class:`ValueError` when it is not UTF-8."""
    try:
        return ESCAPED.sub(rb"\1", escaped).decode()
    except UnicodeDecodeError:
        raise ValueError(f"got {_shown(escaped)}, expected UTF-8") from None


def _shown(text: bytes) -> str:
    return repr(text[:SHOWN].decode(errors="replace"))
