"""From the messages of a request to series."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import orjson

from tocsin.plugin import LabelSets, encode_series, encode_texts, number_text
from tocsin_ingest_otlp.messages import Messages
from tocsin_ingest_otlp.names import COUNTER, GAUGE, OTHER, label_name, metric_name

(STALE,) = struct.unpack("<d", bytes.fromhex("020000000000f07f"))
"""The value by which Prometheus knows that a series has ended."""
CUMULATIVE = 2
NO_VALUE = 1
"""Flag of a point that says that there is no value any more."""
NANOSECONDS = 1_000_000
TYPES = {"counter": 1, "gauge": 2, "histogram": 3, "summary": 5}
IDENTITY = ("service.name", "service.namespace", "service.instance.id")

Value = float | int


class Resource(NamedTuple):
    """What all series of a resource share."""

    key: bytes
    labels: dict[str, str]
    attributes: dict[str, str]
    """Labels of the resource that stand on no series but ``target_info``."""


class Family(NamedTuple):
    """What all series of a metric share."""

    key: bytes
    name: str
    resource: Resource


class Converter:
    """The series of one request.

    :ivar rejected: data points that cannot become samples; `message` says why the first one cannot.
    """

    def __init__(self, sets: LabelSets, types: Messages, now_ms: int) -> None:
        self._sets, self._types, self._now_ms = sets, types, now_ms
        self._series: dict[tuple[bytes, ...], tuple[bytes, list[int], list[Value]]] = {}
        self._metadata: dict[str, bytes] = {}
        self._latest = 0
        self.rejected, self.message = 0, ""

    def encode(self) -> bytes:
        """Return the series in the wire format."""
        return b"".join([encode_series(*series) for series in self._series.values()])

    def metadata(self) -> list[bytes]:
        """Return type, help and unit of the metrics, encoded."""
        return list(self._metadata.values())

    def read(self, request: Any) -> None:
        """Add everything that a request (raw form) holds."""
        for group in request.resource_metrics:
            resource = self._resource(list(group.resource.attributes))
            self._latest = 0
            for scope in group.scope_metrics:
                for metric in scope.metrics:
                    kind = metric.WhichOneof("data")
                    if kind is not None:
                        _READERS[kind](self, metric, getattr(metric, kind), resource)
            if self._latest and resource.attributes and resource.labels.keys() & {"job", "instance"}:
                info = Family(b"i" + resource.key, "target_info", resource)
                self._add(info, (), self._latest, 1.0, more=resource.attributes)

    # --- kinds of metrics ---

    def _gauge(self, metric: Any, gauge: Any, resource: Resource) -> None:
        self._numbers(metric, gauge, resource, GAUGE)

    def _sum(self, metric: Any, total: Any, resource: Resource) -> None:
        if self._cumulative(metric, total):
            self._numbers(metric, total, resource, COUNTER if total.is_monotonic else OTHER)

    def _numbers(self, metric: Any, data: Any, resource: Resource, kind: str) -> None:
        """Add the points of a gauge or sum."""
        family = self._family(metric, resource, kind, TYPES["counter" if kind == COUNTER else "gauge"])
        if family is None:
            return self._reject(len(data.data_points), "a metric has no name")
        for point in data.data_points:
            which = point.WhichOneof("value")
            if point.flags & NO_VALUE:
                value: Value = STALE
            elif which is None:
                self._reject(1, f"metric {metric.name[:80]}: a point has no value")
                continue
            else:
                value = point.as_double if which == "as_double" else point.as_int
            self._add(family, point.attributes, self._time(point), value)
        return None

    def _histogram(self, metric: Any, histogram: Any, resource: Resource) -> None:
        """Add count, sum and cumulative buckets of each point."""
        if not self._cumulative(metric, histogram):
            return None
        family = self._family(metric, resource, OTHER, TYPES["histogram"])
        if family is None:
            return self._reject(len(histogram.data_points), "a metric has no name")
        for point in histogram.data_points:
            counts, bounds = point.bucket_counts, point.explicit_bounds
            if (counts or bounds) and len(counts) != len(bounds) + 1:
                self._reject(
                    1, f"metric {metric.name[:80]}: {len(counts)} buckets, expected one more than {len(bounds)} bounds"
                )
                continue
            gone = point.flags & NO_VALUE
            time_ms, attributes = self._time(point), list(point.attributes)
            total = 0
            for bound, count in zip(bounds, counts, strict=False):
                total += count
                if bound == math.inf:
                    break
                self._add(family, attributes, time_ms, STALE if gone else total, "_bucket", "le", number_text(bound))
            self._add(family, attributes, time_ms, STALE if gone else point.count, "_bucket", "le", "+Inf")
            self._totals(family, point, attributes, time_ms, has_sum=point.HasField("sum"))
        return None

    def _summary(self, metric: Any, summary: Any, resource: Resource) -> None:
        """Add count, sum and quantiles of each point."""
        family = self._family(metric, resource, OTHER, TYPES["summary"])
        if family is None:
            return self._reject(len(summary.data_points), "a metric has no name")
        for point in summary.data_points:
            time_ms, attributes = self._time(point), list(point.attributes)
            for quantile in point.quantile_values:
                value = STALE if point.flags & NO_VALUE else quantile.value
                self._add(family, attributes, time_ms, value, "", "quantile", number_text(quantile.quantile))
            self._totals(family, point, attributes, time_ms, has_sum=True)
        return None

    def _exponential(self, metric: Any, histogram: Any, resource: Resource) -> None:
        text = f"metric {metric.name[:80]}: exponential histograms are not supported, use explicit buckets"
        self._reject(len(histogram.data_points), text)

    def _totals(self, family: Family, point: Any, attributes: list[bytes], time_ms: int, *, has_sum: bool) -> None:
        """Add ``_sum`` and ``_count`` of a histogram or summary."""
        gone = point.flags & NO_VALUE
        if has_sum:
            self._add(family, attributes, time_ms, STALE if gone else point.sum, "_sum")
        self._add(family, attributes, time_ms, STALE if gone else point.count, "_count")

    def _cumulative(self, metric: Any, data: Any) -> bool:
        """Whether a sum or histogram counts from its start; the points of others are rejected."""
        if data.aggregation_temporality == CUMULATIVE:
            return True
        text = f"metric {metric.name[:80]}: got temporality {data.aggregation_temporality}, expected 2 (cumulative)"
        self._reject(len(data.data_points), text)
        return False

    # --- parts ---

    def _reject(self, points: int, message: str) -> None:
        if points:
            self.rejected += points
            self.message = self.message or message

    def _time(self, point: Any) -> int:
        """Return the time of a point in Unix milliseconds; without one it is now."""
        time_ms: int = point.time_unix_nano // NANOSECONDS or self._now_ms
        self._latest = max(self._latest, time_ms)
        return time_ms

    def _resource(self, attributes: list[bytes]) -> Resource:
        """Return what a resource's attributes say: ``job``, ``instance``, ``ident``, and the rest."""
        given = {key: _text(value) for key, value in self._pairs(attributes)}
        labels = {}
        service, space = given.get("service.name", ""), given.get("service.namespace", "")
        if service:
            labels["job"] = f"{space}/{service}" if space else service
        for source, label in (("service.instance.id", "instance"), ("host.name", "ident")):
            if given.get(source):
                labels[label] = given[source]
        rest = _merged((key, value) for key, value in given.items() if key not in IDENTITY)
        return Resource(b"".join(b"%d:%b" % (len(each), each) for each in attributes), labels, rest)

    def _family(self, metric: Any, resource: Resource, kind: str, prometheus_type: int) -> Family | None:
        """Return what the series of a metric share, None when its name has no usable character."""
        name = metric_name(metric.name, metric.unit, kind)
        if not name:
            return None
        if name not in self._metadata:
            message = self._types.metadata(
                type=prometheus_type, metric_family_name=name, help=metric.description, unit=metric.unit
            )
            self._metadata[name] = message.SerializeToString()
        return Family(b"m%b %b" % (name.encode(), resource.key), name, resource)

    def _add(
        self, family: Family, attributes: Iterable[bytes], time_ms: int, value: Value, suffix: str = "", extra: str = "",
        extra_value: str = "", more: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Add a sample; `more` is implied by the family's key, everything else is in the key of the series."""
        key = (family.key, suffix.encode(), extra_value.encode(), *attributes)
        series = self._series.get(key)
        if series is not None:
            series[1].append(time_ms)
            series[2].append(value)
            return
        labels = self._sets.get(key)
        if labels is None:
            found = _merged((name, _text(value)) for name, value in self._pairs(attributes)) | (more or {})
            found |= family.resource.labels | {"__name__": family.name + suffix}
            if extra:
                found[extra] = extra_value
            labels = encode_texts(found.items())
            self._sets.put(key, labels)
        self._series[key] = (labels, [time_ms], [value])

    def _pairs(self, attributes: Iterable[bytes]) -> list[tuple[str, Any]]:
        """Return encoded attributes as names and ``AnyValue`` messages."""
        pairs = map(self._types.key_value.FromString, attributes)
        return [(pair.key, pair.value) for pair in pairs]


_READERS: dict[str, Callable[[Converter, Any, Any, Resource], None]] = {
    "gauge": Converter._gauge,
    "sum": Converter._sum,
    "histogram": Converter._histogram,
    "exponential_histogram": Converter._exponential,
    "summary": Converter._summary,
}


def _merged(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return labels for attributes; those whose names become equal are joined by ``;``, empty ones are none."""
    found: dict[str, str] = {}
    for name, value in sorted(pairs):
        label = label_name(name)
        if label and value:
            found[label] = f"{found[label]};{value}" if label in found else value
    return found


def _text(value: Any) -> str:
    """Return an attribute's value as label value."""
    plain = _plain(value)
    return plain if isinstance(plain, str) else "" if plain is None else orjson.dumps(plain).decode()


def _plain(value: Any) -> Any:
    """Return an ``AnyValue`` as what JSON has for it; bytes as base64."""
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    found = getattr(value, kind)
    if kind == "array_value":
        return [_plain(each) for each in found.values]
    if kind == "kvlist_value":
        return {pair.key: _plain(pair.value) for pair in found.values}
    return base64.b64encode(found).decode() if kind == "bytes_value" else found
