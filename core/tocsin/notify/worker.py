"""Works on one stored send: renders, attempts, and writes down what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from tocsin.events.form import active_form, unpacked
from tocsin.notify import records
from tocsin.notify.channels import Channel, Channels
from tocsin.notify.metrics import NotifyMetrics
from tocsin.notify.models import PendingSend
from tocsin.notify.recipients import target_text
from tocsin.notify.records import Record
from tocsin.notify.rendering import Renderer
from tocsin.notify.sending import AttemptError, Notification, Sender
from tocsin.plugin import Receipt, SendPlan
from tocsin.store.database import Database
from tocsin.store.vault import Vault, VaultError

LONGEST_INTERVAL = 300.0
"""Seconds that the doubling pause between attempts does not pass."""


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: its error or ``None``, a line about it, and where it went as shown to people."""

    error: AttemptError | None
    line: str
    target: str


class Worker:
    """Finishes sends or says when to try again."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        channels: Channels,
        templates: Callable[[], Mapping[int, Mapping[str, Any]]],
        renderer: Renderer,
        sender: Sender,
        metrics: NotifyMetrics,
        *,
        instance: Callable[[], str],
        domain: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._vault = vault
        self._channels = channels
        self._templates = templates
        self._renderer = renderer
        self._sender = sender
        self._metrics = metrics
        self._instance = instance
        self._domain = domain
        self._clock = clock
        self._unsettled: dict[int, tuple[Any, Channel, SendPlan, Outcome]] = {}

    def __call__(self, number: int) -> float | None:
        """Make one attempt at a stored send; return the seconds until the next one, ``None`` when it is finished.

        When an attempt was made and cannot be written down, the next call writes it down and makes no other one.
        """
        if number in self._unsettled:
            return self._settle(*self._unsettled[number])
        row = PendingSend.get_or_none(PendingSend.id == number)
        if row is None or row.instance != self._instance():
            return None  # finished, or taken over by an engine that took this one for dead
        channel = self._channels.all().get(row.channel_id)
        if channel is None or not channel.enable:
            name = f"notify_channel_id:{row.channel_id}"
            return self._give_up(row, name, "channel_not_found", "notify_channel not found")
        try:
            params = orjson.loads(self._vault.decrypt(row.params) or "{}")
        except VaultError as error:
            return self._give_up(row, channel.name, "params_unreadable", str(error))
        template = self._templates().get(row.template_id)
        if template is None and channel.kind is not None and channel.kind.needs_template:
            return self._give_up(row, channel.name, "template_not_found", "message_template not found")
        return self._attempt(row, channel, params, template)

    def _attempt(
        self, row: Any, channel: Channel, params: Mapping[str, Any], template: Mapping[str, Any] | None
    ) -> float | None:
        plan = self._sender.plan(channel)
        event = active_form({**unpacked(row.body), "id": row.event_id})
        content: dict[str, str] = {}
        if template is not None:
            ident = template["notify_channel_ident"]
            content = self._renderer.message(template["content"], ident, [event], self._domain())
        targets = tuple(orjson.loads(row.targets))
        started_at, started = self._clock(), time.monotonic()
        receipt, error = Receipt(), None
        try:
            sent = Notification(params, content, [event], targets, f"{row.event_id}-{row.id}")
            receipt = self._sender.attempt(channel, plan, sent)
        except AttemptError as caught:
            error = caught
        seconds = time.monotonic() - started
        self._metrics.seconds.labels(channel.name).observe(seconds)
        self._metrics.attempts.labels(channel.name, "failure" if error else "success").inc()
        line = attempt_line(started_at, seconds, str(error) if error else receipt.response)
        target = receipt.target or target_text(params, targets)
        return self._settle(row, channel, plan, Outcome(error, line, target))

    def _settle(self, row: Any, channel: Channel, plan: SendPlan, outcome: Outcome) -> float | None:
        """Write down an attempt and what follows from it, in one transaction."""
        attempts = row.attempts + 1
        again = outcome.error is not None and outcome.error.retryable and attempts < plan.attempts
        delay = min(plan.interval * 2 ** min(attempts - 1, 30), LONGEST_INTERVAL) if again else None
        line = outcome.line
        if outcome.error is not None and outcome.error.retryable and not again and attempts > 1:
            line += f" (all {attempts} attempts failed)"
        record = Record(
            row.event_id,
            records.FAILURE if outcome.error else records.SUCCESS,
            row.rule_id,
            row.sub_id,
            channel.name,
            outcome.target,
            ",".join(dict.fromkeys(orjson.loads(row.usernames))),
        )
        now = self._clock()
        self._unsettled[row.id] = (row, channel, plan, outcome)
        with self._database.atomic():
            earlier = records.details_of(row.record_id)
            record_id = records.write(record.with_details(earlier, line), int(now), row.record_id)
            if delay is None:
                PendingSend.delete().where(PendingSend.id == row.id).execute()
            else:
                change = {"attempts": attempts, "next_at": now + delay, "record_id": record_id}
                PendingSend.update(**change).where(PendingSend.id == row.id).execute()
        del self._unsettled[row.id]
        self._count(row, channel, outcome, again=again, now=now)
        return delay

    def _count(self, row: Any, channel: Channel, outcome: Outcome, *, again: bool, now: float) -> None:
        if again:
            self._metrics.retries.labels(channel.name).inc()
            return
        self._metrics.sends.labels(channel.name).inc()
        if outcome.error is not None:
            self._metrics.failures.labels(channel.name).inc()
        else:
            self._metrics.latency.observe(max(0.0, now - row.created_at))

    def _give_up(self, row: Any, channel: str, reason: str, details: str) -> float | None:
        record = Record(row.event_id, records.FAILURE, row.rule_id, row.sub_id, channel, details=details)
        with self._database.atomic():
            records.write(record, int(self._clock()), row.record_id)
            PendingSend.delete().where(PendingSend.id == row.id).execute()
        self._metrics.drops.labels(reason).inc()
        return None


def attempt_line(started_at: float, seconds: float, text: str) -> str:
    """Return what a record says about one attempt."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(started_at))
    return f"send_time: {stamp} duration: {round(seconds * 1000)} ms {text}".rstrip()
