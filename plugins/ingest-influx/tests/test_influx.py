"""Line protocol: its grammar, its clients, and what arrives behind it."""

import base64
import gzip
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import influxdb
import pytest
from hypothesis import given
from hypothesis import strategies as st
from influxdb_client.client.influxdb_client import InfluxDBClient
from influxdb_client.client.write.point import Point
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.domain.write_precision import WritePrecision
from influxdb_client.rest import ApiException

import tocsin_ingest_influx
from tocsin.plugin import Decoded, DecodeError, IngestRequest, WireError, decode_chunk
from tocsin.plugin.testkit import AppFactory
from tocsin.plugin.testkit.arrivals import ServedGateway, written
from tocsin.plugin.testkit.ingest import IngestContract

NOW = 1_760_000_000.5


def request(body: bytes, query: Mapping[str, str] | None = None, **headers: str) -> IngestRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return IngestRequest("/influx/write", named, query or {}, body, "127.0.0.1", 1 << 20)


def decode(body: bytes, **query: str) -> Decoded:
    return tocsin_ingest_influx.Influx(clock=lambda: NOW).decode(request(body, query))


def samples(body: bytes, **query: str) -> dict[str, list[tuple[int, float]]]:
    return {written(series): series.samples for series in decode_chunk(decode(body, **query).body)}


class TestContract(IngestContract):
    plugin = "tocsin_ingest_influx"

    def valid(self) -> Mapping[str, IngestRequest]:
        lines = b"cpu,host=web01 usage=1.5,idle=2i 1760000000000000000\ncpu,host=web02 usage=2\n"
        return {
            "plain": request(lines),
            "gzip": request(gzip.compress(lines, mtime=0), content_encoding="gzip"),
            "escaped": request(b'my\\ cpu,a\\,b=c\\=d,path=c:\\\\x text="a \\"b\\"\nc",v=1 1760000000000000000'),
            "version 2": IngestRequest("/influx/api/v2/write", {}, {"bucket": "b"}, lines, "127.0.0.1", 1 << 20),
        }

    def refused(self) -> Mapping[str, IngestRequest]:
        bad = (b"cpu", b"cpu,a=b", b"cpu v=1 2 3", b"cpu v", b"cpu v=", b"cpu =1", b"cpu v=abc", b"cpu v=1e999", b"cpu v=nan",
               b"cpu v=1_0", b"cpu v=9223372036854775808i", b"cpu v=-1u", b"cpu v=i", b"cpu v=1 1.5",
               b"cpu v=1 99999999999999999999",
               b",a=b v=1", b"cpu,a v=1", b"cpu,=b v=1", b'cpu v="open', b'cpu v="a" x', b'cpu v="a"b', b"cpu v=1,", b'cpu v="a",',
               b"\xff v=1", b"cpu,a=\xff v=1", b"cpu\\ v=1", b"cpu, v=1", b"cpu v=1 --1", b"cpu v=1, 5")  # fmt: skip
        return {
            **{str(line): request(b"good v=1\n" + line) for line in bad},
            "a precision that is none": request(b"cpu v=1", {"precision": "d"}),
            "another encoding": request(b"cpu v=1", content_encoding="br"),
            "not gzip": request(b"cpu v=1", content_encoding="gzip"),
            "a time beyond 64 bits": request(b"cpu v=1 9223372036854775807", {"precision": "h"}),
        }

    def bomb(self) -> IngestRequest | None:
        return request(gzip.compress(b"\n" * (2 << 20)), content_encoding="gzip")


def test_every_field_is_a_series() -> None:
    assert samples(b"cpu,host=web01,cpu=cpu-total usage_idle=98.5,value=3i,up=t 1760000000123456789") == {
        'cpu_usage_idle{cpu="cpu-total",host="web01"}': [(1760000000123, 98.5)],
        'cpu{cpu="cpu-total",host="web01"}': [(1760000000123, 3.0)],
        'cpu_up{cpu="cpu-total",host="web01"}': [(1760000000123, 1.0)],
    }


def test_lines_of_one_series_are_one_series() -> None:
    assert samples(b"m v=1 1000000\r\nm v=2 2000000\n\n# a comment\nn v=3 1000000") == {
        "m_v{}": [(1, 1.0), (2, 2.0)],
        "n_v{}": [(1, 3.0)],
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"1", 1.0),
        (b"1.", 1.0),
        (b"-1.5e-3", -0.0015),
        (b"+7", 7.0),
        (b"9223372036854775807i", 9223372036854775807.0),
        (b"-9223372036854775808i", -9223372036854775808.0),
        (b"18446744073709551615u", 18446744073709551615.0),
        (b"T", 1.0),
        (b"true", 1.0),
        (b"False", 0.0),
    ],
)
def test_values(text: bytes, value: float) -> None:
    assert samples(b"m v=%b 0" % text) == {"m_v{}": [(0, value)]}


@pytest.mark.parametrize(
    ("precision", "expected"),
    [("", 0), ("ns", 0), ("n", 0), ("us", 1), ("u", 1), ("µ", 1), ("ms", 1760), ("s", 1_760_000),
     ("m", 105_600_000), ("h", 6_336_000_000)],
)  # fmt: skip
def test_precision(precision: str, expected: int) -> None:
    assert samples(b"m v=1 1760", precision=precision) == {"m_v{}": [(expected, 1.0)]}


def test_without_time_it_is_now() -> None:
    assert samples(b"m v=1") == {"m_v{}": [(1_760_000_000_500, 1.0)]}
    assert samples(b"m v=1 -1500000") == {"m_v{}": [(-2, 1.0)]}


@pytest.mark.parametrize(
    ("line", "series"),
    [
        (rb"my\ m\,x v=1", "my_m_x_v{}"),
        (rb"m,a\ b=c\ d\,e\=f v=1", 'm_v{a_b="c d,e=f"}'),
        (rb"m,p=c:\dir\x v=1", r'm_v{p="c:\dir\x"}'),
        (rb"m,p=c:\\ v=1,w=2 v=1", r'm_v{p="c:\ v=1",w="2"}'),
        (rb"m a\ b\=c=1", "m_a_b_c{}"),
        (b'm,a=say"hi" v=1', 'm_v{a="say"hi""}'),
        (b"m.x-y,a.b-c=d v=1", 'm_x_y_v{a_b_c="d"}'),
        (b"1m,2a=b v=1", '_1m_v{_2a="b"}'),
        ("größe,ö=ü v=1".encode(), 'gr__e_v{_="ü"}'),
        (b"m,a=,b=c v=1", 'm_v{b="c"}'),
        (b"m,a=b=c v=1", 'm_v{a="b=c"}'),
    ],
)
def test_names(line: bytes, series: str) -> None:
    assert list(samples(line)) == [series]


def test_texts_are_left_out_and_counted() -> None:
    decoded = decode(b'm s="a, b=c \\"x\\"\n d e",v=1,t="" 1000000\nn v=2 2000000\n')
    assert decoded.failed == 2
    assert [str(series) for series in decode_chunk(decoded.body)] == ['{__name__="m_v"} 1@1', '{__name__="n_v"} 2@2']


@pytest.mark.parametrize("body", [b"a v=1\nb v=x", b'a v="1\n"\nb v=x', b'a v="1"\nb v', b'#"\nb v= 1'])
def test_refusals_name_the_line(body: bytes) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(body)
    assert str(caught.value).startswith(f"line {body.count(10, 0, body.index(b'b v')) + 1}: got ")


def test_the_database_is_a_label() -> None:
    assert list(samples(b"m v=1", db="telegraf")) == ['m_v{db="telegraf"}']
    assert list(samples(b"m,db=own v=1", bucket="b")) == ['m_v{db="own"}']


def test_label_sets_are_encoded_once() -> None:
    protocol = tocsin_ingest_influx.Influx()
    for database in ("a", "a", "b"):
        protocol.decode(request(b"m,x=y v=1,w=2 0\nm,x=y v=2 1", {"db": database}))
    assert protocol.label_sets().stats()[:2] == (2, 4)


@pytest.mark.parametrize(
    ("query", "header", "status"),
    [
        ("?u=agent&p=secret", "", 204),
        ("", "Token secret", 204),
        ("", "Token agent:secret", 204),
        ("", "Basic " + base64.b64encode(b"agent:secret").decode(), 204),
        ("?u=agent&p=other", "", 401),
        ("?u=other&p=secret", "", 401),
        ("", "Token other", 401),
        ("", "Basic " + base64.b64encode(b"other:secret").decode(), 401),
        ("", "Basic ?", 401),
        ("", "", 401),
    ],
)
def test_credentials(make_app: AppFactory, query: str, header: str, status: int) -> None:
    settings = {"HTTP": {"APIForAgent": {"BasicAuth": {"agent": "secret", "two": "more"}}}}
    client = make_app(plugins=[tocsin_ingest_influx], settings=settings, start="http").client
    headers = {"Authorization": header} if header else {}
    assert client.request("POST", "/influx/write" + query, body=b"m v=1", headers=headers).status == status


@pytest.fixture
def served(serve_gateway: Callable[..., ServedGateway]) -> ServedGateway:
    return serve_gateway(tocsin_ingest_influx, {"HTTP": {"APIForAgent": {"BasicAuth": {"agent": "secret"}}}})


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def client2(served: ServedGateway, request: pytest.FixtureRequest) -> Iterator[InfluxDBClient]:
    with InfluxDBClient(f"{served.url}/influx", token="secret", org="o", enable_gzip=request.param) as client:
        yield client


def test_with_the_client_of_version_2(served: ServedGateway, client2: InfluxDBClient) -> None:
    assert client2.ping()
    assert client2.version() == "1.8.10"
    with pytest.warns(DeprecationWarning, match="deprecated"):
        assert client2.health().status == "pass"
    point = (
        Point("my measurement")
        .tag("host", "web 01")
        .tag("path", "a=b,c")
        .field("temp", 25.5)
        .field("count", 7)
        .field("on", True)
        .field("note", 'say "hi"\nthere')
        .time(1760000000123, WritePrecision.MS)
    )
    with client2.write_api(write_options=SYNCHRONOUS) as writer:
        writer.write(bucket="b", record=point, write_precision=WritePrecision.MS)
    labels = '{db="b",ident="web 01",path="a=b,c"}'
    assert served.arrivals.samples(3) == {
        f"my_measurement_{name}{labels}": [(1760000000123, value)]
        for name, value in {"temp": 25.5, "count": 7.0, "on": 1.0}.items()
    }
    assert 'svc_pushgw_items_failed_total{channel="influx"} 1.0' in served.app.client.get("/metrics").text


def test_the_client_is_told_of_malformed_lines(client2: InfluxDBClient) -> None:
    with client2.write_api(write_options=SYNCHRONOUS) as writer, pytest.raises(ApiException) as caught:
        writer.write(bucket="b", record="m v=what")
    assert caught.value.status == 400
    assert "line 1: got 'what'" in str(caught.value.body)


@pytest.mark.parametrize("compressed", [False, True])
def test_with_the_client_of_version_1(served: ServedGateway, compressed: bool) -> None:
    client = influxdb.InfluxDBClient(
        "127.0.0.1", served.port, "agent", "secret", "telegraf", path="influx", gzip=compressed, retries=1
    )
    assert client.ping() == "1.8.10"
    point: dict[str, Any] = {"measurement": "cpu", "tags": {"host": "web01"}, "fields": {"value": 0.64}}
    assert client.write_points([{**point, "time": 1760000000}], time_precision="s")
    client.close()
    assert served.arrivals.samples(1) == {'cpu{db="telegraf",ident="web01"}': [(1760000000000, 0.64)]}


NAME = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r\t\0\\\x0b\x0c\x1c\x1d\x1e\x1f\x85"), min_size=1, max_size=6
)


@given(
    NAME.filter(lambda name: name[0] != "#"),
    st.dictionaries(NAME, NAME, max_size=3),
    NAME,
    st.floats(-1e300, 1e300),
    st.integers(-(2**53), 2**53),
    st.booleans(),
)
def test_what_is_escaped_comes_back(
    name: str, tags: dict[str, str], field: str, value: float, stamp: int, quoted: bool
) -> None:
    def escaped(text: str) -> str:
        return text.replace(",", "\\,").replace("=", "\\=").replace(" ", "\\ ")

    head = ",".join([escaped(name), *(f"{escaped(key)}={escaped(text)}" for key, text in tags.items())])
    note = 'note="a\\"b",' if quoted else ""
    line = f"{head} {note}{escaped(field)}={value!r} {stamp}"
    (series,) = decode_chunk(decode(line.encode(), precision="ms").body)
    assert series.samples == [(stamp, value)]
    assert {text for key, text in series.labels if key != "__name__"} <= set(tags.values())


@given(st.binary(max_size=80) | st.text(st.sampled_from('ab,= \\"\n1.i#t'), max_size=60).map(str.encode))
def test_any_body_is_decoded_or_refused(body: bytes) -> None:
    try:
        decoded = decode(body)
    except (DecodeError, WireError):
        return
    assert len(list(decode_chunk(decoded.body))) <= body.count(b"=")
