"""Names of hosts that look alike: each is a host of its own, whatever a database's collation makes of them."""

import pytest

from tocsin.plugin.testkit import dat
from tocsin.plugin.testkit.components import Database

NAMES = ("web", "Web", "wéb", "web ", "straße", "strasse", "web\u200b", "\uff57eb")


@pytest.fixture
def world(make_world, database: Database):
    return make_world({"DB": {"DBType": database.kind, "DSN": database.dsn}})


def test_names_that_look_alike(world) -> None:
    for _ in range(2):
        for name in NAMES:
            world.beat(name, global_labels={"said": str(NAMES.index(name))})
    assert {name: host["host_tags"] for name, host in world.hosts().items()} == {
        name: [f"said={number}"] for number, name in enumerate(NAMES)
    }
    assert world.metric("svc_target_registered_total") == len(NAMES)
    shop = world.group("shop")
    for number, name in enumerate(NAMES):
        assert world.bind(shop, name, tags=[f"given={number}"]) == {}
    for number, (name, host) in enumerate((name, world.hosts()[name]) for name in NAMES):
        assert (host["tags"], host["group_ids"]) == ([f"given={number}"], [shop]), name
    for word in ("web", "WEB", "%"):
        found = {"web", "Web", "web ", "web\u200b"} if word != "%" else set()
        assert set(world.hosts(query=word)) == found, word
        pattern = {"key": "hosts", "op": "=~", "values": [f"*{word}*"]}
        answer = dat(world.root.post("/api/svc/target/list", {"queries": [pattern]}))
        assert {host["ident"] for host in answer["list"]} == found, word
    assert dat(world.root.delete("/api/svc/targets", {"idents": ["web"]})) == {}
    assert set(world.hosts()) == {*NAMES} - {"web"}
