"""Notification channels and steps of event pipelines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from marshmallow import Schema


@dataclass(frozen=True)
class Delivery:
    """One notification to send.

    ``config`` is the channel's stored configuration with secrets in clear, ``params`` the parameters that the
    notification rule fills in, ``content`` the rendered fields of the message template, ``events`` the events as JSON
    objects (never empty), ``targets`` the addresses resolved from users for channels that send to people.
    """

    config: Mapping[str, Any]
    params: Mapping[str, str]
    content: Mapping[str, str]
    events: Sequence[Mapping[str, Any]]
    targets: Sequence[str] = ()
    timeout: float = 10.0
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Receipt:
    """What is recorded of a delivered notification: the receiver as shown to users and the answer's beginning."""

    target: str
    response: str = ""


class ChannelType(ABC):
    """A medium through which notifications leave, like ``webhook``."""

    ident: ClassVar[str] = ""
    title: ClassVar[str] = ""
    request_type: ClassVar[str] = "http"

    def config_schema(self) -> type[Schema] | None:
        """Return the schema of the channel's own configuration object, or ``None`` when anything goes."""
        return None

    def default_templates(self) -> Mapping[str, str]:
        """Return the fields and Go-template texts that a new channel's message template starts with."""
        return {}

    @abstractmethod
    def send(self, delivery: Delivery) -> Receipt:
        """Deliver or raise :class:`~tocsin.plugin.SendError`; must respect ``delivery.timeout``."""


@dataclass(frozen=True)
class StepContext:
    """What a pipeline step may use: the pipeline's input variables and the time limit in seconds."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    timeout: float = 10.0


class EventProcessor(ABC):
    """One kind of pipeline step.  ``name`` is the step's ``typ`` in a pipeline."""

    name: ClassVar[str] = ""

    def config_schema(self) -> type[Schema] | None:
        """Return the schema of the step's configuration object, or ``None`` when anything goes."""
        return None

    @abstractmethod
    def process(
        self, event: dict[str, Any], config: Mapping[str, Any], context: StepContext
    ) -> tuple[dict[str, Any] | None, str]:
        """Return the event to go on with (``None`` drops it) and a line for the execution record.

        Raise :class:`~tocsin.plugin.ProcessorError` when the step cannot be done.
        """
