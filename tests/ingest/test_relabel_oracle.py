"""Relabelling compared with a real Prometheus: the same series and rules in both, label by label.

Line ends are left out: its version 2 has `.` stop there, version 3 and ours have not.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import cramjam
import urllib3

from tocsin.ingest.relabel import Relabeler, parse_rule
from tocsin.plugin import decode_chunk, encode_labels, encode_series
from tocsin.plugin.testkit.components import HttpSink, Prometheus, wait_until

Rule = dict[str, Any]
KEYS = {
    "action": "Action",
    "source_labels": "SourceLabels",
    "separator": "Separator",
    "regex": "Regex",
    "modulus": "Modulus",
    "target_label": "TargetLabel",
    "replacement": "Replacement",
}
SERIES = [
    {"__name__": "up", "instance": "web01:9100", "job": "node"},
    {"__name__": "go_gc", "instance": "web01:9100", "job": "web01:9100", "Env": "PrOd"},
    {"__name__": "x", "a": "1", "b": "1", "c": "2", "__meta_k": "v", "__tmp_a": "z"},
    {"__name__": "u", "s": "ÄÖß ΑΣ İi ŉ ᾳ ﬁ ǅ", "job": "a;b"},
    {"__name__": "d", "p": "$1", "q": "a$b", "path": "/a/b", "num": "0123"},
    {"__name__": "é_metric", "label_a": "A", "label_b": "B", "label_a_b": "C"},
]
REPLACEMENTS = [
    "fra", "a$1b", "$$x$", "${1", "${}x", "$", "$-", "$01-${01}-$1", "$1é", "${1}é$0", "$1_y", "$2", "$nope.",
    "$1$1", "$0", "${0}x", "$1²", "$١", "$100000000000", "<$1>",
]  # fmt: skip
REGEXES = [
    "(.*)", ".*", "(.+)", "a", "node", "nod", "nod|node", "^node$", "n(o)(d)e", "(?P<n>[a-z])(.*)",
    r"([^:]+)(?::\d+)?", "(?i)NODE", "(?U)(.*)(.*)", r"\w+", r"\d+", r"\Qnode\E", r"\pL+", "[[:alpha:]]+",
    "(?:n|x)(.*)", ".{4}", "(node)|(x)?.*",
]  # fmt: skip
ACTIONS = [
    "replace", "replace", "replace", "keep", "drop", "keepequal", "dropequal", "hashmod", "labelmap",
    "labeldrop", "labelkeep", "lowercase", "uppercase",
]  # fmt: skip
TARGETS = ("x", "job", "__name__", "l${1}", "${1}", "x_$1", "$nope", "lab_${2}")


def hand_written() -> list[list[Rule]]:
    """Return one chain for each clause of the documentation."""
    job: Rule = {"source_labels": ["job"]}
    chains: list[list[Rule]] = [[{**job, "target_label": "x", "replacement": text}] for text in REPLACEMENTS]
    chains += [[{**job, "target_label": "x", "regex": regex, "replacement": "[$1]"}] for regex in REGEXES]
    chains += [[{**job, "target_label": name, "regex": "(no)?(.*)", "replacement": "$2"}] for name in TARGETS]
    chains += [[{"action": action, **job, "regex": regex}] for action in ("keep", "drop") for regex in REGEXES]
    chains += [[{"target_label": "job", "replacement": text}] for text in ("", "dc", "$1")]
    chains += [[{"action": action, **job, "regex": ""}] for action in ("keep", "drop")]
    for separator in ("", ";", "::", "$"):
        chains.append([{"source_labels": ["job", "nope", "a"], "separator": separator, "target_label": "x"}])
    for action in ("lowercase", "uppercase"):
        chains += [[{"action": action, "source_labels": ["s", "Env"], "target_label": name}] for name in ("s", "y")]
    for action in ("keepequal", "dropequal"):
        chains += [[{"action": action, "source_labels": ["a"], "target_label": name}] for name in ("b", "c", "nope")]
    for modulus in (1, 7, (1 << 64) - 1):
        chains.append([{"action": "hashmod", "source_labels": ["job", "s"], "target_label": "h", "modulus": modulus}])
    for regex in ("label_.*|job", "lab", ".*", "__name__|job", "job", "nope"):
        chains += [[{"action": action, "regex": regex}] for action in ("labeldrop", "labelkeep")]
    for regex, text in (("label_(.+)", "x_$1"), ("label_.*", "one"), ("(a|b|c)", "m"), ("(.*)", "${1}_x"), ("c", "a")):
        chains.append([{"action": "labelmap", "regex": regex, "replacement": text}])
    return chains


def generated(count: int) -> list[list[Rule]]:
    """Return chains of up to four rules."""
    chance = random.Random(20)  # the same chains each time

    def rule() -> Rule:
        action = chance.choice(ACTIONS)
        regex = chance.choice([*REGEXES, "label_(.+)", "(.)(.*)", "a|b", "(\\w+)_(\\w+)"])
        if action in ("labeldrop", "labelkeep"):
            return {"action": action, "regex": regex}
        if action == "labelmap":  # there an empty name would stay, which no receiver takes
            return {"action": action, "regex": regex, "replacement": chance.choice(("m_$1", "one", "${1}_x"))}
        names = (*SERIES[1], "a", "b", "x", "nope")
        made: Rule = {"action": action, "source_labels": chance.sample(names, chance.choice((0, 1, 1, 2, 3)))}
        if action in ("keep", "drop", "replace"):
            made |= {"regex": regex, "separator": chance.choice((";", "", "-"))}
        if action == "replace":
            return {**made, "target_label": chance.choice(TARGETS), "replacement": chance.choice(REPLACEMENTS)}
        if action == "hashmod":
            made["modulus"] = chance.choice((1, 2, 1000))
        return made if action in ("keep", "drop") else {**made, "target_label": chance.choice(("a", "x", "job", "new"))}

    return [[rule() for _ in range(chance.choice((1, 2, 3, 4)))] for _ in range(count)]


def body() -> bytes:
    """Return a remote-write request with the series, a minute ahead.

    A remote passes on only what is younger than itself, and Prometheus is ready before all of them are.
    """
    now = int((time.time() + 60) * 1000)
    encoded = (encode_labels(sorted((k.encode(), v.encode()) for k, v in one.items())) for one in SERIES)
    return bytes(cramjam.snappy.compress_raw(b"".join(encode_series(labels, [now], [1.0]) for labels in encoded)))


def dealt_with(metrics: str) -> list[int]:
    """Return for each remote how many of the series it has dropped, or sent and got an answer to."""
    counted: Counter[str] = Counter()
    found = re.findall(r'_remote_storage_samples_(total|dropped_total|pending){remote_name="(\w+)",.*} (\d+)', metrics)
    for kind, remote, value in found:
        counted[remote] += -int(value) if kind == "pending" else int(value)
    return list(counted.values())


def as_lines(found: list[dict[str, str] | None]) -> list[str]:
    """Return label sets in an order that depends on nothing but them."""
    return sorted(json.dumps(labels, sort_keys=True) for labels in found if labels)


def test_a_real_prometheus_agrees(http_sink: HttpSink, start_prometheus: Callable[..., Prometheus]) -> None:
    chains = [*hand_written(), *generated(100)]
    remotes = [
        {
            "name": f"r{number}",
            "url": f"{http_sink.url}/{number}",
            "write_relabel_configs": chain,
            "queue_config": {"max_shards": 1, "batch_send_deadline": "100ms"},
            "metadata_config": {"send": False},
        }
        for number, chain in enumerate(chains)
    ]
    server = start_prometheus(remote_write=remotes, settings={"scrape_configs": []})

    def done() -> bool:
        metrics = urllib3.request("GET", f"{server.url}/metrics").data.decode()
        return [len(SERIES)] * len(chains) == dealt_with(metrics)

    try:
        assert urllib3.request("POST", f"{server.url}/api/v1/write", body=body()).status == 204
        wait_until(done, what="every remote has its series")
    finally:
        server.stop()  # so many remotes keep a processor busy
    arrived: dict[str, list[dict[str, str] | None]] = {f"/{number}": [] for number in range(len(chains))}
    for request in http_sink.requests:
        arrived[request.path] += [
            dict(one.labels) for one in decode_chunk(bytes(cramjam.snappy.decompress_raw(request.body)))
        ]
    for number, chain in enumerate(chains):
        ours = Relabeler([parse_rule({KEYS[key]: value for key, value in rule.items()}, "r") for rule in chain])
        assert as_lines([ours.apply(dict(one)) for one in SERIES]) == as_lines(arrived[f"/{number}"]), chain
