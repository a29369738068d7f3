"""Ways to log in besides user name and password."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from marshmallow import Schema


@dataclass(frozen=True)
class SsoIdentity:
    """The person a provider vouches for; empty fields are not changed on an existing user."""

    username: str
    nickname: str = ""
    email: str = ""
    phone: str = ""
    roles: tuple[str, ...] = ()
    teams: tuple[int, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


class SsoProvider(ABC):
    """A provider of identities.

    Redirecting providers implement :meth:`login_url` and :meth:`callback`; directories implement :meth:`password_login`.
    All raise :class:`~tocsin.plugin.LoginError`.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""

    @abstractmethod
    def settings_schema(self) -> type[Schema]:
        """Return the schema of the provider's settings."""

    def login_url(self, settings: Mapping[str, Any], state: str, callback_url: str) -> str:
        """Return where the browser is sent, or an empty text for providers without redirects."""
        return ""

    def callback(self, settings: Mapping[str, Any], query: Mapping[str, str], callback_url: str) -> SsoIdentity:
        """Return who came back from the provider with these query parameters."""
        raise NotImplementedError(f"{self.name} has no redirect")

    def password_login(self, settings: Mapping[str, Any], username: str, password: str) -> SsoIdentity:
        """Return who these credentials belong to."""
        raise NotImplementedError(f"{self.name} takes no passwords")
