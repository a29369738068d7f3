"""Hosts on every database: what differs between them is patterns, uniqueness, transactions and numbers of changes."""

import random
import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tocsin.app.bootstrap import route_table
from tocsin.ingest.hosts import TargetLabels
from tocsin.plugin.testkit import dat
from tocsin.plugin.testkit.components import PATIENCE, Database
from tocsin.targets.hosts import Hosts


@pytest.fixture
def world(make_world, database: Database):
    return make_world({"DB": {"DBType": database.kind, "DSN": database.dsn}})


def test_a_whole_life(world) -> None:
    said = {"global_labels": {"env": "prod ünï 😀"}, "host_ip": "10.0.0.1", "extend_info": {"x": "y" * 70_000}}
    shop = world.group("shop", label="shop")
    for ident in ("web_01", "web%02", "web\\03"):
        for _ in range(2):
            world.beat(ident, {"gid": shop}, **said)
    assert world.bind(shop, "web_01", "nobody", tags=["role=web"]) == {"nobody": "Ident not found"}
    for query, found in (
        ("b_0", "web_01"),
        ("b%0", "web%02"),
        ("\\", "web\\03"),
        ("ENV=PROD", "web%02 web\\03 web_01"),
    ):
        assert " ".join(sorted(world.hosts(query=query))) == found, query
    patterns = {"key": "hosts", "op": "=~", "values": ["*_*", "*\\*"]}
    answer = dat(world.root.post("/api/svc/target/list", {"queries": [patterns]}))
    assert sorted(host["ident"] for host in answer["list"]) == ["web\\03", "web_01"]
    book = world.app.core.get(TargetLabels)
    version, _ = book.changes(0)
    assert book.lookup("web_01").labels == {b"env": "prod ünï 😀".encode(), b"role": b"web"}
    assert book.lookup("web_01").group_label == b"shop"
    world.bind([], "web_01", action="reset")
    assert book.changes(version)[1] == {"web_01"}
    assert dat(world.root.delete("/api/svc/targets", {"host_ips": ["10.0.0.1"]})) == {}
    assert world.hosts() == {}
    assert book.changes(version)[1] == {"web_01", "web%02", "web\\03"}
    assert book.lookup("web_01") is None


def test_a_host_that_is_removed_meanwhile_is_bound_to_nothing(world) -> None:
    hosts, shop = world.app.core.get(Hosts), world.group("shop")
    world.known("here")
    hosts.bind(["here", "gone"], [shop])
    hosts.rebind(["gone"], [shop])
    assert hosts.count_in_group(shop) == 1
    hosts.delete(["here"])
    world.known("here", "gone")
    assert {name: host["group_ids"] for name, host in world.hosts().items()} == {"here": [], "gone": []}


def test_as_many_labels_as_a_collector_may_give(world) -> None:
    for text in ("😀", "\x01"):
        labels = {f"{number:03}": text * 78 for number in range(100)}
        for _ in range(2):
            world.beat("web01", global_labels=labels)
        assert world.hosts()["web01"]["host_tags"] == [f"{name}={value}" for name, value in labels.items()]
    assert world.metric("svc_target_update_errors_total") == 0


def test_a_host_seen_by_many_at_once(world) -> None:
    core, hosts = world.app.core, world.app.core.get(Hosts)
    core.release()
    barrier, failures = threading.Barrier(4), []

    def work(number: int) -> None:
        barrier.wait(PATIENCE)
        try:
            for turn in range(5):
                hosts.register(["shared", f"own{number}"])
                hosts.bind(["shared"], [turn + 1, 100 + number], [f"t{number}_{turn}=1"])
        except Exception as error:
            failures.append(repr(error))
        finally:
            core.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []
    found = world.hosts()
    assert sorted(found) == ["own0", "own1", "own2", "own3", "shared"]
    assert len(found["shared"]["tags"]) == 20
    assert found["shared"]["group_ids"] == [1, 2, 3, 4, 5, 100, 101, 102, 103]
    book = core.get(TargetLabels)
    book.changes(0)
    assert len(book.lookup("shared").labels) == 20


def test_changes_of_the_same_hosts_at_once_leave_nothing_half(world) -> None:
    """Nobody is refused, and no group has a host that is not there: it could never be deleted."""
    core, hosts, shop = world.app.core, world.app.core.get(Hosts), world.group("shop")
    names, failures = [f"h{number}" for number in range(10)], []
    core.release()

    def work(seed: int) -> None:
        chance = random.Random(seed)
        ways = (
            hosts.register,
            hosts.delete,
            lambda some: hosts.bind(some, [shop]),
            lambda some: hosts.rebind(some, [shop]),
        )
        try:
            for _ in range(40):
                chance.choice(ways)(chance.sample(names, 4))
                core.release()
        except Exception as error:
            failures.append(repr(error))
        finally:
            core.release()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []
    assert hosts.count_in_group(shop) == sum(bool(host["group_ids"]) for host in world.hosts().values())


odd = st.sampled_from(
    ["", " ", "a", "é", "%", "_", "\\", "a\x00b", "x" * 600, "-", "k=v", "0", "1", "-1", str(1 << 64)]
)
values = st.recursive(
    st.none() | st.booleans() | odd | st.sampled_from([0, 1, -1, 1 << 40, 1 << 63, 1.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(odd, inner, max_size=2),
    max_leaves=4,
)
names = st.lists(st.sampled_from(["a", "b", "", "A", "a "]), max_size=3)
queries = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["group_ids", "tags", "hosts", "x"]),
            "op": st.sampled_from(["==", "!=", "=~", "!~", ""]),
            "values": st.lists(odd | st.none() | st.integers(-2, 1 << 40), max_size=3),
        }
    ),
    max_size=3,
)
bodies = st.one_of(
    values,
    st.fixed_dictionaries(
        {},
        optional={
            "idents": names | values,
            "host_ips": names,
            "lst": names | values,
            "now": st.just(1_760_000_000) | values,
            "tags": st.lists(odd, max_size=2) | values,
            "note": odd | values,
            "bgids": st.lists(st.sampled_from([0, 1, 9, 1 << 40]), max_size=2) | values,
            "action": st.sampled_from(["add", "del", "reset", "x"]) | values,
            "queries": queries | values,
            "limit": values,
            "p": values,
        },
    ),
)
wanted = st.sampled_from(["query", "hosts", "gids", "order", "desc", "limit", "p", "downtime", "idents", "ident"])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_nothing_crashes(world, data: st.DataObject) -> None:
    routes = [r for r in route_table(world.app.core) if r.feature == "targets" and r.full_path.startswith("/api/svc/t")]
    assert len(routes) == 11
    route = data.draw(st.sampled_from(routes))
    query: dict[str, Any] = data.draw(st.dictionaries(wanted, odd, max_size=3))
    body = data.draw(bodies) if route.method != "GET" else None
    answer = world.root.request(route.method, route.full_path, query=query, json=body if route.body else None)
    assert answer.status == 200
    assert answer.headers.get("x-error-code") != "internal", (answer.json(), query, body)
