"""From events to sends: takes over what the engine wants notified and decides who gets it.

An event leaves the outbox in the transaction that stores the sends it leads to, so it is neither lost nor decided twice,
whenever the process dies.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tocsin.access.directory import Directory
from tocsin.events.form import packed
from tocsin.events.outbox import Outbox, OutboxItem
from tocsin.notify import records
from tocsin.notify.channels import Channel, Channels
from tocsin.notify.lanes import Lanes
from tocsin.notify.metrics import NotifyMetrics
from tocsin.notify.models import PendingSend
from tocsin.notify.providers import Providers
from tocsin.notify.recipients import Recipients, recipients_of
from tocsin.notify.records import Record
from tocsin.notify.rules import NotifyRules, Route, Rule
from tocsin.notify.sending import Sender
from tocsin.notify.templates import MessageTemplates
from tocsin.store.database import Database
from tocsin.store.vault import Vault

log = logging.getLogger(__name__)
BATCH = 100
SAFETY_NET = 1.0
"""Seconds after which the outbox is looked at without having been told to."""
LONGEST_PAUSE = 30.0
LOOK_EVERY = 15.0
"""Seconds between looks for sends whose engine died."""
Event = dict[str, Any]
Step = Callable[[Event], Event | None]
"""A step between a rule and its routes: returns the event to go on with, ``None`` to drop it."""


@dataclass
class Decision:
    """What one event leads to: rows to send, each with its channel, and records of what cannot be sent."""

    sends: list[tuple[Channel, dict[str, Any]]] = field(default_factory=list)
    failures: list[tuple[str, Record]] = field(default_factory=list)
    matches: int = 0

    def fail(self, reason: str, event: Event, rule: Rule, channel: str, details: str) -> None:
        """Add the record of a send that cannot be made; ``reason`` is for the metric."""
        about = {"notify_rule_id": rule.id, "sub_id": event["sub_rule_id"], "channel": channel}
        self.failures.append((reason, Record(event["id"], records.FAILURE, details=details, **about)))


@dataclass(frozen=True)
class Picture:
    """The rules, channels and message templates as of one moment, for a batch of events."""

    rules: Mapping[int, Rule]
    channels: Mapping[int, Channel]
    templates: Mapping[int, Mapping[str, Any]]


class Planner:
    """Decides which routes of which rules an event goes through."""

    def __init__(
        self,
        rules: NotifyRules,
        channels: Channels,
        sender: Sender,
        directory: Directory,
        providers: Providers,
        zone: dt.tzinfo,
        templates: MessageTemplates,
        steps: Callable[[Rule], Iterable[Step]] = lambda rule: (),
    ) -> None:
        self._rules = rules
        self._channels = channels
        self._sender = sender
        self._directory = directory
        self._providers = providers
        self._zone = zone
        self._templates = templates
        self._steps = steps

    def picture(self) -> Picture:
        """Return what decisions are based on, as of now."""
        return Picture(self._rules.all(), self._channels.all(), self._templates.all())

    def decide(self, event: Event, now: Picture) -> Decision:
        """Return what an event leads to."""
        decision = Decision()
        for rule_id in dict.fromkeys(event["notify_rule_ids"] or ()):
            rule = now.rules.get(rule_id)
            if rule is None or not rule.shown["enable"]:
                continue
            own = self._through_steps({**event, "notify_rule_id": rule.id, "notify_rule_name": rule.name}, rule)
            if own is None or (own["is_recovered"] and not own["notify_recovered"]):
                continue
            for route in rule.routes:
                if route.conditions is None or route.conditions.mismatch(own, self._zone):
                    continue
                decision.matches += 1
                self._route(decision, own, rule, route, now)
        return decision

    def _through_steps(self, event: Event, rule: Rule) -> Event | None:
        for step in self._steps(rule):
            changed = step(event)
            if changed is None:
                return None
            event = changed
        return event

    def _route(self, decision: Decision, event: Event, rule: Rule, route: Route, now: Picture) -> None:
        channel = now.channels.get(route.channel_id)
        if channel is None or not channel.enable:
            name = f"notify_channel_id:{route.channel_id}"
            return decision.fail("channel_not_found", event, rule, name, "notify_channel not found")
        if channel.kind is None:
            return decision.fail("channel_unusable", event, rule, channel.name, channel.fault)
        if channel.kind.needs_template and route.template_id not in now.templates:
            return decision.fail("template_not_found", event, rule, channel.name, "message_template not found")
        plan = self._sender.plan(channel)
        everybody = recipients_of(channel, route.params, self._directory, self._providers)
        for people in everybody.each() if plan.per_target and everybody.targets else (everybody,):
            decision.sends.append((channel, _row(event, rule, route, people)))
        return None


def _row(event: Event, rule: Rule, route: Route, people: Recipients) -> dict[str, Any]:
    chain = orjson.dumps([event["hash"], rule.id, route.params, people.targets], option=orjson.OPT_SORT_KEYS)
    return {
        "event_id": event["id"],
        "sub_id": event["sub_rule_id"],
        "rule_id": rule.id,
        "channel_id": route.channel_id,
        "template_id": route.template_id,
        "chain": hashlib.sha256(chain).hexdigest(),
        "params": route.params,
        "targets": orjson.dumps(people.targets).decode(),
        "usernames": orjson.dumps(people.usernames).decode(),
        "body": packed(event),
    }


class Dispatcher:
    """The thread that takes events over, stores their sends and puts these into the lanes of their channels."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        outbox: Outbox,
        planner: Planner,
        sender: Sender,
        channels: Channels,
        lanes: Lanes,
        metrics: NotifyMetrics,
        *,
        instance: Callable[[], str],
        clock: Callable[[], float],
        queue_size: int,
    ) -> None:
        self._database = database
        self._vault = vault
        self._outbox = outbox
        self._planner = planner
        self._sender = sender
        self._channels = channels
        self._lanes = lanes
        self._metrics = metrics
        self._instance = instance
        self._clock = clock
        self._queue_size = queue_size
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="notify-dispatch", daemon=True)
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End the thread after the batch it is working on."""
        self._stopping.set()
        self._outbox.ready.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        pause, unsure = 0.0, True
        look_at = self._clock() + LOOK_EVERY  # who else is alive is not known at once
        while not self._stopping.is_set():
            try:
                if unsure:
                    self.resume()
                    unsure = False
                if self._clock() >= look_at:
                    self.take_over()
                    look_at = self._clock() + LOOK_EVERY
                while self.step() and not self._stopping.is_set():
                    pass
            except Exception:
                if not pause:
                    log.exception("events cannot be taken over for notification; they are kept and tried again")
                self._metrics.faults.labels("dispatch").inc()
                pause, unsure = min(max(2 * pause, 1.0), LONGEST_PAUSE), True
            else:
                pause = 0.0
            finally:
                self._database.release()
            if pause:
                self._stopping.wait(pause)
            else:
                self._outbox.wait(SAFETY_NET)

    def step(self) -> int:
        """Take over one batch of events; return how many there were."""
        items = self._outbox.pending(BATCH)
        if not items:
            return 0
        now = self._planner.picture()
        decided = [(item, self._decide(item, now)) for item in items]
        stored: list[tuple[Channel, int, str]] = []
        waiting: dict[int, int] = {}
        with self._database.atomic():
            for item, decision in decided:
                if self._outbox.acknowledge((item.id,)):
                    stored += self._store(item, decision, waiting)
                    self._metrics.routes.inc(decision.matches)
                    self._metrics.events.labels("sent" if decision.sends else "nothing_to_send").inc()
        for channel, number, chain in stored:
            self._lanes.add(channel.id, number, chain, concurrency=self._sender.plan(channel).concurrency)
        return len(items)

    def _decide(self, item: OutboxItem, now: Picture) -> Decision:
        """Return what an event leads to; one that breaks the decision itself is put on record, not tried for ever."""
        try:
            return self._planner.decide(item.event, now)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            log.exception("event %d cannot be matched with notification rules", item.id)
            self._metrics.faults.labels("match").inc()
            details = f"the event cannot be matched with notification rules: {type(error).__name__}"
            return Decision(failures=[("event_unusable", Record(item.id, records.FAILURE, details=details))])

    def _store(self, item: OutboxItem, decision: Decision, waiting: dict[int, int]) -> list[tuple[Channel, int, str]]:
        """Write an event's sends and records; ``waiting`` counts this batch's sends that are not in a lane yet."""
        now, stored = int(self._clock()), []
        for channel, row in decision.sends:
            ahead = waiting.setdefault(channel.id, self._lanes.size(channel.id))
            if ahead >= self._queue_size:
                details = "failed to enqueue notify task, queue is full"
                about = {"notify_rule_id": row["rule_id"], "sub_id": row["sub_id"], "channel": channel.name}
                decision.failures.append(("queue_full", Record(item.id, records.FAILURE, details=details, **about)))
                continue
            waiting[channel.id] = ahead + 1
            params = self._vault.encrypt(orjson.dumps(row["params"]).decode())
            fresh = {**row, "params": params, "instance": self._instance(), "created_at": item.created_at}
            number = int(PendingSend.insert(**fresh).execute())
            stored.append((channel, number, row["chain"]))
        for reason, record in decision.failures:
            records.write(record, now)
            self._metrics.drops.labels(reason).inc()
        return stored

    def resume(self) -> int:
        """Queue this engine's stored sends that are in no lane, as after a restart; return how many."""
        return self._queue(self._stored(PendingSend.instance == self._instance()))

    def take_over(self) -> int:
        """Queue the stored sends of engines that died; return how many."""
        mine = self._instance()
        found = self._stored(PendingSend.instance.not_in([mine, *self._outbox.others()]))
        return self._queue([row for row in found if self._take(row[0], row[4])])

    def _stored(self, which: Any) -> list[tuple[int, int, str, float, str]]:
        columns = (PendingSend.id, PendingSend.channel_id, PendingSend.chain, PendingSend.next_at, PendingSend.instance)
        query: Any = PendingSend.select(*columns).where(which).order_by(PendingSend.id).tuples()
        return list(query)

    def _queue(self, found: list[tuple[int, int, str, float, str]]) -> int:
        known, now, channels, queued = self._lanes.known(), self._clock(), self._channels.all(), 0
        for number, channel_id, chain, next_at, _ in found:
            if number in known:
                continue
            channel = channels.get(channel_id)
            concurrency = self._sender.plan(channel).concurrency if channel else 1
            self._lanes.add(channel_id, number, chain, concurrency=concurrency, delay=max(0.0, next_at - now))
            queued += 1
        if queued:
            log.info("%d notifications that were not finished are taken up again", queued)
        return queued

    def _take(self, number: int, owner: str) -> bool:
        """Make a send this engine's own; return whether no other one was quicker."""
        where = (PendingSend.id == number) & (PendingSend.instance == owner)
        return bool(PendingSend.update(instance=self._instance()).where(where).execute())
