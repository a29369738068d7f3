"""What the gateway does to the labels of a series: identity, target labels, drop rules, debug samples.

Everything here is decided once per distinct label set and remembered by the label cache (see `interface`), so it is written
for clarity. It is a pure function of the labels until targets or rules change. The compiled wire functions have a copy that
works on bytes (`_wire_labels.pxi`); this is its specification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tocsin.ingest.hosts import TargetLabels
from tocsin.ingest.interface import Verdict

NAME, IDENT = b"__name__", b"ident"


class DropReason:
    """Why a series does not reach the queue, as counted."""

    RULE = "drop_rule"
    DUPLICATE = "duplicate_label"
    RELABEL = "relabel"
    QUEUE = "queue_full"
    STOPPING = "stopping"


class Take(Enum):
    """What happens to the label that becomes the identity."""

    RENAME = "rename"
    COPY = "copy"


@dataclass(frozen=True)
class IdentRule:
    """Where the identity of a host comes from."""

    sources: tuple[tuple[bytes, Take], ...] = ()
    """Asked when a series has no `ident` label: the first label that is not empty becomes it."""
    own: bool = True
    """Whether an `ident` label names the host; otherwise the series belongs to none."""


COLLECTOR = IdentRule(((b"agent_hostname", Take.RENAME), (b"hostname", Take.COPY)))
"""Remote write and protocols alike: `agent_hostname` is renamed, else `hostname` is copied."""

COLLECTOR_OR_HOST = IdentRule((*COLLECTOR.sources, (b"host", Take.RENAME)))
"""As `COLLECTOR`, and with neither label `host` is renamed (query `ignore_host=false`)."""

NOBODY = IdentRule(own=False)
"""The series belong to no host, whatever their labels are."""


@dataclass(frozen=True)
class LabelRules:
    """The configured rules of `[Pushgw]`."""

    label_rewrite: bool = True
    """A registered label replaces one of the same name on the series."""
    group_key: bytes = b"busigroup"
    """Name of the business-group label; a series that brings it keeps all its labels."""
    drop: Sequence[Mapping[bytes, bytes]] = ()
    """A series with all labels of any of these is dropped; empty maps match nothing."""
    debug: Mapping[bytes, bytes] = field(default_factory=dict)
    """A series with all these labels is logged; an empty map matches nothing."""
    register: bool = False
    """Series announce their hosts."""
    register_metrics: frozenset[bytes] = frozenset()
    """When not empty, only series with these names announce their hosts."""


def tag_labels(*tag_lists: Sequence[str]) -> dict[bytes, bytes]:
    """Return the labels that lists of `key=value` tags stand for.

    Tags without exactly one `=` are no labels; a later list overrides an earlier one.
    """
    pairs = (tag.split("=") for tags in tag_lists for tag in tags)
    return {pair[0].encode(): pair[1].encode() for pair in pairs if len(pair) == 2}


def all_match(wanted: Mapping[bytes, bytes], labels: Mapping[bytes, bytes]) -> bool:
    """Whether every wanted label is there with exactly that value."""
    return all(labels.get(name) == value for name, value in wanted.items())


class LabelWork:
    """The label work of one ingest route: a resolver for its label cache."""

    def __init__(self, rules: LabelRules, targets: TargetLabels, ident_rule: IdentRule = COLLECTOR) -> None:
        self.rules, self.targets, self.ident_rule = rules, targets, ident_rule
        self._drop = [rule for rule in rules.drop if rule]

    def __call__(self, labels: list[tuple[bytes, bytes]]) -> Verdict:
        """Decide on a label set."""
        found = dict(labels)
        if len(found) != len(labels):
            return Verdict(labels, drop=DropReason.DUPLICATE)
        ident = self._identify(found)
        if ident:
            self._attach(found, ident)
        rules = self.rules
        debug = bool(rules.debug) and all_match(rules.debug, found)
        drop = DropReason.RULE if self._drop and any(all_match(rule, found) for rule in self._drop) else ""
        register = rules.register and bool(ident) and self._registers(found)
        return Verdict(sorted(found.items()), ident, drop, debug, register)

    def _identify(self, labels: dict[bytes, bytes]) -> str:
        """Make sure that a series which names its host has exactly one `ident`; return it."""
        if not self.ident_rule.own:
            return ""
        if not labels.get(IDENT):
            for source, take in self.ident_rule.sources:
                if value := labels.get(source):
                    labels[IDENT] = value
                    if take is Take.RENAME:
                        del labels[source]
                    break
        return labels.get(IDENT, b"").decode(errors="replace")

    def _attach(self, labels: dict[bytes, bytes], ident: str) -> None:
        """Add what is registered for the host."""
        target = self.targets.lookup(ident)
        if target is None:
            return
        grouped = self.rules.group_key in labels
        for name, value in target.labels.items():
            if name not in labels or (self.rules.label_rewrite and not grouped):
                labels[name] = value
        if target.group_label and not grouped:
            labels.setdefault(self.rules.group_key, target.group_label)

    def _registers(self, labels: Mapping[bytes, bytes]) -> bool:
        """Whether a series announces its host."""
        names = self.rules.register_metrics
        return not names or labels.get(NAME) in names
