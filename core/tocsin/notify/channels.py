"""The channel resource: stored rows, their secrets, and changes to them."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import peewee

from tocsin.notify.models import NotifyChannelRow
from tocsin.notify.providers import NOTHING, Providers, guarded
from tocsin.notify.usage import refuse_used
from tocsin.plugin import ApiError, ChannelType, invalid, not_found
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots
from tocsin.store.vault import Vault, VaultError

log = logging.getLogger(__name__)
PART = "notify_channel"
"""The part of the configuration whose version moves with every change here."""
SYSTEM = "system"
IDENT = re.compile(r"[a-zA-Z0-9_-]+")
Json = dict[str, Any]
NO_PARAMS: Json = {"custom": {"params": None}}


@dataclass(frozen=True)
class Channel:
    """One channel, secrets in clear.  ``kind`` serves it; without one ``fault`` says why it cannot be used."""

    id: int
    name: str
    ident: str
    description: str
    enable: bool
    param_config: Json | None
    request_type: str
    request_config: Json | None = field(repr=False)
    weight: int = 0
    create_at: int = 0
    create_by: str = ""
    update_at: int = 0
    update_by: str = ""
    kind: ChannelType | None = field(default=None, repr=False, compare=False)
    fault: str = ""

    def shown(self) -> Json:
        """Return the resource; configurations that are not there are left out."""
        value = {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in ("kind", "fault")}
        return {name: v for name, v in value.items() if v is not None or not name.endswith("_config")}

    def simplified(self) -> Json:
        """Return what everybody may see: nothing of ``request_config``, zero values elsewhere."""
        blank: Json = {"description": "", "weight": 0, "create_at": 0, "create_by": "", "update_at": 0, "update_by": ""}
        value = {**self.shown(), **blank}
        value.pop("request_config", None)
        return value

    @property
    def declared(self) -> list[Json]:
        """The parameters that rules fill in."""
        return list(((self.param_config or {}).get("custom") or {}).get("params") or ())

    @property
    def contact_key(self) -> str:
        """Which of a user's contacts the channel sends to, an empty text when it does not send to users."""
        return str(((self.param_config or {}).get("user_info") or {}).get("contact_key") or "")


class Channels:
    """All channels, as of now in every process; secrets are decrypted once per change."""

    def __init__(
        self,
        database: Database,
        snapshots: Snapshots,
        vault: Vault,
        providers: Providers,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._snapshots = snapshots
        self._vault = vault
        self._providers = providers
        self._clock = clock
        self._snapshot = snapshots.make("notify_channels", (PART,), self._load)

    def all(self) -> Mapping[int, Channel]:
        """Return every channel by id, lightest first."""
        return self._snapshot.get()

    def find(self, channel_id: int) -> Channel:
        """Return one channel; raise ``not_found``."""
        channel = self.all().get(channel_id)
        if channel is None:
            raise not_found("notify channel not found")
        return channel

    def first_of(self, ident: str) -> Channel:
        """Return the lightest channel with an ident; raise ``not_found``."""
        found = next((channel for channel in self.all().values() if channel.ident == ident), None)
        if found is None:
            raise not_found("notify channel not found")
        return found

    def draft(self, given: Mapping[str, Any]) -> Channel:
        """Return a channel that is not stored, ready to be used; raise ``invalid`` for one that cannot be."""
        name, ident = given["name"].strip(), given["ident"]
        if not name:
            raise invalid("name cannot be empty")
        if not IDENT.fullmatch(ident):
            raise invalid(f"ident: got {ident!r}, expected letters, digits, '_' and '-'")
        params = ((given["param_config"] or {}).get("custom") or {}).get("params") or ()
        if any(param["key"] and not param["cname"] for param in params):
            raise invalid("param items must have valid cname")
        kind = self._providers.serving(ident, given["request_type"], given["request_config"])
        return Channel(**{**given, "name": name}, kind=kind)

    def create(self, given: Sequence[Mapping[str, Any]], operator: str) -> list[int]:
        """Store channels, all or none, and return their ids."""
        if not given:
            raise invalid("input json is empty")
        rows = [self._row(self.draft({**item, "id": 0})) for item in given]
        now = int(self._clock())
        stamps = {"create_at": now, "create_by": operator, "update_at": now, "update_by": operator}
        with _unique_name(), self._database.atomic():
            created = [int(NotifyChannelRow.insert(**row, **stamps).execute()) for row in rows]
            self._snapshots.bump(PART)
        return created

    def update(self, channel_id: int, given: Mapping[str, Any], operator: str) -> None:
        """Replace a channel but for who made it, and when."""
        self.find(channel_id)
        row = self._row(self.draft(given))
        stamps = {"update_at": int(self._clock()), "update_by": operator}
        with _unique_name(), self._database.atomic():
            NotifyChannelRow.update(**row, **stamps).where(NotifyChannelRow.id == channel_id).execute()
            self._snapshots.bump(PART)

    def delete(self, ids: Iterable[int], used_by: Callable[[Iterable[int]], list[int]]) -> None:
        """Delete channels unless a notification rule uses one; unknown ids are fine."""
        wanted = list(ids)
        with self._database.atomic():
            refuse_used(wanted, used_by)
            NotifyChannelRow.delete().where(NotifyChannelRow.id.in_(wanted)).execute()
            self._snapshots.bump(PART)

    def seed(self) -> None:
        """Write the plugins' channels that are not there; those nobody has changed follow the plugin."""
        for kind in self._providers.all():
            for seed in guarded(kind, "default_channels", kind.default_channels, NOTHING):
                given = {
                    "name": seed.name,
                    "ident": kind.ident,
                    "request_type": kind.request_type,
                    "request_config": dict(seed.request_config),
                    "param_config": dict(seed.param_config) if seed.param_config else None,
                    "weight": seed.weight,
                    "enable": True,
                }
                self._seed_one(given)

    def _seed_one(self, given: Json) -> None:
        now = int(self._clock())
        known = next((channel for channel in self.all().values() if channel.name == given["name"]), None)
        if known is None:
            row = self._row(Channel(id=0, description="", **given))
            stamps = {"create_at": now, "create_by": SYSTEM, "update_at": now, "update_by": SYSTEM}
            with self._database.atomic():
                NotifyChannelRow.insert(**row, **stamps).on_conflict_ignore().execute()
                self._snapshots.bump(PART)
        elif known.update_by in ("", SYSTEM) and {**known.shown(), **_present(given)} != known.shown():
            row = self._row(Channel(id=known.id, description=known.description, **given))
            with self._database.atomic():
                NotifyChannelRow.update(**row, update_at=now).where(NotifyChannelRow.id == known.id).execute()
                self._snapshots.bump(PART)

    def _row(self, channel: Channel) -> Json:
        row = {name: getattr(channel, name) for name in ("name", "ident", "description", "enable", "request_type")}
        return {
            **row,
            "weight": channel.weight,
            "param_config": orjson.dumps(channel.param_config).decode(),
            "request_config": self._vault.encrypt(orjson.dumps(channel.request_config).decode()),
        }

    def _load(self) -> dict[int, Channel]:
        rows = NotifyChannelRow.select().order_by(NotifyChannelRow.weight, NotifyChannelRow.id)
        return {row.id: self._loaded(row.as_dict()) for row in rows}

    def _loaded(self, row: Json) -> Channel:
        row["param_config"] = orjson.loads(row["param_config"])
        try:
            row["request_config"] = orjson.loads(self._vault.decrypt(row["request_config"]) or "null")
            kind = self._providers.serving(row["ident"], row["request_type"], row["request_config"])
        except VaultError as error:
            log.error("notify channel %s: %s", row["name"], error)
            return Channel(**{**row, "request_config": None}, fault=str(error))
        except ApiError as error:
            return Channel(**row, fault=error.message)
        return Channel(**row, kind=kind)


def _present(given: Json) -> Json:
    return {name: value for name, value in given.items() if value is not None}


@contextmanager
def _unique_name() -> Iterator[None]:
    try:
        yield
    except peewee.IntegrityError:
        raise invalid("name already exists") from None
