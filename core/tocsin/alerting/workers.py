"""The rules this engine evaluates, each on one datasource, and their rounds of evaluation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.alerting.compiled import CompiledRule
from tocsin.alerting.metrics import AlertMetrics
from tocsin.alerting.points import Point
from tocsin.alerting.scheduler import Key
from tocsin.alerting.state import Fault, State
from tocsin.datasources.records import DatasourceRecord

Question = tuple[int, str]
"""A datasource and the key of a query to it; equal questions have one answer."""


@dataclass
class Worker:
    """One rule on one datasource.

    ``state`` is ``None`` until it was read from the database; ``busy`` from tick to recorded result.
    """

    key: Key
    rule: CompiledRule
    source: DatasourceRecord
    questions: tuple[Question, ...] = ()
    fault: str = ""
    """Why the datasource cannot be asked at all."""
    state: State | None = None
    failing: Fault | None = None
    busy: bool = False
    dropped: bool = False
    gauges: Gauges | None = None


class Gauges:
    """The metrics of one worker, looked up once."""

    def __init__(self, metrics: AlertMetrics, worker: Worker) -> None:
        rule, source = (str(part) for part in worker.key)
        self.duration = metrics.duration.labels(rule, source)
        self.queries = metrics.queries.labels(source, rule)
        self.series = tuple(metrics.series.labels(rule, source, query.ref) for query in worker.rule.queries)
        self.filled = tuple(
            metrics.filled.labels(rule, source, query.ref, "BeforeQuery") if query.filled else None
            for query in worker.rule.queries
        )


@dataclass
class Round:
    """One evaluation under way: answers arrive one by one."""

    worker: Worker
    rule: CompiledRule
    at: int
    interval: int
    started: float
    waiting: int
    answers: list[Sequence[Point]] = field(default_factory=list)
    error: str = ""

    @property
    def obsolete(self) -> bool:
        """Whether the rule was changed or taken away since the tick."""
        return self.worker.dropped or self.worker.rule is not self.rule


@dataclass
class Job:
    """One query on its way, and who waits for it."""

    question: Question
    spec: Mapping[str, Any]
    at: int
    waiting: list[tuple[Round, int]] = field(default_factory=list)


QueryKey = Callable[[int, Mapping[str, Any]], str]


def questions_of(rule: CompiledRule, source: DatasourceRecord, query_key: QueryKey) -> tuple[Question, ...]:
    """Return the rule's questions to a datasource, in order of its queries."""
    return tuple((source.id, query_key(source.id, query.spec)) for query in rule.queries)


def plan(tick_at: int, rounds: Sequence[Round]) -> list[Job]:
    """Return one job per distinct question of the rounds of a tick."""
    jobs: dict[Question, Job] = {}
    for current in rounds:
        worker = current.worker
        for index, question in enumerate(worker.questions):
            job = jobs.get(question)
            if job is None:
                job = jobs[question] = Job(question, worker.rule.queries[index].spec, tick_at)
            job.waiting.append((current, index))
    return list(jobs.values())
