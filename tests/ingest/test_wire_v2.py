"""Remote write 2.0 becomes 1.0 with the same meaning."""

from __future__ import annotations

import pytest

from tocsin.ingest import interface

LIMIT = 1 << 20


@pytest.fixture
def request_v2(pb):
    """Return a request with one series that uses everything."""
    symbols = [b"", b"__name__", b"http_seconds_bucket", b"le", b"1", b"trace_id", b"abc", b"How long.", b"seconds"]
    request = pb.RequestV2(symbols=symbols)
    series = request.timeseries.add(labels_refs=[1, 2, 3, 4], created_timestamp=77)
    series.samples.add(value=2.5, timestamp=1000)
    series.histograms.add(count_int=3, schema=-1, timestamp=5)
    series.exemplars.add(labels_refs=[5, 6], value=9.0, timestamp=8)
    series.metadata.type, series.metadata.help_ref, series.metadata.unit_ref = 3, 7, 8
    return request


def decode(wire, pb, request, limit=LIMIT):
    return pb.WriteRequest.FromString(wire.decode_v2(request.SerializeToString(), limit))


def test_everything_is_carried(wire, pb, request_v2):
    result = decode(wire, pb, request_v2)
    expected = pb.WriteRequest()
    series = expected.timeseries.add()
    series.labels.add(name=b"__name__", value=b"http_seconds_bucket")
    series.labels.add(name=b"le", value=b"1")
    series.samples.add(value=2.5, timestamp=1000)
    series.histograms.add(count_int=3, schema=-1, timestamp=5)
    series.exemplars.add(value=9.0, timestamp=8).labels.add(name=b"trace_id", value=b"abc")
    expected.metadata.add(type=3, metric_family_name="http_seconds", help="How long.", unit="seconds")
    assert result == expected


def test_samples_exemplars_and_histograms_are_counted(wire, pb, request_v2):
    request_v2.timeseries.add(labels_refs=[1, 2]).samples.extend(request_v2.timeseries[0].samples)
    body = wire.decode_v2(request_v2.SerializeToString(), LIMIT)
    assert wire.tally(body) == (2, 1, 1)
    assert wire.tally(b"") == (0, 0, 0)
    with pytest.raises(interface.WireError):
        wire.tally(body[:-1])


def test_metadata_of_a_family_comes_once(wire, pb, request_v2):
    request_v2.timeseries.append(request_v2.timeseries[0])
    assert len(decode(wire, pb, request_v2).metadata) == 1


def test_symbols_may_follow(wire, pb, request_v2):
    whole = request_v2.SerializeToString()
    series = pb.RequestV2(timeseries=request_v2.timeseries).SerializeToString()
    symbols = pb.RequestV2(symbols=request_v2.symbols).SerializeToString()
    assert whole == symbols + series
    assert wire.decode_v2(series + symbols, LIMIT) == wire.decode_v2(whole, LIMIT)


def test_empty_request(wire):
    assert wire.decode_v2(b"", LIMIT) == b""


def test_wrong_references(wire, pb, request_v2):
    for refs in ([1, 99], [1], [1, 2, 3]):
        del request_v2.timeseries[0].labels_refs[:]
        request_v2.timeseries[0].labels_refs.extend(refs)
        with pytest.raises(interface.SymbolError):
            decode(wire, pb, request_v2)


def test_first_symbol_must_be_empty(wire, pb, request_v2):
    request_v2.symbols[0] = b"x"
    with pytest.raises(interface.SymbolError, match="byte 0"):
        decode(wire, pb, request_v2)


def test_version_1_body_is_refused(wire, make_series, make_body):
    with pytest.raises(interface.VersionError):
        wire.decode_v2(make_body(make_series(a="1")), LIMIT)


def test_expansion_is_bounded(wire, pb):
    """Many references to one long symbol stop at the limit, before memory is taken."""
    request = pb.RequestV2(symbols=[b"", b"n", b"x" * 100_000])
    for _ in range(1000):
        request.timeseries.add(labels_refs=[1, 2])
    with pytest.raises(interface.SizeError):
        decode(wire, pb, request)


def test_label_count_is_bounded(wire, pb):
    request = pb.RequestV2(symbols=[b""])
    request.timeseries.add(labels_refs=[0, 0] * 1025)
    with pytest.raises(interface.LabelCountError):
        decode(wire, pb, request)
