"""Notification channels and steps of event pipelines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tocsin.plugin._http import Network

if TYPE_CHECKING:
    from marshmallow import Schema


class Render(Protocol):
    """Renders the Go templates of a channel's configuration for one delivery."""

    def __call__(self, name: str, text: str, *, escaped: bool = False) -> str:
        """Return ``text`` rendered; raise :class:`~tocsin.plugin.RenderError` with ``name`` in its text.

        There are ``$tpl``, ``$params``, ``$events``, ``$event``, ``$sendtos`` and ``$sendto``.  With ``escaped``, as for
        bodies, what is put in is HTML-escaped but for the fields of ``$tpl`` and the results of functions like
        ``jsonMarshal``.
        """


@dataclass(frozen=True)
class SendPlan:
    """How core drives the sends of one channel; times are seconds.

    ``timeout`` bounds one attempt, ``attempts`` counts the first one too, ``interval`` is the pause before the second
    attempt and doubles with each further one, ``concurrency`` is how many sends are under way at once.  With
    ``per_target`` every recipient gets a delivery of their own.
    """

    timeout: float = 10.0
    attempts: int = 3
    interval: float = 1.0
    concurrency: int = 5
    per_target: bool = True


@dataclass(frozen=True)
class Delivery:
    """One notification to send.

    ``config`` is the channel's ``request_config`` with secrets in clear, ``params`` the parameters that the
    notification rule fills in, ``content`` the rendered fields of the message template, ``events`` the events as JSON
    objects (never empty), ``targets`` the addresses resolved from users for channels that send to people.
    """

    config: Mapping[str, Any] = field(repr=False)
    params: Mapping[str, Any] = field(repr=False)
    content: Mapping[str, str]
    events: Sequence[Mapping[str, Any]]
    render: Render
    targets: Sequence[str] = ()
    timeout: float = 10.0
    key: str = ""
    """The same text for every attempt at this notification and for no other one: receivers can recognise repeats."""
    denied_networks: tuple[Network, ...] = ()
    """For :class:`~tocsin.plugin.HttpOptions`: networks that addresses given by users must not lead into."""


@dataclass(frozen=True)
class Receipt:
    """What is recorded of a delivered notification: the answer's beginning and the receiver as shown to users.

    Without ``target`` core shows the parameters, partly starred, or the recipients.
    """

    response: str = ""
    target: str = ""


@dataclass(frozen=True)
class ChannelSeed:
    """A channel that an installation starts with, until somebody changes it; fields as in the channel resource."""

    name: str
    request_config: Mapping[str, Any]
    param_config: Mapping[str, Any] | None = None
    weight: int = 0


@dataclass(frozen=True)
class TemplateSeed:
    """A message template that an installation starts with, until somebody changes it.

    ``content`` is field name -> Go template, ``language`` is ``en`` or, for Chinese, empty.
    """

    name: str
    content: Mapping[str, str]
    language: str = "en"
    weight: int = 0


class ChannelType(ABC):
    """A medium through which notifications leave, like ``webhook``.

    Core decides what is sent to whom, renders the message template, queues, retries and records; a channel type makes
    one attempt at a time.  :meth:`send` is called from several threads at once.
    """

    ident: ClassVar[str] = ""
    """The channel resource's ``ident`` that this type serves."""
    title: ClassVar[str] = ""
    request_type: ClassVar[str] = "http"
    """The channel resource's ``request_type``: which member of ``request_config`` counts."""
    general: ClassVar[bool] = False
    """Whether the type also serves channels of its ``request_type`` whose ident no installed plugin claims."""
    contact_key: ClassVar[str] = ""
    """The key of a user's contacts that a channel's ``contact_key`` means when it names :attr:`ident`."""
    needs_template: ClassVar[bool] = True
    """Whether a notification rule has to name a message template."""
    escapes: ClassVar[bool] = True
    """Whether fields of message templates are HTML-escaped and then passed through :meth:`finish`."""

    def config_schema(self) -> type[Schema] | None:
        """Return the schema of ``request_config``, or ``None`` when anything goes; it checks types and changes nothing."""
        return None

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise ``ValueError`` with a text for users when a ``request_config`` can never work."""

    def plan(self, config: Mapping[str, Any]) -> SendPlan:
        """Return how sends through a channel with this ``request_config`` are driven."""
        return SendPlan()

    def default_channels(self) -> Sequence[ChannelSeed]:
        """Return the channels that an installation starts with."""
        return ()

    def default_templates(self) -> Sequence[TemplateSeed]:
        """Return the message templates that an installation starts with."""
        return ()

    def finish(self, text: str) -> str:
        """Return a rendered, HTML-escaped template field as it is put into the channel's body: inside a JSON string."""
        return json_escaped(text)

    @abstractmethod
    def send(self, delivery: Delivery) -> Receipt:
        """Deliver once or raise :class:`~tocsin.plugin.SendError`; must be back within ``delivery.timeout``.

        Texts of receipts and errors are shown to users: they hold no secret of ``delivery.config``.
        """


_ESCAPES = str.maketrans({'"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def json_escaped(text: str) -> str:
    """Return ``text`` with double quotes, line breaks and tabs escaped as inside a JSON string."""
    return text.translate(_ESCAPES)


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
