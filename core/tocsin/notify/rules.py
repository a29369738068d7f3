"""The notification rule resource: stored rows, compiled routes, and changes to them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tocsin.access.directory import Directory
from tocsin.notify.channels import Channels
from tocsin.notify.matching import (
    Conditions,
    FilterError,
    compile_conditions,
    compile_filter,
    compile_range,
    plain_text,
)
from tocsin.notify.models import NotifyRuleRow
from tocsin.plugin import Caller, forbidden, invalid, not_found
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots
from tocsin.store.vault import Vault, VaultError

log = logging.getLogger(__name__)
PART = "notify_rule"
"""The part of the configuration whose version moves with every change here."""
RECIPIENTS = ("user_ids", "user_group_ids")
Json = dict[str, Any]


@dataclass(frozen=True)
class Route:
    """One entry of a rule's ``notify_configs``; without ``conditions`` (they cannot be understood) it matches nothing."""

    channel_id: int
    template_id: int
    params: Mapping[str, Any] = field(repr=False)
    conditions: Conditions | None


@dataclass(frozen=True)
class Rule:
    """One rule: the resource with secrets in clear, and its routes."""

    shown: Json = field(repr=False)
    routes: tuple[Route, ...]

    @property
    def id(self) -> int:
        """The rule's id."""
        return int(self.shown["id"])

    @property
    def name(self) -> str:
        """The rule's name."""
        return str(self.shown["name"])

    @property
    def teams(self) -> frozenset[int]:
        """The teams that may see and manage the rule."""
        return frozenset(self.shown["user_group_ids"])


class NotifyRules:
    """All notification rules, as of now in every process; secrets are decrypted and conditions compiled once."""

    def __init__(
        self,
        database: Database,
        snapshots: Snapshots,
        vault: Vault,
        directory: Directory,
        channels: Channels,
        clock: Callable[[], float],
    ) -> None:
        self._database = database
        self._snapshots = snapshots
        self._vault = vault
        self._directory = directory
        self._channels = channels
        self._clock = clock
        self._snapshot = snapshots.make("notify_rules", (PART,), self._load)
        self._told: set[tuple[int, str]] = set()

    def all(self) -> Mapping[int, Rule]:
        """Return every rule by id, sorted by name."""
        return self._snapshot.get()

    def names(self, ids: Iterable[int]) -> list[Json]:
        """Return ``{"id", "name"}`` of the rules with these ids; unknown ones are left out."""
        known = self.all()
        return [{"id": rule_id, "name": known[rule_id].name} for rule_id in ids if rule_id in known]

    def visible(self, caller: Caller) -> list[Json]:
        """Return the rules of the caller's teams, all for Admin, with names of what they refer to."""
        found = (rule for rule in self.all().values() if caller.is_admin or self._shares(rule.teams, caller))
        nickname = self._directory.nickname
        return [{**self._filled(rule), "update_by_nickname": nickname(rule.shown["update_by"])} for rule in found]

    def readable(self, rule_id: int, caller: Caller) -> Json:
        """Return one rule of the caller's teams, with names of what it refers to."""
        rule = self.find(rule_id)
        self._require_team(rule.teams, caller)
        return self._filled(rule)

    def find(self, rule_id: int) -> Rule:
        """Return one rule; raise ``not_found``."""
        rule = self.all().get(rule_id)
        if rule is None:
            raise not_found("notify rule not found")
        return rule

    def create(self, given: Sequence[Mapping[str, Any]], caller: Caller) -> list[Json]:
        """Store rules, all or none, and return them."""
        if not given:
            raise invalid("input json is empty")
        for item in given:
            verify(item)
            self._require_team(item["user_group_ids"], caller)
        now = int(self._clock())
        stamps = {"create_at": now, "create_by": caller.username, "update_at": now, "update_by": caller.username}
        with self._database.atomic():
            ids = [int(NotifyRuleRow.insert(**self._row(item), **stamps).execute()) for item in given]
            self._snapshots.bump(PART)
        known = self.all()
        return [known[rule_id].shown for rule_id in ids if rule_id in known]

    def update(self, rule_id: int, given: Mapping[str, Any], caller: Caller) -> None:
        """Replace a rule but for who made it; an absent ``extra_config`` keeps the stored one."""
        rule = self.find(rule_id)
        self._require_team(rule.teams, caller)
        verify(given)
        row = self._row(given)
        if given["extra_config"] is None:
            del row["extra_config"]
        stamps = {"update_at": int(self._clock()), "update_by": caller.username}
        with self._database.atomic():
            NotifyRuleRow.update(**row, **stamps).where(NotifyRuleRow.id == rule_id).execute()
            self._snapshots.bump(PART)

    def delete(self, ids: Iterable[int], caller: Caller) -> None:
        """Delete rules; unknown ids are fine."""
        wanted, known = list(ids), self.all()
        if not wanted:
            raise invalid("ids empty")
        for rule_id in wanted:
            if rule_id in known:
                self._require_team(known[rule_id].teams, caller)
        with self._database.atomic():
            NotifyRuleRow.delete().where(NotifyRuleRow.id.in_(wanted)).execute()
            self._snapshots.bump(PART)

    def using_channels(self, ids: Iterable[int]) -> list[int]:
        """Return the ids of the rules that send through one of these channels."""
        return self._using("channel_id", ids)

    def using_templates(self, ids: Iterable[int]) -> list[int]:
        """Return the ids of the rules that use one of these message templates."""
        return self._using("template_id", ids)

    def custom_params(self, channel_id: int, caller: Caller) -> list[list[Json]]:
        """Return the sets of parameters that rules of the caller's teams use with a channel, each set once."""
        channel = self._channels.all().get(channel_id)
        if channel is None:
            return []
        names = {param["key"]: param["cname"] for param in channel.declared}
        sets: dict[str, list[Json]] = {}
        for rule in self.all().values():
            if not self._shares(rule.teams, caller):
                continue
            for route in rule.routes:
                if route.channel_id == channel_id:
                    found = [
                        {"name": key, "cname": names[key], "value": plain_text(value)}
                        for key, value in route.params.items()
                        if key in names
                    ]
                    sets.setdefault(plain_text(dict(route.params)), found)
        return list(sets.values())

    def _using(self, member: str, ids: Iterable[int]) -> list[int]:
        wanted = set(ids)
        return sorted(rule.id for rule in self.all().values() if any(getattr(r, member) in wanted for r in rule.routes))

    def _shares(self, teams: Iterable[int], caller: Caller) -> bool:
        return bool(self._directory.team_ids(caller) & set(teams))

    def _require_team(self, teams: Iterable[int], caller: Caller) -> None:
        if not caller.is_admin and not self._shares(teams, caller):
            raise forbidden()

    def _filled(self, rule: Rule) -> Json:
        state, channels = self._directory.state(), self._channels.all()
        configs = []
        for config in rule.shown["notify_configs"]:
            channel = channels.get(config["channel_id"])
            users = [state.users[u] for u in _ids(config["params"], "user_ids") if u in state.users]
            teams = [state.teams[t].name for t in _ids(config["params"], "user_group_ids") if t in state.teams]
            names = {
                "channel_ident": channel.ident if channel else "",
                "user_names": [user.nickname or user.username for user in users],
                "user_group_names": teams,
            }
            configs.append({**config, **{name: value for name, value in names.items() if value}})
        return {**rule.shown, "notify_configs": configs}

    def _row(self, given: Mapping[str, Any]) -> Json:
        extra = given["extra_config"]
        return {
            "name": given["name"].strip(),
            "description": given["description"],
            "enable": given["enable"],
            "user_group_ids": orjson.dumps(given["user_group_ids"]).decode(),
            "pipeline_configs": orjson.dumps(given["pipeline_configs"]).decode(),
            "notify_configs": self._vault.encrypt(orjson.dumps(given["notify_configs"]).decode()),
            "extra_config": "" if extra is None else self._vault.encrypt(orjson.dumps(extra).decode()),
        }

    def _load(self) -> dict[int, Rule]:
        rows = NotifyRuleRow.select().order_by(NotifyRuleRow.name, NotifyRuleRow.id)
        return {row.id: self._loaded(row.as_dict()) for row in rows}

    def _loaded(self, row: Json) -> Rule:
        try:
            configs = orjson.loads(self._vault.decrypt(row["notify_configs"]) or "[]")
            extra = orjson.loads(self._vault.decrypt(row["extra_config"]) or "null")
        except VaultError as error:
            log.error("notify rule %s: %s; it sends nothing", row["name"], error)
            configs, extra = [], None
        lists = {name: orjson.loads(row[name]) for name in ("user_group_ids", "pipeline_configs")}
        shown = {**row, **lists, "notify_configs": configs, "extra_config": extra}
        if extra is None:
            del shown["extra_config"]
        return Rule(shown, tuple(self._route(config, row) for config in configs))

    def _route(self, config: Mapping[str, Any], row: Json) -> Route:
        try:
            conditions = compile_conditions(config)
        except FilterError as error:
            conditions = None
            if (row["id"], str(error)) not in self._told:
                self._told.add((row["id"], str(error)))
                log.warning("notify rule %s: a route matches nothing: %s", row["name"], error)
        return Route(config["channel_id"], config["template_id"], config["params"], conditions)


def _ids(params: Mapping[str, Any], name: str) -> list[int]:
    value = params.get(name)
    return [item for item in value if type(item) is int] if isinstance(value, list) else []


def verify(given: Mapping[str, Any]) -> None:
    """Raise ``invalid`` for a rule that cannot work."""
    if not given["name"].strip():
        raise invalid("name cannot be empty")
    for config in given["notify_configs"]:
        verify_route(config)


def verify_route(config: Mapping[str, Any]) -> None:
    """Raise ``invalid`` for a route that cannot work; conditions on fields are taken as they are."""
    if config["channel_id"] <= 0:
        raise invalid("invalid channel id")
    if not set(config["severities"]) <= {1, 2, 3}:
        raise invalid(f"invalid severity level: got {config['severities']}, expected 1, 2 or 3")
    verify_params(config["params"])
    try:
        for item in config["time_ranges"]:
            compile_range(item)
        for item in config["label_keys"]:
            compile_filter(item)
    except FilterError as error:
        raise invalid(str(error)) from None


def verify_params(params: Mapping[str, Any]) -> None:
    """Raise ``invalid`` for recipients that are no lists of ids."""
    for name in RECIPIENTS:
        value = params.get(name)
        if value is not None and not (isinstance(value, list) and all(type(item) is int for item in value)):
            raise invalid(f"params.{name}: got {plain_text(value)}, expected a list of ids")
