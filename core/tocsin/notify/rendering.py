"""From message templates and channel templates to texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tocsin.notify.matching import plain_text
from tocsin.notify.metrics import NotifyMetrics
from tocsin.notify.providers import Providers, guarded
from tocsin.plugin import RenderError, json_escaped
from tocsin.template import Mode, Preamble, Reason, SafeHTML, StringMap, TemplateEngine, TemplateError
from tocsin.template.event import CHANNEL_VARIABLES, EVENT, MESSAGE_VARIABLES

Events = Sequence[Mapping[str, Any]]
FAILED = {Reason.SYNTAX: "failed to parse template", Reason.LIMIT: "failed to execute template"}
EXECUTION = "failed to execute template"


def fault_text(error: TemplateError) -> str:
    """Return what users are told about a template that failed."""
    return f"{FAILED.get(error.reason, EXECUTION)}: {error}"


class FieldError(Exception):
    """A field of a message template that cannot be rendered."""


class Renderer:
    """Renders templates with the functions that alerting templates know, and counts what fails."""

    def __init__(self, engine: TemplateEngine, providers: Providers, metrics: NotifyMetrics) -> None:
        self._engine = engine
        self._providers = providers
        self._metrics = metrics

    def message(self, content: Mapping[str, str], ident: str, events: Events, domain: str) -> dict[str, str]:
        """Return the rendered fields of a message template for channels with an ident; what fails says why."""
        rendered = {}
        for name, text in content.items():
            try:
                rendered[name] = self._field(name, text, ident, events, domain)
            except TemplateError as error:
                self._metrics.template_errors.labels("message", error.reason).inc()
                rendered[name] = fault_text(error)
        self._metrics.observe_cache(self._engine)
        return rendered

    def strict_message(self, content: Mapping[str, str], ident: str, events: Events, domain: str) -> dict[str, str]:
        """Return rendered fields; raise :class:`FieldError` at the first that fails, in order of name."""
        rendered = {}
        for name in sorted(content):
            try:
                rendered[name] = self._field(name, content[name], ident, events, domain)
            except TemplateError as error:
                raise FieldError(f'template field "{name}": {fault_text(error)}') from None
        return rendered

    def preview(self, content: Mapping[str, str], events: Events, domain: str) -> dict[str, dict[str, Any]]:
        """Return every field rendered with escaping for pages and nothing else, or why it failed."""
        shown: dict[str, dict[str, Any]] = {}
        for name, text in content.items():
            try:
                rendered = self._render(name, text, _message_data(events, domain), Mode.HTML, MESSAGE_VARIABLES)
                shown[name] = {"content": rendered, "success": True, "message": ""}
            except TemplateError as error:
                shown[name] = {"content": "", "success": False, "message": fault_text(error)}
        return shown

    def _field(self, name: str, text: str, ident: str, events: Events, domain: str) -> str:
        kind = self._providers.of_ident(ident)
        escapes = kind is None or kind.escapes
        mode = Mode.HTML if escapes else Mode.TEXT
        rendered = self._render(name, text, _message_data(events, domain), mode, MESSAGE_VARIABLES)
        if not escapes:
            return rendered
        plain = json_escaped(rendered)
        return SafeHTML(guarded(kind, "finish", lambda: kind.finish(rendered), plain) if kind is not None else plain)

    def _render(self, name: str, text: str, data: Any, mode: Mode, preamble: Preamble) -> str:
        return self._engine.render(name, text, data, mode, preamble)

    def channel_text(
        self,
        content: Mapping[str, str],
        params: Mapping[str, Any],
        events: Events,
        targets: Sequence[str],
    ) -> ChannelText:
        """Return what renders the texts of a channel's configuration for one delivery."""
        wrapped = [EVENT.wrap(event) for event in events]
        data = {
            "tpl": StringMap(content),
            "params": StringMap({key: plain_text(value) for key, value in params.items()}),
            "events": wrapped,
            "event": wrapped[0],
            "sendtos": list(targets),
            "sendto": targets[0] if targets else "",
        }
        return ChannelText(self._engine, self._metrics, data)


class ChannelText:
    """Renders templates of one channel for one delivery."""

    def __init__(self, engine: TemplateEngine, metrics: NotifyMetrics, data: Mapping[str, Any]) -> None:
        self._engine = engine
        self._metrics = metrics
        self._data = data

    def __call__(self, name: str, text: str, *, escaped: bool = False) -> str:
        """Return ``text`` rendered; raise :class:`RenderError`."""
        if "{{" not in text:
            return text
        mode = Mode.HTML if escaped else Mode.TEXT
        try:
            return self._engine.render(name, text, self._data, mode, CHANNEL_VARIABLES)
        except TemplateError as error:
            self._metrics.template_errors.labels("channel", error.reason).inc()
            raise RenderError(f"{name}: {fault_text(error)}", reason=error.reason) from None


def _message_data(events: Events, domain: str) -> dict[str, Any]:
    return {"events": [EVENT.wrap(event) for event in events], "domain": domain}
