"""Key/value settings kept in the database, and the site information among them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import peewee

from tocsin.access.models import Config
from tocsin.access.refusals import taken
from tocsin.plugin import forbidden, invalid
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots
from tocsin.store.vault import Vault

log = logging.getLogger(__name__)
CONFIGS = "configs"
"""Name of the part for ``core.snapshots.bump``."""
SITE_INFO = "site_info"
BUILT_IN, VARIABLE = 0, 1


class Configs:
    """Reads and writes settings of the service (``external`` 0); encrypted ones are plain only in memory."""

    def __init__(self, database: Database, snapshots: Snapshots, vault: Vault, clock: Callable[[], float]) -> None:
        self._database = database
        self._snapshots = snapshots
        self._vault = vault
        self._clock = clock

    def get(self, key: str) -> str:
        """Return the value of a setting, decrypted, or an empty text when there is none."""
        row = Config.get_or_none((Config.ckey == key) & (Config.external == BUILT_IN))
        return self._plain(row) if row else ""

    def set(self, key: str, value: str, operator: str, *, encrypted: bool = False) -> None:
        """Write a setting, made when it does not exist; ``encrypted`` keeps it unreadable at rest and in the API."""
        stored = self._vault.encrypt(value) if encrypted else value
        now = int(self._clock())
        change = {"cval": stored, "encrypted": int(encrypted), "update_at": now, "update_by": operator}
        with self._database.atomic():
            row = Config.select().where((Config.ckey == key) & (Config.external == BUILT_IN))
            if not row.exists():
                fresh = {"ckey": key, "external": BUILT_IN, "create_at": now, "create_by": operator}
                Config.insert(**fresh).on_conflict_ignore().execute()
            Config.update(**change).where((Config.ckey == key) & (Config.external == BUILT_IN)).execute()
            self._snapshots.bump(CONFIGS)

    def set_once(self, key: str, value: str, *, encrypted: bool = False) -> str:
        """Write a setting unless it has a value and return the value that counts; safe in processes that race."""
        stored = self._vault.encrypt(value) if encrypted else value
        now = int(self._clock())
        stamps = {"create_at": now, "update_at": now, "create_by": "system", "update_by": "system"}
        with self._database.atomic():
            Config.insert(
                ckey=key, external=BUILT_IN, cval=stored, encrypted=int(encrypted), **stamps
            ).on_conflict_ignore().execute()
        return self.get(key)

    def readable(self, key: str) -> str:
        """Return a setting for the API; an encrypted one is refused."""
        row = Config.get_or_none((Config.ckey == key) & (Config.external == BUILT_IN))
        if row is not None and row.encrypted:
            raise forbidden(f"config {key} is secret")
        return str(row.cval) if row else ""

    def replace(self, key: str, value: str, operator: str) -> None:
        """Write a setting on behalf of an administrator; encrypted ones belong to the service and are refused."""
        key = key.strip()
        if not key:
            raise invalid("ckey: got an empty text, expected the name of a setting")
        if key == SITE_INFO:
            try:
                parse_site_info(value)
            except ValueError as error:
                raise invalid(f"cval: {error}") from None
        self.readable(key)
        self.set(key, value, operator)

    def rows(self, *, prefix: str = "", limit: int, offset: int = 0) -> list[dict[str, Any]]:
        """Return rows of both kinds whose key begins with ``prefix``, newest first."""
        query = Config.select().order_by(Config.id.desc()).limit(limit).offset(offset)
        if prefix:
            query = query.where(Config.ckey.startswith(prefix))
        return [config_json(row) for row in query]

    def built_in(self) -> list[dict[str, Any]]:
        """Return every setting of the service."""
        query = Config.select().where(Config.external == BUILT_IN).order_by(Config.id)
        return [config_json(row) for row in query]

    def row(self, config_id: int) -> dict[str, Any] | None:
        """Return one row."""
        row = Config.get_or_none(Config.id == config_id)
        return config_json(row) if row else None

    def add_rows(self, rows: list[dict[str, Any]], operator: str) -> None:
        """Insert rows given by ``ckey``, ``cval``, ``note``, ``external``; all or none."""
        now = int(self._clock())
        stamps = {"create_at": now, "create_by": operator, "update_at": now, "update_by": operator}
        try:
            with self._database.atomic():
                for row in rows:
                    Config.create(**row, **stamps)
                self._snapshots.bump(CONFIGS)
        except peewee.IntegrityError:
            raise taken("key is exists") from None

    def update_rows(self, rows: list[dict[str, Any]], operator: str) -> None:
        """Change the fields that rows carry beside their ``id``; empty texts leave a field as it is."""
        stamps = {"update_at": int(self._clock()), "update_by": operator}
        try:
            with self._database.atomic():
                for row in rows:
                    self._refuse_secret(Config.id == row["id"])
                    change = {name: value for name, value in row.items() if name != "id" and value != ""}
                    Config.update(**change, **stamps).where(Config.id == row["id"]).execute()
                self._snapshots.bump(CONFIGS)
        except peewee.IntegrityError:
            raise taken("key is exists") from None

    def delete_rows(self, ids: list[int]) -> None:
        """Delete rows; unknown ids are fine, the service's own secrets are refused."""
        with self._database.atomic():
            self._refuse_secret(Config.id.in_(ids))
            Config.delete().where(Config.id.in_(ids)).execute()
            self._snapshots.bump(CONFIGS)

    def _refuse_secret(self, which: Any) -> None:
        secret = Config.get_or_none(which & (Config.external == BUILT_IN) & (Config.encrypted == 1))
        if secret is not None:
            raise forbidden(f"config {secret.ckey} is secret")

    def _plain(self, row: Config) -> str:
        return self._vault.decrypt(row.cval) if row.encrypted else str(row.cval)


def config_json(row: Config) -> dict[str, Any]:
    """Return a row for the API; the value of an encrypted setting is left out."""
    value = row.as_dict()
    if row.encrypted and row.external == BUILT_IN:
        value["cval"] = ""
    return {**value, "update_by_nickname": ""}


@dataclass(frozen=True)
class SiteInfo:
    """What the server itself needs of the setting ``site_info``."""

    site_url: str = ""
    print_access_log: bool = False


class Site:
    """The site information, read again every few seconds: it is asked for on every request."""

    REFRESH_SECONDS = 9.0

    def __init__(self, configs: Configs) -> None:
        self._configs = configs
        self._read_at = float("-inf")
        self._reading = threading.Lock()
        self._info = SiteInfo()

    def text(self) -> str:
        """Return the stored JSON text, as it is now."""
        return self._configs.get(SITE_INFO)

    def info(self) -> SiteInfo:
        """Return the parsed site information, at most a few seconds old; the last one known while it is unreadable."""
        due = time.monotonic() - self._read_at > self.REFRESH_SECONDS
        if due and self._reading.acquire(blocking=False):  # a database that hangs keeps one thread waiting, not all
            try:
                self._read_at = time.monotonic()
                self._info = parse_site_info(self.text())
            except (peewee.PeeweeException, ValueError):
                log.warning("site_info cannot be read, the previous one stays in use", exc_info=True)
            finally:
                self._reading.release()
        return self._info

    def seed_url(self, url: str) -> None:
        """Set ``site_url`` when it is missing and keep every other key."""
        try:
            known = orjson.loads(self.text() or "{}")
        except orjson.JSONDecodeError:
            log.warning("site_info is no JSON text and stays as it is")
            return
        if isinstance(known, dict) and not known.get("site_url"):
            self._configs.set(SITE_INFO, orjson.dumps({**known, "site_url": url}).decode(), "system")


def parse_site_info(text: str) -> SiteInfo:
    """Return the server's part of a ``site_info`` JSON text; raise :class:`ValueError` when it is none."""
    try:
        found = orjson.loads(text or "{}")
    except orjson.JSONDecodeError as error:
        raise ValueError(f"site_info: expected a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"site_info: expected a JSON object, got {type(found).__name__}")
    return SiteInfo(str(found.get("site_url") or ""), found.get("print_access_log") is True)
