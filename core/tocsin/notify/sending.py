"""One attempt at one notification through its channel's plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.app.calls import PluginCalls
from tocsin.notify.channels import Channel
from tocsin.notify.providers import guarded
from tocsin.notify.recipients import without_secrets
from tocsin.notify.rendering import Renderer
from tocsin.notify.rules import RECIPIENTS
from tocsin.notify.settings import SendSettings
from tocsin.plugin import Delivery, PluginCallError, Receipt, SendError, SendPlan

LONGEST_RESPONSE = 512
"""Characters of a receiver's answer that are kept."""


@dataclass(frozen=True)
class Notification:
    """What is sent: the route's parameters, the rendered message, the events and the recipients."""

    params: Mapping[str, Any] = field(repr=False)
    content: Mapping[str, str]
    events: Sequence[Mapping[str, Any]]
    targets: tuple[str, ...] = ()
    key: str = ""


class AttemptError(Exception):
    """An attempt failed; the text is for users, ``retryable`` says whether another one may help."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class Sender:
    """Makes attempts, each within its time limit whatever the plugin does."""

    def __init__(
        self,
        renderer: Renderer,
        calls: PluginCalls,
        settings: SendSettings,
        *,
        denied_networks: tuple[Any, ...],
        release: Callable[[], None],
    ) -> None:
        self._renderer = renderer
        self._calls = calls
        self._settings = settings
        self._denied = denied_networks
        self._release = release

    def plan(self, channel: Channel) -> SendPlan:
        """Return how a channel's sends are driven, within the installation's limits."""
        if channel.kind is None or channel.request_config is None:
            return SendPlan()
        kind, config, settings = channel.kind, channel.request_config, self._settings
        plan = guarded(kind, "plan", lambda: kind.plan(config), SendPlan())
        return SendPlan(
            min(max(plan.timeout, 0.001), settings.max_timeout),
            max(plan.attempts, 1),
            max(plan.interval, 0.0),
            min(max(plan.concurrency, 1), settings.max_concurrency),
            plan.per_target,
        )

    def attempt(self, channel: Channel, plan: SendPlan, notification: Notification) -> Receipt:
        """Send once; raise :class:`AttemptError`."""
        kind, config = channel.kind, channel.request_config
        if kind is None or config is None:
            raise AttemptError(channel.fault or "unsupported channel", retryable=False)
        sent = notification
        params = {name: value for name, value in sent.params.items() if name not in RECIPIENTS}
        delivery = Delivery(
            config,
            params,
            sent.content,
            sent.events,
            self._renderer.channel_text(sent.content, params, sent.events, sent.targets),
            sent.targets,
            plan.timeout,
            sent.key,
            self._denied,
        )
        self._release()  # a receiver that takes its time must not hold a database connection that others wait for
        try:
            receipt: Receipt = self._calls.call(
                kind.ident, "send", lambda: kind.send(delivery), seconds=plan.timeout, about=channel.id
            )
        except SendError as error:
            response = f", response: {error.response}" if error.response else ""
            raise AttemptError(self._shown(f"{error}{response}", params), retryable=error.retryable) from None
        except PluginCallError as error:
            raise AttemptError(self._shown(str(error), params), retryable=True) from None
        return Receipt(self._shown(receipt.response, params), receipt.target)

    @staticmethod
    def _shown(text: str, params: Mapping[str, Any]) -> str:
        clean = without_secrets(text, params)
        return clean if len(clean) <= LONGEST_RESPONSE else clean[:LONGEST_RESPONSE] + "..."
