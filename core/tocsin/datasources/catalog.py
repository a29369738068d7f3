"""The datasource resource: stored rows, their secrets, and changes to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import peewee

from tocsin.datasources.models import DatasourceRow
from tocsin.datasources.records import AUTH_DEFAULTS, DatasourceRecord, with_http_defaults
from tocsin.datasources.selection import select
from tocsin.datasources.types import number_of
from tocsin.plugin import DatasourceConfig, DatasourceRegistry, DatasourceType, conflict, not_found
from tocsin.store.vault import VaultError

if TYPE_CHECKING:
    from tocsin.store.database import Database
    from tocsin.store.snapshots import Snapshots
    from tocsin.store.vault import Vault

log = logging.getLogger(__name__)
PART = "datasource"
"""The part of the configuration whose version moves with every change here."""
SYSTEM = "system"
WRITABLE = (
    *("name", "identifier", "description", "cluster_name"),
    *("settings", "http", "auth", "is_default", "weight"),
)
"""What an update replaces; the rest is set at creation, or by its own endpoint."""
SEALED = frozenset(("settings", "http", "auth"))


class Catalog(DatasourceRegistry):
    """All datasources, as of now in every process; secrets are decrypted once per change."""

    def __init__(
        self,
        database: Database,
        snapshots: Snapshots,
        vault: Vault,
        types: Mapping[str, DatasourceType],
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._snapshots = snapshots
        self._vault = vault
        self._types = types
        self._clock = clock
        self._snapshot = snapshots.make("datasources", (PART,), self._load)

    def records(self) -> dict[int, DatasourceRecord]:
        """Return every datasource by id, in order of id; equal objects mean that nothing changed."""
        return self._snapshot.get()

    def find(self, datasource_id: int) -> DatasourceRecord:
        """Return one datasource; raise ``not_found`` when there is none with this id."""
        record = self.records().get(datasource_id)
        if record is None:
            raise not_found(f"no such datasource id: {datasource_id}")
        return record

    def listed(self, name: str = "", plugin_type: str = "", category: str = "") -> list[DatasourceRecord]:
        """Return datasources, newest first, whose name holds every word of ``name``; empty filters take all."""
        words = name.lower().split()
        return [
            record
            for record in reversed(self.records().values())
            if (not plugin_type or record.plugin_type == plugin_type)
            and (not category or record.category == category)
            and all(word in record.name.lower() for word in words)
        ]

    def select(self, plugin_type: str, queries: Sequence[Mapping[str, Any]]) -> list[DatasourceRecord]:
        """Return the datasources of a type that a rule's ``datasource_queries`` mean."""
        return select((r for r in self.records().values() if r.plugin_type == plugin_type), queries)

    def create(self, values: Mapping[str, Any], operator: str) -> int:
        """Store a new enabled datasource and return its id; raise ``conflict`` for a name that is taken."""
        now = int(self._clock())
        row = {
            "status": "enabled",
            **self._sealed(values),
            "created_at": now,
            "updated_at": now,
            "created_by": operator,
            "updated_by": operator,
        }
        with _unique_name(), self._database.atomic():
            created: int = DatasourceRow.insert(**row).execute()
            self._snapshots.bump(PART)
        return int(created)

    def update(self, datasource_id: int, values: Mapping[str, Any], operator: str) -> None:
        """Replace what an update may replace; raise ``not_found`` or, for a name that is taken, ``conflict``."""
        row = self._sealed({name: value for name, value in values.items() if name in WRITABLE})
        with _unique_name():
            self._write(datasource_id, row, operator)

    def set_status(self, datasource_id: int, status: str, operator: str) -> None:
        """Enable or disable a datasource; raise ``not_found``."""
        self._write(datasource_id, {"status": status}, operator)

    def delete(self, ids: Iterable[int]) -> None:
        """Delete datasources; unknown ids are ignored."""
        wanted = list(ids)
        if not wanted:
            return
        with self._database.atomic():
            DatasourceRow.delete().where(DatasourceRow.id.in_(wanted)).execute()
            self._snapshots.bump(PART)

    def ensure(self, config: DatasourceConfig, *, identifier: str, description: str = "") -> int:
        records = self.records().values()
        present = next((r for r in records if r.identifier == identifier), None)
        if present is not None:
            self._correct(present, config)
            return present.id
        kind = self._types.get(config.type)
        obstacle = (
            f"no installed plugin serves type {config.type}"
            if kind is None
            else f"another enabled one of type {config.type} is there"
            if any(r.enabled and r.type == config.type for r in records)
            else "its name is taken"
            if any(r.name == config.name for r in records)
            else ""
        )
        if kind is None or obstacle:
            log.info("datasource %s is not added: %s", config.name, obstacle)
            return 0
        values = {
            "name": config.name,
            "identifier": identifier,
            "description": description,
            "plugin_id": number_of(kind),
            "plugin_type": kind.name,
            "plugin_type_name": kind.title,
            "category": kind.category,
            "cluster_name": "default",
            "is_default": True,
            "settings": config.settings,
            "http": config.http,
            "auth": config.auth,
        }
        return self.create(values, SYSTEM)

    def _correct(self, present: DatasourceRecord, config: DatasourceConfig) -> None:
        """Bring address, authentication, TLS checking and the given settings of a datasource up to date."""
        wanted = with_http_defaults(config.http)
        http = {**present.http, "url": wanted["url"]}
        http["tls"] = {**present.http["tls"], "skip_tls_verify": wanted["tls"]["skip_tls_verify"]}
        settings = {**present.settings, **config.settings}
        auth = {**AUTH_DEFAULTS, **config.auth}
        if (http, auth, settings) != (present.http, present.auth, present.settings):
            self._write(present.id, self._sealed({"http": http, "auth": auth, "settings": settings}), SYSTEM)

    def _write(self, datasource_id: int, row: Mapping[str, Any], operator: str) -> None:
        stamp = {"updated_at": int(self._clock()), "updated_by": operator}
        with self._database.atomic():
            if not DatasourceRow.select().where(DatasourceRow.id == datasource_id).exists():
                raise not_found(f"no such datasource id: {datasource_id}")
            DatasourceRow.update(**row, **stamp).where(DatasourceRow.id == datasource_id).execute()
            self._snapshots.bump(PART)

    def _sealed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: self._vault.encrypt(orjson.dumps(dict(value or {})).decode()) if name in SEALED else value
            for name, value in values.items()
        }

    def _load(self) -> dict[int, DatasourceRecord]:
        return {row.id: self._record(row) for row in DatasourceRow.select().order_by(DatasourceRow.id)}

    def _record(self, row: DatasourceRow) -> DatasourceRecord:
        stored = row.as_dict()
        fault = ""
        try:
            opened = {name: orjson.loads(self._vault.decrypt(stored[name])) for name in SEALED}
        except (VaultError, orjson.JSONDecodeError) as error:
            fault = str(error)
            opened = {name: {} for name in SEALED}
            log.error("datasource %s (id %d) cannot be used: %s", row.name, row.id, fault)
        record = DatasourceRecord(**{**stored, **opened}, fault=fault)
        return replace(record, http=with_http_defaults(record.http), auth={**AUTH_DEFAULTS, **record.auth})


@contextmanager
def _unique_name() -> Iterator[None]:
    """Turn the database's complaint about a doubled name into ours."""
    try:
        yield
    except peewee.IntegrityError:
        raise conflict("name already exists") from None
