"""The alert engine: from ticks over shared queries to recorded events.

One thread calls :meth:`Engine.step` and :meth:`Engine.settle` in turn; only queries, and the rendering of events that
may query, run elsewhere.  So the order of changes of a rule is the order of its ticks, without a lock.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import peewee

from tocsin.alerting.builder import EventBuilder, Surroundings
from tocsin.alerting.evaluation import Evaluation, conditions
from tocsin.alerting.memory import Memory
from tocsin.alerting.metrics import NO_DATASOURCE, QUERY_FAILED, AlertMetrics
from tocsin.alerting.points import Point, decode
from tocsin.alerting.roster import Roster
from tocsin.alerting.scheduler import Key, Scheduler, Tick
from tocsin.alerting.state import Fault, State, Step, advance, unknown
from tocsin.alerting.triggers import triggered
from tocsin.alerting.workers import Job, Round, Worker, plan
from tocsin.datasources.pool import DatasourcePool
from tocsin.events.journal import Change
from tocsin.plugin import ApiError, MetricQuery, PluginCallError

log = logging.getLogger(__name__)
Submit = Callable[[int, Callable[[], None]], None]
"""Runs a function in the lane of a datasource."""


@dataclass(frozen=True)
class Answered:
    """A query that was answered or failed."""

    job: Job
    points: tuple[Point, ...] = ()
    error: str = ""


@dataclass(frozen=True)
class Impossible:
    """An evaluation that cannot even begin."""

    round: Round
    stage: str
    error: str


@dataclass(frozen=True)
class Stepped:
    """An evaluation that was carried to its end outside the engine's thread."""

    round: Round
    step: Step | None
    error: str = ""


class Engine:
    """Evaluates what the roster holds when the scheduler says so."""

    def __init__(
        self,
        roster: Roster,
        memory: Memory,
        pool: DatasourcePool,
        metrics: AlertMetrics,
        around: Surroundings,
        submit: Submit,
        *,
        query_timeout: float,
        unknown_after: int = 0,
    ) -> None:
        self._roster = roster
        self._memory = memory
        self._pool = pool
        self._metrics = metrics
        self._around = around
        self._submit = submit
        self._timeout = query_timeout
        self._unknown_after = unknown_after
        self._faults: dict[Key, Fault | None] = {}
        self._scheduler = Scheduler()
        self._done: queue.SimpleQueue[Answered | Stepped | Impossible] = queue.SimpleQueue()
        self._failing: set[str] = set()
        self._versions: object = None

    def refresh(self, now: float) -> None:
        """Take over changes of rules, datasources and ownership."""
        versions = self._roster.versions()
        if versions == self._versions:
            return
        self._around.group_names.refresh()
        if self._roster.refresh():
            wanted = {key: worker.rule.schedule for key, worker in self._roster.workers.items()}
            self._scheduler.replace(wanted, now)
            self._faults.update((worker.key, None) for worker in self._roster.gone if worker.failing)
            self._roster.gone.clear()
        self._versions = versions

    def step(self, now: float) -> None:
        """Start the evaluations that are due; changes of rules made before now are seen."""
        self.refresh(now)
        for tick in self._scheduler.due(now):
            self._start(tick)

    def settle(self, timeout: float) -> None:
        """Wait up to ``timeout`` seconds for a result, then take in all there are and record what follows."""
        try:
            results = [self._done.get(timeout=timeout)] if timeout > 0 else []
        except queue.Empty:
            return
        while True:
            try:
                results.append(self._done.get_nowait())
            except queue.Empty:
                break
        steps: list[tuple[Round, Step]] = []
        for result in results:
            if isinstance(result, Stepped):
                self._take_step(result, steps)
            elif isinstance(result, Impossible):
                self._cannot_ask(result.round, result.stage, result.error, steps)
            else:
                self._take_answer(result, steps)
        self._record(steps)
        if self._faults:
            self._memory.save_faults(self._faults)
            self._faults = {}

    def wait_time(self, now: float, longest: float) -> float:
        """Return the seconds until something is due, at most ``longest``."""
        point = self._scheduler.next_point()
        return longest if point is None else min(max(point - now, 0.0), longest)

    def _start(self, tick: Tick) -> None:
        interval, at, started = tick.schedule.interval(tick.at), int(tick.at), time.monotonic()
        workers = [w for key in tick.keys if (w := self._roster.workers.get(key)) is not None]
        self._metrics.missed.inc(tick.missed * len(workers))
        free = [worker for worker in workers if not worker.busy]
        self._metrics.missed.inc(len(workers) - len(free))
        self._metrics.evaluations.inc(len(free))
        self._restore(free, at)
        rounds = []
        for worker in free:
            worker.busy = True
            current = Round(worker, worker.rule, at, interval, started, len(worker.questions))
            current.answers = [()] * len(worker.questions)
            if worker.fault:
                self._show_series(worker, NO_DATASOURCE)
                self._done.put(Impossible(current, "get_client", worker.fault))
            elif not worker.questions:
                self._fail(current, "check_query_config", "the rule has no query")
            else:
                rounds.append(current)
        for job in plan(at, rounds):
            source = job.question[0]
            self._metrics.sent.labels(str(source)).inc()
            self._submit(source, lambda job=job: self._done.put(self._ask(job)))  # type: ignore[misc]

    def _restore(self, workers: Sequence[Worker], at: int) -> None:
        keys = [worker.key for worker in workers if worker.state is None]
        if keys:
            states, faults = self._memory.load(keys, at), self._memory.faults(keys)
            for worker in workers:
                if worker.state is None:
                    worker.state = states[worker.key]
                    worker.failing = faults.get(worker.key)

    def _ask(self, job: Job) -> Answered:
        """Run one query; called outside the engine's thread."""
        wanted = MetricQuery(job.spec, job.at, job.at, timeout=self._timeout)
        try:
            return Answered(job, decode(self._pool.query_metrics(job.question[0], wanted)))
        except (PluginCallError, ApiError) as error:
            return Answered(job, error=str(error) or type(error).__name__)
        except Exception as error:
            log.exception("datasource %d: a query failed in an unexpected way", job.question[0])
            return Answered(job, error=f"unexpected {type(error).__name__}")

    def _take_answer(self, answer: Answered, steps: list[tuple[Round, Step]]) -> None:
        self._note_health(answer)
        for current, index in answer.job.waiting:
            current.answers[index] = answer.points
            current.error = current.error or answer.error
            current.waiting -= 1
            worker = current.worker
            if worker.gauges is not None and not current.obsolete:
                worker.gauges.queries.inc()
                filled = worker.gauges.filled[index]
                if filled is not None:
                    filled.inc()
                worker.gauges.series[index].set(QUERY_FAILED if answer.error else len(answer.points))
            if not current.waiting:
                self._finish(current, steps)

    def _note_health(self, answer: Answered) -> None:
        """Count a failed query, and log the first failure of a datasource and its end, not every one between."""
        source = str(answer.job.question[0])
        if answer.error:
            self._metrics.query_errors.labels(source).inc()
            if source not in self._failing:
                self._failing.add(source)
                log.warning("datasource %s does not answer the queries of rules: %s", source, answer.error)
        elif source in self._failing:
            self._failing.discard(source)
            log.info("datasource %s answers again", source)

    def _finish(self, current: Round, steps: list[tuple[Round, Step]]) -> None:
        """Evaluate a round whose answers are complete."""
        worker = current.worker
        if current.obsolete:
            self._abandon(current)
        elif current.error:
            self._cannot_ask(current, "query_data", current.error, steps)
        elif worker.rule.asks_while_rendering:
            self._submit(worker.source.id, lambda: self._done.put(self._step_apart(current)))
        else:
            self._take_step(self._step_apart(current), steps)

    def _cannot_ask(self, current: Round, stage: str, error: str, steps: list[tuple[Round, Step]]) -> None:
        """Take note of a datasource that says nothing: nothing fires and nothing recovers."""
        worker = current.worker
        if worker.failing is None:
            worker.failing = self._faults[worker.key] = Fault(current.at, error)
        lasting = current.at - worker.failing.since
        if self._unknown_after and lasting >= self._unknown_after and worker.state and not current.obsolete:
            builder = self._builder(current)
            rule, source, state = current.rule, worker.source.id, worker.state
            step = unknown(rule, source, current.interval, state, worker.failing, current.at, builder)
            if step.writes:
                self._count_error(current, stage, error)
                steps.append((current, step))
                return
        self._fail(current, stage, error)

    def _step_apart(self, current: Round) -> Stepped:
        try:
            return Stepped(current, self._advance(current))
        except Exception as error:
            log.exception("alert_eval_%d datasource_%d: the evaluation failed", *current.worker.key)
            return Stepped(current, None, f"unexpected {type(error).__name__}")

    def _advance(self, current: Round) -> Step:
        worker, state = current.worker, current.worker.state or State()
        found: Evaluation
        if current.rule.condition:
            found = conditions(current.rule, current.answers)
        else:
            found = triggered(current.rule, current.answers, state.seen, current.at)
        return advance(
            current.rule, worker.source.id, current.interval, state, found, current.at, self._builder(current)
        )

    def _builder(self, current: Round) -> EventBuilder:
        source = current.worker.source
        return EventBuilder(current.rule, source.id, source.name, current.interval, current.at, self._around)

    def _take_step(self, result: Stepped, steps: list[tuple[Round, Step]]) -> None:
        if result.step is None:
            self._fail(result.round, "handle_event", result.error)
        elif result.round.obsolete:
            self._abandon(result.round)
        else:
            worker = result.round.worker
            if worker.failing is not None:
                worker.failing = self._faults[worker.key] = None
            steps.append((result.round, result.step))

    def _record(self, steps: Sequence[tuple[Round, Step]]) -> None:
        """Write what has to be written in one transaction, then let the new states be in force."""
        writing = [(current.worker.key, step) for current, step in steps if step.writes]
        stale: list[Change] = []
        try:
            if writing:
                stale = self._memory.save(writing, max(current.at for current, _ in steps))
                self._failing.difference_update(["database", *(f"database {key}" for key, _ in writing)])
        except Exception as error:
            if len(writing) > 1 and not isinstance(error, peewee.OperationalError | OSError):
                # One rule's event cannot be stored; the others must not suffer for it.
                for one in steps:
                    self._record([one])
            else:
                self._not_written(steps)
            return
        lost = {change.event["hash"] for change in stale}
        for current, step in steps:
            worker = current.worker
            obsolete = lost and any(change.event["hash"] in lost for change in step.changes)
            worker.state = None if obsolete else step.state
            self._end(current)
            for change in step.changes:
                if change.event["hash"] not in lost:
                    self._count(change)

    def _not_written(self, steps: Sequence[tuple[Round, Step]]) -> None:
        about = "database" if len(steps) > 1 else f"database {steps[0][0].worker.key}"
        if about not in self._failing:
            self._failing.add(about)
            log.exception("events could not be written; the rules are evaluated again at their next tick")
        for current, step in steps:
            if step.writes:
                # What reached the disk is not known, so the state is read again before the next evaluation.
                self._fail(current, "persist_event", "")
                current.worker.state = None
            else:
                current.worker.state = step.state
                self._end(current)

    def _abandon(self, current: Round) -> None:
        """Throw away the result of a rule that is gone (counted) or was changed (evaluated again at its next tick)."""
        if current.worker.dropped:
            self._fail(current, "handle_event", "")
        else:
            self._end(current)

    def _count(self, change: Change) -> None:
        event = change.event
        self._metrics.alerts.labels(event["cluster"], change.kind.value, event["group_name"]).inc()

    def _fail(self, current: Round, stage: str, error: str) -> None:
        self._count_error(current, stage, error)
        self._end(current)

    def _count_error(self, current: Round, stage: str, error: str) -> None:
        worker = current.worker
        rule = worker.rule.rule
        group = self._around.group_names.held.get(rule["group_id"], "")
        self._metrics.errors.labels(str(worker.source.id), stage, group, str(rule["id"])).inc()
        if error:
            log.debug("alert_eval_%d datasource_%d: %s: %s", rule["id"], worker.source.id, stage, error)

    def _show_series(self, worker: Worker, count: int) -> None:
        for gauge in worker.gauges.series if worker.gauges is not None else ():
            gauge.set(count)

    def _end(self, current: Round) -> None:
        worker = current.worker
        worker.busy = False
        if worker.gauges is not None and not worker.dropped:
            worker.gauges.duration.set(round((time.monotonic() - current.started) * 1000, 3))


def asker(pool: DatasourcePool, timeout: float) -> Callable[[int, str, float], Sequence[Point]]:
    """Return the function by which templates query a datasource."""

    def ask(datasource_id: int, text: str, at: float) -> Sequence[Point]:
        spec: Mapping[str, Any] = {"query": text}
        try:
            return decode(pool.query_metrics(datasource_id, MetricQuery(spec, at, at, timeout=timeout)))
        except ApiError as error:
            raise PluginCallError(error.message) from None

    return ask
