"""Real processes: hosts are known to all workers, and a stop loses no heartbeat that was answered."""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import cramjam
import pytest
import urllib3

from tocsin.plugin import decode_chunk, encode_labels, encode_series
from tocsin.plugin.testkit.components import HttpSink, Request
from tocsin.plugin.testkit.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def beat(service: Deployment, hostname: str, **said: object) -> None:
    answer = service.request("POST", "/v1/svc/heartbeat", {"hostname": hostname, **said})
    assert (answer.status, json.loads(answer.data)["err"]) == (200, "")


def test_heartbeats_outlive_the_process(make_deployment: Callable[..., Deployment]) -> None:
    service = make_deployment()
    beat(service, "early", os="linux")

    def listed() -> bool:
        return [host["ident"] for host in service.api("GET", "/targets")["list"]] == ["early"]

    service.until(listed, "the host is listed")
    beat(service, "early", os="linux")
    for _ in range(6):  # whichever workers answer
        (host,) = service.api("GET", "/targets")["list"]
        assert (host["os"], host["target_up"]) == ("linux", 2)
    for number in range(20):
        beat(service, f"late{number:02}")
    assert service.stop() == 0
    with closing(sqlite3.connect(service.directory / "data/tocsin.db")) as database:
        rows = database.execute("SELECT ident FROM target ORDER BY ident").fetchall()
    assert [ident for (ident,) in rows] == ["early", *(f"late{number:02}" for number in range(20))]


class Doors:
    """A kept connection to each worker of each service, so that every one of them can be asked."""

    def __init__(self, sink: HttpSink, *services: Deployment) -> None:
        self._sink, self._sent = sink, 0
        self._doors: list[urllib3.HTTPConnectionPool] = []
        self._stack = ExitStack()
        for service in services:
            self._doors += self._open(service)

    def _open(self, service: Deployment) -> Iterator[urllib3.HTTPConnectionPool]:
        wanted = set(service.processes()["worker"])
        assert len(wanted) == 2
        while wanted:
            door = urllib3.HTTPConnectionPool("127.0.0.1", service.port, maxsize=1, block=True, retries=False)
            self._stack.callback(door.close)
            if (pid := int(door.request("GET", "/pid").data)) in wanted:
                wanted.remove(pid)
                yield door

    def see(self, **labels: str) -> None:
        """Send a series of the host through each door; assert that exactly these labels are added to each."""
        expected = {"__name__": "m", "ident": "web01", **labels}
        wanted = {}
        for door in self._doors:
            self._sent += 1
            wanted[str(self._sent)] = {**expected, "n": str(self._sent)}
            own = [(b"__name__", b"m"), (b"agent_hostname", b"web01"), (b"n", str(self._sent).encode())]
            series = bytes(encode_series(encode_labels(own), [int(time.time() * 1000)], [1.0]))
            headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
            body = bytes(cramjam.snappy.compress_raw(series))
            assert door.request("POST", "/rw/v1/write", body=body, headers=headers).status == 200
        self._sink.wait_until(lambda requests: wanted.keys() <= found(requests).keys())
        arrived = found(self._sink.requests)
        assert {number: arrived[number] for number in wanted} == wanted

    def close(self) -> None:
        """Give the connections up."""
        self._stack.close()


def found(requests: list[Request]) -> dict[str, dict[str, str]]:
    """Return the labels of the series that arrived, by their label ``n``."""
    bodies = (bytes(cramjam.snappy.decompress_raw(request.body)) for request in requests)
    series = (dict(one.labels) for body in bodies for one in decode_chunk(body))
    return {labels["n"]: labels for labels in series}


def test_every_worker_sees_a_change_with_the_next_request(
    make_deployment: Callable[..., Deployment], http_sink: HttpSink
) -> None:
    settings = f'[Pushgw.WriterOpt]\nBatchLinger = 0\n[[Pushgw.Writers]]\nUrl = "{http_sink.url}"\n'
    center = make_deployment(settings)
    gateway = make_deployment(settings, process="pushgw", beside=center)
    team = center.api("POST", "/user-groups", {"name": "team"})

    def group(name: str) -> int:
        members = [{"user_group_id": team, "perm_flag": "rw"}]
        return int(center.api("POST", "/busi-groups", {"name": name, "members": members, **label(name)}))

    def label(value: str) -> dict[str, object]:
        return {"label_enable": int(bool(value)), "label_value": value}

    def bind(action: str, *groups: int) -> None:
        center.api("PUT", "/targets/bgids", {"idents": ["web01"], "bgids": groups, "action": action})

    def known() -> bool:
        return bool(center.api("GET", "/targets")["list"])

    shop, bank = group("shop"), group("bank")
    with closing(Doors(http_sink, center, gateway)) as doors:
        doors.see()
        beat(center, "web01")
        center.until(known, "the host is known")
        doors.see()
        beat(gateway, "web01", global_labels={"rack": "r7"})
        doors.see(rack="r7")
        beat(center, "web01", global_labels={"rack": "r8"})
        doors.see(rack="r8")
        center.api("POST", "/targets/tags", {"idents": ["web01"], "tags": ["role=web", "env=prod"]})
        doors.see(rack="r8", role="web", env="prod")
        center.api("DELETE", "/targets/tags", {"idents": ["web01"], "tags": ["role=web"]})
        doors.see(rack="r8", env="prod")
        bind("add", shop)
        doors.see(rack="r8", env="prod", busigroup="shop")
        center.api("PUT", f"/busi-group/{shop}", {"name": "market", **label("market")})
        doors.see(rack="r8", env="prod", busigroup="market")
        center.api("PUT", f"/busi-group/{shop}", {"name": "market", **label("")})
        doors.see(rack="r8", env="prod")
        bind("reset", bank)
        doors.see(rack="r8", env="prod", busigroup="bank")
        bind("del", bank)
        doors.see(rack="r8", env="prod")
        center.api("DELETE", "/targets", {"idents": ["web01"]})
        doors.see()
        beat(gateway, "web01", global_labels={"rack": "r9"})
        center.until(known, "the host is back")
        beat(gateway, "web01", global_labels={"rack": "r9"})
        doors.see(rack="r9")
