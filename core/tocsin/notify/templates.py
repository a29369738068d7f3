"""The message template resource."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from tocsin.access.directory import Directory
from tocsin.notify.models import MessageTemplateRow
from tocsin.notify.providers import NOTHING, Providers, guarded
from tocsin.notify.usage import refuse_used
from tocsin.plugin import Caller, forbidden, invalid, not_found
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots

PART = "message_template"
"""The part of the configuration whose version moves with every change here."""
SYSTEM = "system"
IDENT = re.compile(r"[a-zA-Z0-9_-]+")
LONGEST_LANGUAGE = 32
LONGEST_NAME = 64
PRIVATE = 1
Json = dict[str, Any]


class MessageTemplates:
    """All message templates, as of now in every process."""

    def __init__(
        self,
        database: Database,
        snapshots: Snapshots,
        directory: Directory,
        providers: Providers,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._snapshots = snapshots
        self._directory = directory
        self._providers = providers
        self._clock = clock
        self._snapshot = snapshots.make("message_templates", (PART,), _load)

    def all(self) -> Mapping[int, Json]:
        """Return every template by id, lightest first; the objects are shared, copy before changing one."""
        return self._snapshot.get()

    def visible(self, caller: Caller, idents: Sequence[str], language: str) -> list[Json]:
        """Return the templates a caller may use, for channels with these idents (all when empty).

        Templates that came with the installation are those of one language: ``language``, else English, else Chinese.
        """
        found = [t for t in self.all().values() if not idents or t["notify_channel_ident"] in idents]
        offered = {t["lang"] for t in found if t["create_by"] == SYSTEM}
        chosen = next((lang for lang in (language, "en", "") if lang in offered), "")
        found = [t for t in found if t["create_by"] != SYSTEM or t["lang"] == chosen]
        teams = self._directory.team_ids(caller)
        shown = (t for t in found if caller.is_admin or t["private"] != PRIVATE or teams & set(t["user_group_ids"]))
        return [{**t, "update_by_nickname": self._directory.nickname(t["update_by"])} for t in shown]

    def find(self, template_id: int) -> Json:
        """Return one template; raise ``not_found``."""
        found = self.all().get(template_id)
        if found is None:
            raise not_found("message template not found")
        return found

    def readable(self, template_id: int, caller: Caller) -> Json:
        """Return one template if the caller may see it."""
        found = self.find(template_id)
        if found["private"] == PRIVATE:
            self._require_team(found, caller)
        return found

    def create(self, given: Sequence[Mapping[str, Any]], caller: Caller, language: str) -> list[int]:
        """Store templates, all or none, and return their ids."""
        if not given:
            raise invalid("input json is empty")
        rows = []
        for item in given:
            fresh = {**item, "ident": str(uuid.uuid4()), "lang": language}
            self._require_team(fresh, caller)
            rows.append(_row(_verified(fresh)))
        now = int(self._clock())
        stamps = {"create_at": now, "create_by": caller.username, "update_at": now, "update_by": caller.username}
        with self._database.atomic():
            created = [int(MessageTemplateRow.insert(**row, **stamps).execute()) for row in rows]
            self._snapshots.bump(PART)
        return created

    def update(self, template_id: int, given: Mapping[str, Any], caller: Caller) -> None:
        """Replace a template but for its ident, its language and who made it."""
        stored = self.find(template_id)
        self._require_team(stored, caller)
        if given["ident"] != stored["ident"]:
            others = (t for t in self.all().values() if t["ident"] == given["ident"])
            raise invalid("message template ident already exists" if any(others) else "cannot update ident")
        row = _row(_verified({**given, "lang": stored["lang"]}))
        stamps = {"update_at": int(self._clock()), "update_by": caller.username}
        with self._database.atomic():
            MessageTemplateRow.update(**row, **stamps).where(MessageTemplateRow.id == template_id).execute()
            self._snapshots.bump(PART)

    def delete(self, ids: Iterable[int], caller: Caller, used_by: Callable[[Iterable[int]], list[int]]) -> None:
        """Delete templates unless a notification rule uses one; unknown ids are fine."""
        wanted = list(ids)
        known = self.all()
        for template_id in wanted:
            if template_id in known:
                self._require_team(known[template_id], caller)
        with self._database.atomic():
            refuse_used(wanted, used_by)
            MessageTemplateRow.delete().where(MessageTemplateRow.id.in_(wanted)).execute()
            self._snapshots.bump(PART)

    def seed(self) -> None:
        """Write the plugins' templates that are not there; those nobody has changed follow the plugin."""
        known = {t["ident"]: t for t in self.all().values()}
        now = int(self._clock())
        for kind in self._providers.all():
            for seed in guarded(kind, "default_templates", kind.default_templates, NOTHING):
                ident = f"{kind.ident}-{seed.language}" if seed.language else kind.ident
                fresh = {
                    "name": seed.name,
                    "ident": ident,
                    "content": dict(seed.content),
                    "notify_channel_ident": kind.ident,
                    "weight": seed.weight,
                    "lang": seed.language,
                }
                self._seed_one(known.get(ident), fresh, now)

    def _seed_one(self, stored: Json | None, fresh: Json, now: int) -> None:
        if stored is not None and (stored["update_by"] not in ("", SYSTEM) or {**stored, **fresh} == stored):
            return
        row = _row({"user_group_ids": [], "private": 0, **fresh})
        with self._database.atomic():
            if stored is None:
                stamps = {"create_at": now, "create_by": SYSTEM, "update_at": now, "update_by": SYSTEM}
                MessageTemplateRow.insert(**row, **stamps).on_conflict_ignore().execute()
            else:
                query = MessageTemplateRow.update(**row, update_at=now)
                query.where(MessageTemplateRow.id == stored["id"]).execute()
            self._snapshots.bump(PART)

    def _require_team(self, template: Mapping[str, Any], caller: Caller) -> None:
        if not caller.is_admin and not self._directory.team_ids(caller) & set(template["user_group_ids"]):
            raise forbidden()


def _verified(given: Json) -> Json:
    name = given["name"].strip()
    if not name:
        raise invalid("template name cannot be empty")
    if len(name) > LONGEST_NAME:
        raise invalid(f"name: got {len(name)} characters, expected at most {LONGEST_NAME}")
    if len(given["lang"]) > LONGEST_LANGUAGE:
        raise invalid(f"X-Language: got {len(given['lang'])} characters, expected at most {LONGEST_LANGUAGE}")
    if not IDENT.fullmatch(given["ident"]):
        raise invalid(f"ident: got {given['ident']!r}, expected letters, digits, '_' and '-'")
    if any(not field for field in given["content"]):
        raise invalid("template content cannot have empty keys")
    if given["private"] not in (0, PRIVATE):
        raise invalid("private flag must be 0 or 1")
    if given["private"] == PRIVATE and not given["user_group_ids"]:
        raise invalid("user group IDs of private msg tpl cannot be empty")
    return {**given, "name": name}


def _row(given: Mapping[str, Any]) -> Json:
    plain = ("name", "ident", "notify_channel_ident", "private", "weight", "lang")
    packed = {name: orjson.dumps(given[name]).decode() for name in ("content", "user_group_ids")}
    return {**{name: given[name] for name in plain}, **packed}


def _load() -> dict[int, Json]:
    found = {}
    for row in MessageTemplateRow.select().order_by(MessageTemplateRow.weight, MessageTemplateRow.id):
        value = row.as_dict()
        value.update({name: orjson.loads(value[name]) for name in ("content", "user_group_ids")})
        found[row.id] = value
    return found
