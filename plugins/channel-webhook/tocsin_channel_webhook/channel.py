"""What the service sees of the channel type."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tocsin.plugin import ChannelSeed, ChannelType, Delivery, Receipt, SendPlan, TemplateSeed, check_url
from tocsin_channel_webhook.clients import Clients
from tocsin_channel_webhook.request import send

if TYPE_CHECKING:
    from marshmallow import Schema

HTTP = "http_request_config"
METHODS = ("GET", "POST", "PUT")
TIMEOUT_MS, CONCURRENCY, ATTEMPTS, INTERVAL_MS = 10_000, 5, 3, 100
EVENTS_AS_JSON = "{{ jsonMarshal $events }}"


class CallbackChannel(ChannelType):
    """Sends what a channel's configuration says, to where it says."""

    ident = "callback"
    title = "Callback"
    request_type = "http"
    general = True
    needs_template = True

    def __init__(self) -> None:
        self._clients = Clients()

    def config_schema(self) -> type[Schema]:
        """Return the schema of ``request_config``."""
        from tocsin_channel_webhook.schema import RequestConfigSchema

        return RequestConfigSchema

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise ``ValueError`` for an address or method that can never work."""
        http = config.get(HTTP)
        if not http:
            raise ValueError("http request config cannot be nil")
        url = str(http.get("url") or "")
        if not url:
            raise ValueError("http request url cannot be empty")
        if http.get("method") not in METHODS:
            raise ValueError(f"http request method must be GET, POST or PUT; got {http.get('method')!r}")
        if "{{" not in url:
            check_url(url, name="http request url")
        if http.get("proxy"):
            check_url(str(http["proxy"]), name="http request proxy")

    def plan(self, config: Mapping[str, Any]) -> SendPlan:
        """Return what the configuration says about time limits and repetition; 0 and absent mean the default."""
        http = config.get(HTTP) or {}
        return SendPlan(
            timeout=(http.get("timeout") or TIMEOUT_MS) / 1000,
            attempts=http.get("retry_times") or ATTEMPTS,
            interval=(http.get("retry_interval") or INTERVAL_MS) / 1000,
            concurrency=http.get("concurrency") or CONCURRENCY,
            per_target="$sendtos" not in json.dumps(http, ensure_ascii=False),
        )

    def default_channels(self) -> Sequence[ChannelSeed]:
        """Return the channel that posts events to an address which the notification rule names."""
        request = {
            "url": "{{$params.callback_url}}",
            "method": "POST",
            "headers": {"Content-Type": "application/json"},
            "timeout": TIMEOUT_MS,
            "concurrency": CONCURRENCY,
            "retry_times": ATTEMPTS,
            "retry_interval": INTERVAL_MS,
            "request": {"parameters": {}, "form": "", "body": EVENTS_AS_JSON},
        }
        params = [
            {"key": "callback_url", "cname": "Callback Url", "type": "string"},
            {"key": "note", "cname": "Note", "type": "string"},
        ]
        return [ChannelSeed("Callback", {HTTP: request}, {"custom": {"params": params}}, weight=2)]

    def default_templates(self) -> Sequence[TemplateSeed]:
        """Return the template of both languages; the body takes the events and no rendered field."""
        return [TemplateSeed("Callback", {"content": ""}, language, weight=16) for language in ("", "en")]

    def send(self, delivery: Delivery) -> Receipt:
        """Make one request; raise :class:`~tocsin.plugin.SendError`."""
        return send(delivery, delivery.config.get(HTTP) or {}, self._clients)
