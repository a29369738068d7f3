"""What an evaluation finds: anomalies to alert on, and recoveries that are more than absence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tocsin.alerting.points import Point

if TYPE_CHECKING:
    from tocsin.alerting.compiled import CompiledRule

ANY, NOT_BY_ABSENCE, ON_CONDITION = 0, 1, 2
"""Values of ``judge_type``: when an alert may recover."""
NO_RECOVER_CONFIG: Mapping[str, Any] = {"judge_type": ANY, "recover_exp": ""}


@dataclass(frozen=True, slots=True)
class Finding:
    """One point of a rule with the condition that it meets, or no longer meets.

    ``query`` is part of the alert's identity.  ``values`` and ``units`` describe several values of one group.  ``nodata`` is
    the query whose series is gone, empty for what is there.
    """

    point: Point
    severity: int
    query: str
    unit: str = ""
    values: str = ""
    units: Mapping[str, Any] | None = None
    recover_config: Mapping[str, Any] = field(default_factory=lambda: NO_RECOVER_CONFIG)
    nodata: str = ""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything one evaluation of a rule on one datasource found."""

    anomalies: Sequence[Finding] = ()
    recoveries: Sequence[Finding] = ()
    seen: Mapping[str, Point] = field(default_factory=dict)
    """Series to remember for the no-data check, by identity."""


NOTHING = Evaluation()


def conditions(rule: CompiledRule, answers: Sequence[Sequence[Point]]) -> Evaluation:
    """Return the findings of a rule whose queries are complete conditions: every sample is an anomaly."""
    if not any(answers):
        return NOTHING
    return Evaluation(
        [
            Finding(point, query.severity, query.text, query.unit)
            for query, points in zip(rule.queries, answers, strict=True)
            for point in points
        ]
    )
