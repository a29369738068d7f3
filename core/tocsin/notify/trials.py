"""Sending on request: tests of rules and channels, and previews of message templates.  Nothing here is recorded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tocsin.access.directory import Directory
from tocsin.events.form import Event, new_event
from tocsin.notify.channels import Channel, Channels
from tocsin.notify.matching import FilterError, compile_conditions
from tocsin.notify.providers import Providers
from tocsin.notify.recipients import recipients_of
from tocsin.notify.rendering import FieldError, Renderer
from tocsin.notify.rules import verify_params, verify_route
from tocsin.notify.sending import AttemptError, Notification, Sender
from tocsin.notify.templates import MessageTemplates
from tocsin.plugin import ApiError, invalid

WARNING = 2
EventsById = Callable[[Iterable[int]], list[Event]]


def refused(message: str) -> ApiError:
    """Return the error for a test that was understood and did not succeed."""
    return ApiError(message, "invalid", status=200)


def mock_event(about: str, source: str, now: int, severity: int = WARNING, *, recovered: bool = False) -> Event:
    """Return an event to try things with; ``about`` is its rule's name, ``source`` says in a tag where it comes from."""
    tags = {"rulename": about, "ident": "mock-host-01", "source": source}
    listed = [f"{key}={value}" for key, value in tags.items()]
    return new_event(
        cate="prometheus",
        group_name="Default Busi Group",
        hash=f"{source}-mock-event",
        rule_name=about,
        rule_prod="metric",
        severity=severity if severity in (1, 2, 3) else WARNING,
        prom_ql="cpu_usage_active > 80",
        target_ident="mock-host-01",
        trigger_time=now,
        trigger_value="81.5",
        tags=listed,
        original_tags=listed,
        tags_map=tags,
        is_recovered=recovered,
        recover_time=now if recovered else 0,
        notify_recovered=1,
        last_eval_time=now,
        first_eval_time=now,
        last_sent_time=now,
        first_trigger_time=now,
        notify_cur_number=1,
    )


class Trials:
    """Sends now and answers with what happened."""

    def __init__(
        self,
        channels: Channels,
        templates: MessageTemplates,
        renderer: Renderer,
        sender: Sender,
        directory: Directory,
        providers: Providers,
        *,
        zone: dt.tzinfo,
        domain: Callable[[], str],
        clock: Callable[[], float],
    ) -> None:
        self._channels = channels
        self._templates = templates
        self._renderer = renderer
        self._sender = sender
        self._directory = directory
        self._providers = providers
        self._zone = zone
        self._domain = domain
        self._clock = clock

    def rule(self, body: Mapping[str, Any], stored: EventsById) -> str:
        """Send events through a route as a rule would; return the receiver's answer or ``success``."""
        config = body["notify_config"]
        if not config or config["channel_id"] <= 0:
            raise invalid("notify_config.channel_id required")
        verify_route(config)
        severity = min(config["severities"], default=WARNING)
        about = ("Notification test mock event", "notify-rule-test")
        events = self._events(body, stored, lambda: mock_event(*about, int(self._clock()), severity))
        if not body["use_mock_event"]:
            self._require_match(config, events)
        channel = self._channels.all().get(config["channel_id"])
        if channel is None:
            raise refused("notify channel not found")
        if not channel.enable:
            raise refused("notify channel not enabled, please enable it first")
        content: dict[str, str] = {}
        template = self._templates.all().get(config["template_id"])
        if template is not None:
            ident = template["notify_channel_ident"]
            content = self._renderer.message(template["content"], ident, events, self._domain())
        elif channel.kind is not None and channel.kind.needs_template:
            raise refused("message_template not found")
        try:
            return self._send(channel, config["params"], content, events) or "success"
        except AttemptError as error:
            raise refused(f"failed to send {channel.request_type} notify: {error}") from None

    def channel(self, body: Mapping[str, Any], stored: EventsById) -> dict[str, Any]:
        """Send events through a channel that need not be saved; return whether that worked."""
        if body["config"]["request_type"] == "script":
            raise invalid("script media type must be saved before testing")
        channel = replace(self._channels.draft(body["config"]), id=0)
        events = self._events(body, stored, lambda: self._mock(body, "Media type test", "notify-channel-test"))
        params = (body["notify_config"] or {}).get("params") or {}
        verify_params(params)
        try:
            content = self._renderer.strict_message(body["tpl_content"], channel.ident, events, self._domain())
            self._send(channel, params, content, events)
        except (FieldError, AttemptError) as error:
            return {"success": False, "error_message": str(error)}
        return {"success": True, "error_message": ""}

    def preview(self, body: Mapping[str, Any], stored: EventsById) -> dict[str, dict[str, Any]]:
        """Return a message template's fields rendered with events."""
        mock = lambda: self._mock(body, "Message template preview", "message-template-preview")  # noqa: E731
        events = self._events(body, stored, mock, missing="event_ids or use_mock_event required")
        return self._renderer.preview((body["tpl"] or {}).get("content") or {}, events, self._domain())

    def _mock(self, body: Mapping[str, Any], about: str, source: str) -> Event:
        return mock_event(
            f"{about} mock event",
            source,
            int(self._clock()),
            body["mock_severity"],
            recovered=body["mock_is_recovered"],
        )

    @staticmethod
    def _events(
        body: Mapping[str, Any], stored: EventsById, mock: Callable[[], Event], missing: str = "event not found"
    ) -> list[Event]:
        if body["use_mock_event"]:
            return [mock()]
        if not body["event_ids"]:
            raise invalid("event_ids or use_mock_event required")
        events = stored(body["event_ids"])
        if not events:
            raise invalid(missing)
        return events

    def _require_match(self, config: Mapping[str, Any], events: Sequence[Event]) -> None:
        try:
            conditions = compile_conditions(config)
        except FilterError as error:
            raise invalid(str(error)) from None
        for event in events:
            fault = conditions.mismatch(event, self._zone)
            if fault:
                raise invalid(fault)

    def _send(
        self, channel: Channel, params: Mapping[str, Any], content: Mapping[str, str], events: Sequence[Event]
    ) -> str:
        """Send to everybody once, stopping at the first failure; return the last answer."""
        plan = self._sender.plan(channel)
        everybody = recipients_of(channel, params, self._directory, self._providers)
        answer = ""
        for people in everybody.each() if plan.per_target and everybody.targets else (everybody,):
            key = f"test-{self._clock():.6f}-{','.join(people.targets)}"
            sent = Notification(params, content, events, people.targets, key)
            answer = self._sender.attempt(channel, plan, sent).response
        return answer
