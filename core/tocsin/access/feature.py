"""The access capability as a feature of core."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tocsin.access.activity import Activity
from tocsin.access.configs import Configs, Site
from tocsin.access.directory import Directory
from tocsin.access.gatekeeper import AccessGatekeeper
from tocsin.access.groups import Groups
from tocsin.access.keys import Keys
from tocsin.access.login import Login
from tocsin.access.models import TABLES, BusiGroup, Config, Team, User
from tocsin.access.neighbours import GroupHooks
from tocsin.access.passwords import Passwords
from tocsin.access.place_routes import place_routes
from tocsin.access.roles import Roles
from tocsin.access.routes import page_routes
from tocsin.access.seeds import FirstLogin, join, seed
from tocsin.access.service_routes import service_routes
from tocsin.access.sessions import Sessions
from tocsin.access.settings import AccessSettings, RootSettings
from tocsin.access.statistics import Statistics
from tocsin.access.teams import Teams
from tocsin.access.tokens import Tokens
from tocsin.access.users import Users
from tocsin.http.access import Gatekeeper
from tocsin.plugin import Feature, People, Route, create

if TYPE_CHECKING:
    from tocsin.app.core import Core

log = logging.getLogger(__name__)


class AccessFeature(Feature):
    """Users, teams, roles, business groups, sessions, personal tokens and settings."""

    name = "access"
    processes = frozenset(("center", "alert", "pushgw"))
    settings = (AccessSettings, RootSettings)
    tables = TABLES
    migrations = (create(*TABLES),)

    def setup(self, core: Core) -> None:
        """Build the services and offer them."""
        db, snapshots, clock = core.db, core.snapshots, core.clock
        configs = Configs(db, snapshots, core.vault, clock)
        directory, keys, site = Directory(snapshots), Keys(configs), Site(configs)
        passwords = Passwords(core.settings[AccessSettings].password_min_length)
        users = Users(db, snapshots, directory, passwords, clock)
        sessions = Sessions(core.http.jwt_auth, core.cache, keys, directory)
        hooks, statistics = GroupHooks(), _statistics()
        gatekeeper = AccessGatekeeper(
            core.http, directory, sessions, keys, users, Activity(clock, core.metrics), core.metrics
        )
        core.provide(gatekeeper)
        core.provide(gatekeeper, Gatekeeper)
        core.provide(directory, People)
        for service in (configs, directory, keys, site, passwords, users, sessions, hooks, statistics, FirstLogin()):
            core.provide(service)
        core.provide(Login(directory, passwords, configs, core.cache, core.metrics))
        core.provide(Tokens(db, snapshots, core.vault, keys, clock))
        core.provide(Teams(db, snapshots, directory, clock))
        core.provide(Groups(db, snapshots, directory, hooks, clock))
        core.provide(Roles(db, snapshots, directory))
        core.access_log_enabled = _access_log(core, site)

    def routes(self, core: Core) -> Iterable[Route]:
        """Return the page API, and the service API when it is switched on; other processes serve neither."""
        if core.process != "center":
            return
        yield from page_routes()
        yield from place_routes()
        if core.http.api_for_service.enable:
            yield from service_routes()

    def seed(self, core: Core) -> None:
        """Write the first rows."""
        seed(core)

    def join(self, core: Core) -> None:
        """Make sure that a center keeps this database and that its secrets can be read here."""
        join(core)

    def greeting(self, core: Core) -> Sequence[str]:
        """Return the first login, in the process that made it and once."""
        login = core.get(FirstLogin).take()
        return [f"First login: user {login[0]}, password {login[1]} (shown only now)"] if login else []

    def start(self, core: Core, role: str) -> None:
        """Say what the configuration makes unreachable."""
        if role == "http" and core.http.api_for_service.enable and not core.http.api_for_service.basic_auth:
            log.warning("the service API refuses every caller: HTTP.APIForService.BasicAuth has no account")


def _statistics() -> Statistics:
    statistics = Statistics()
    statistics.add("user", User)
    statistics.add("user_group", Team)
    statistics.add("busi_group", BusiGroup)
    statistics.add("cval", Config, Config.external == 0)
    statistics.add("user_variable", Config, Config.external == 1)
    return statistics


def _access_log(core: Core, site: Site) -> Callable[[], bool]:
    """Return whether requests are logged: as configured, or as the site information says."""

    def enabled() -> bool:
        if core.http.access_log:
            return True
        try:
            return site.info().print_access_log
        finally:
            core.release()  # asked after the request has given back its connection

    return enabled


FEATURE = AccessFeature()
