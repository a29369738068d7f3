"""Who a notification goes to: users of a rule and members of its teams, by the contact that a channel needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tocsin.access.directory import Directory, KnownUser
from tocsin.notify.channels import Channel
from tocsin.notify.matching import plain_text
from tocsin.notify.providers import Providers
from tocsin.notify.rules import RECIPIENTS

SHOWN_BEFORE_STARS = 4
IDENTIFIERS = frozenset(("ids", "pagerduty_integration_keys", "pagerduty_integration_ids", "im_group_ids", *RECIPIENTS))
"""Parameters that say where to send, in ways of their own; all others are a channel's custom parameters."""


@dataclass(frozen=True)
class Recipients:
    """Addresses and the names of the users they belong to, in equal order."""

    targets: tuple[str, ...] = ()
    usernames: tuple[str, ...] = ()

    def each(self) -> Iterator[Recipients]:
        """Yield every recipient alone."""
        for target, username in zip(self.targets, self.usernames, strict=True):
            yield Recipients((target,), (username,))


def recipients_of(
    channel: Channel, params: Mapping[str, Any], directory: Directory, providers: Providers
) -> Recipients:
    """Return the recipients that a route's parameters name; users without the contact are left out."""
    key = channel.contact_key
    if not key:
        return Recipients()
    users = {user.id: user for user in directory.users_by_ids(params.get("user_ids") or ())}
    users.update((user.id, user) for user in directory.members_of_teams(params.get("user_group_ids") or ()))
    wanted = providers.contact_key(key)
    found = [(contact, user.username) for user in users.values() if (contact := _contact(user, wanted))]
    return Recipients(tuple(contact for contact, _ in found), tuple(name for _, name in found))


def _contact(user: KnownUser, key: str) -> str:
    if key == "phone":
        return user.phone
    if key == "email":
        return user.email
    return str(user.contacts.get(key) or "")


def custom(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the custom parameters of a route as texts."""
    return {key: plain_text(value) for key, value in params.items() if key not in IDENTIFIERS}


def target_text(params: Mapping[str, Any], targets: tuple[str, ...]) -> str:
    """Return where a notification goes as records show it: partly starred parameters, else the recipients."""
    values = [value for value in custom(params).values() if value]
    if values:
        return ",".join(
            value[:-SHOWN_BEFORE_STARS] + "****" if len(value) > SHOWN_BEFORE_STARS else value for value in values
        )
    return ",".join(targets)


def without_secrets(text: str, params: Mapping[str, Any]) -> str:
    """Return ``text`` with parameters that could be tokens starred, as far as a receiver repeats them in its answer."""
    for value in sorted(custom(params).values(), key=len, reverse=True):
        if len(value) >= 8:
            text = text.replace(value, "***")
    return text
