"""The memory of one rule on one datasource, and the steps from findings to event changes.

:func:`advance` is a pure function: it returns the changes to record and the memory to go on with.  The caller puts
that memory in force only after the changes are on disk, so a failed write repeats the step instead of losing it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from tocsin.alerting.compiled import CompiledRule
from tocsin.alerting.evaluation import ANY, Evaluation, Finding
from tocsin.alerting.labels import METRIC_NAME, identity
from tocsin.alerting.points import Point
from tocsin.events.form import Event
from tocsin.events.journal import Change, Kind

UNKNOWN = "evaluation_failed"
"""Metric name and query of the event that says that a rule cannot be evaluated."""
UNKNOWN_SEVERITY = 2


@dataclass(frozen=True, slots=True)
class Firing:
    """An alert that is firing: the event as last recorded.

    ``last_anomaly`` is 0 while the condition holds, else the last time it did.
    """

    event: Event
    last_anomaly: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a rule cannot be evaluated, and since when."""

    since: int
    error: str


@dataclass(frozen=True)
class State:
    """What an evaluation of one rule on one datasource remembers of the earlier ones."""

    firing: Mapping[str, Firing] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    """Time of the first evaluation in an unbroken row that saw the condition, by hash."""
    seen: Mapping[str, Point] = field(default_factory=dict)
    last_eval: int = 0

    @property
    def idle(self) -> bool:
        """Whether there is nothing to go on with."""
        return not (self.firing or self.pending or self.seen)


class Builder(Protocol):
    """Makes events; see :mod:`tocsin.alerting.builder`."""

    def build(self, finding: Finding, key: str) -> Event:
        """Return the event of an anomaly before it is rendered."""

    def suppressed(self, finding: Finding) -> bool:
        """Return whether the rule is not in effect for this anomaly."""

    def add_hosts(self, events: Sequence[Event]) -> None:
        """Say of each event which host it is about."""

    def rendered(self, event: Event) -> Event:
        """Return the event with name, note and annotations filled in."""

    def recovered(self, event: Event, value: float | None) -> Event:
        """Return the recovery of an event."""


@dataclass(frozen=True)
class Step:
    """The result of one evaluation: what to write, and the state that follows from it."""

    state: State
    changes: Sequence[Change] = ()
    pending_added: Mapping[str, int] = field(default_factory=dict)
    pending_removed: Sequence[str] = ()
    anomaly_times: Mapping[str, int] = field(default_factory=dict)

    @property
    def writes(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.changes or self.pending_added or self.pending_removed or self.anomaly_times)


def advance(
    rule: CompiledRule, datasource_id: int, interval: int, state: State, found: Evaluation, at: int, builder: Builder
) -> Step:
    """Return the step from ``state`` to the state after the evaluation at ``at``."""
    if not found.anomalies and not found.recoveries and state.idle:
        return Step(replace(state, seen=found.seen) if found.seen else state)
    work = _Work(rule, datasource_id, interval, state, at, builder)
    for finding in found.recoveries:
        work.recover_on(finding)
    work.alert(found.anomalies)
    work.recover_absent()
    return work.step(found.seen)


def unknown(
    rule: CompiledRule, datasource_id: int, interval: int, state: State, fault: Fault, at: int, builder: Builder
) -> Step:
    """Return the step of an evaluation that was impossible for so long that this is worth an event.

    Nothing else changes: what is pending goes on, what fires stays.  The event itself recovers like any other: the first
    evaluation that succeeds does not find it.
    """
    work = _Work(rule, datasource_id, interval, state, at, builder)
    work.pending = dict(state.pending)
    point = Point({METRIC_NAME: UNKNOWN}, UNKNOWN, float(at - fault.since), at)
    finding = Finding(point, UNKNOWN_SEVERITY, UNKNOWN, unit="s", values=f"evaluation failed: {fault.error}")
    if not builder.suppressed(finding):
        work.fire([(work.key(finding), finding)])
    step = work.step(state.seen)
    return replace(step, state=replace(step.state, last_eval=state.last_eval))


def _worst(ready: Sequence[tuple[str, Finding]]) -> list[tuple[str, Finding]]:
    """Return the findings that no more severe one on the same series inhibits."""
    worst: dict[str, int] = {}
    for _, finding in ready:
        text = finding.point.text
        worst[text] = min(worst.get(text, finding.severity), finding.severity)
    return [(key, finding) for key, finding in ready if finding.severity == worst[finding.point.text]]


class _Work:
    """One evaluation in progress."""

    def __init__(
        self, rule: CompiledRule, datasource_id: int, interval: int, state: State, at: int, builder: Builder
    ) -> None:
        self.rule = rule
        self.datasource_id = datasource_id
        self.interval = interval
        self.at = at
        self.builder = builder
        self.before = state
        self.firing = dict(state.firing)
        self.pending: dict[str, int] = {}
        self.present: set[str] = set()
        self.changes: list[Change] = []
        self.anomaly_times: dict[str, int] = {}

    def key(self, finding: Finding) -> str:
        return identity(self.rule.id, finding.point.text, self.datasource_id, finding.severity, finding.query)

    def recover_on(self, finding: Finding) -> None:
        """Recover an alert whose condition was looked at and does not hold."""
        key = self.key(finding)
        if key in self.firing and self._waited_enough(key):
            self._recover(key, finding.point.value)

    def alert(self, anomalies: Sequence[Finding]) -> None:
        """Handle every anomaly: for-duration, inhibition, repeats."""
        ready: list[tuple[str, Finding]] = []
        for finding in anomalies:
            key = self.key(finding)
            self.present.add(key)
            self._seen_again(key)
            if not self.builder.suppressed(finding) and self._held_long_enough(key):
                ready.append((key, finding))
        self.fire(_worst(ready) if self.rule.inhibit else ready)

    def recover_absent(self) -> None:
        """Recover what fires and was not found, unless something keeps it."""
        for key, firing in list(self.firing.items()):
            if key in self.present:
                continue
            # Absence is not a fulfilled condition: the other judge types wait for a recovery point.
            if firing.event["recover_config"]["judge_type"] == ANY and self._waited_enough(key):
                self._recover(key, None)
            elif not firing.last_anomaly:
                last = self.before.last_eval or self.at
                self.firing[key] = replace(firing, last_anomaly=last)
                self.anomaly_times[key] = last

    def step(self, seen: Mapping[str, Point]) -> Step:
        added = {key: time for key, time in self.pending.items() if key not in self.before.pending}
        removed = [key for key in self.before.pending if key not in self.pending]
        kept = {key: time for key, time in self.anomaly_times.items() if key in self.firing}
        state = State(self.firing, self.pending, seen, self.at)
        return Step(state, self.changes, added, removed, kept)

    def _seen_again(self, key: str) -> None:
        firing = self.firing.get(key)
        if firing is not None and firing.last_anomaly:
            self.firing[key] = replace(firing, last_anomaly=0)
            self.anomaly_times[key] = 0

    def _held_long_enough(self, key: str) -> bool:
        wanted: int = self.rule.rule["prom_for_duration"]
        if wanted <= 0:
            return True
        first = self.pending[key] = self.before.pending.get(key, self.at)
        return self.at - first + self.interval >= wanted

    def _waited_enough(self, key: str) -> bool:
        wait = self.rule.rule["recover_duration"]
        if wait <= 0:
            return True
        last = self.firing[key].last_anomaly or self.before.last_eval
        return bool(last) and self.at - last >= wait

    def fire(self, ready: Sequence[tuple[str, Finding]]) -> None:
        """Fire alerts, and repeat those for which that is due."""
        due: dict[str, tuple[Finding, int]] = {}
        for key, finding in ready:
            known = self.firing.get(key)
            number = 1 if known is None else self._next_number(known.event)
            if number:
                due.setdefault(key, (finding, number))
        events = [self.builder.build(finding, key) for key, (finding, _) in due.items()]
        self.builder.add_hosts(events)
        for (key, (_, number)), event in zip(due.items(), events, strict=True):
            self._fire(key, event, number)

    def _fire(self, key: str, event: Event, number: int) -> None:
        known = self.firing.get(key)
        event |= {"last_eval_time": self.at, "last_sent_time": self.at, "notify_cur_number": number}
        event["first_eval_time"] = self.pending.get(key, self.at)
        previous = 0
        if known is not None:
            event |= {name: known.event[name] for name in ("first_trigger_time", "first_eval_time")}
            previous = known.event["id"]
        else:
            event["first_trigger_time"] = event["trigger_time"]
        event = self.builder.rendered(event)
        self.changes.append(Change(Kind.FIRE, event, previous))
        self.firing[key] = Firing(event)

    def _next_number(self, event: Event) -> int:
        """Return the number of the notification that is due for a firing alert, 0 for none."""
        step, most = self.rule.rule["notify_repeat_step"], self.rule.rule["notify_max_number"]
        number: int = event["notify_cur_number"]
        if step <= 0 or self.at < event["last_sent_time"] + step * 60 or 0 < most <= number:
            return 0
        return number + 1

    def _recover(self, key: str, value: float | None) -> None:
        event = self.firing.pop(key).event
        ended = self.builder.recovered(event, value)
        ended |= {"is_recovered": True, "last_eval_time": self.at, "recover_time": self.at}
        self.changes.append(Change(Kind.RECOVER, ended, event["id"]))
