"""The rows an installation starts with, and its first administrator."""

from __future__ import annotations

import logging
import socket
import threading
from typing import TYPE_CHECKING

from tocsin.access.configs import Configs, Site
from tocsin.access.directory import GROUPS, ROLES, TEAMS, TOKENS, USERS
from tocsin.access.keys import JWT_KEY, Keys
from tocsin.access.models import BusiGroup, BusiGroupMember, Role, RoleOperation, Team, TeamMember, User
from tocsin.access.passwords import Passwords, random_password
from tocsin.access.points import ADMIN, BUILT_IN_ROLES
from tocsin.access.settings import RootSettings
from tocsin.app.settings import SettingsError
from tocsin.store.migrations import migration_lock
from tocsin.store.vault import VaultError

if TYPE_CHECKING:
    from tocsin.app.core import Core

log = logging.getLogger(__name__)
INSTALLED = "installed_at"
"""Setting that says when the rows were written; it keeps deleted rows from coming back at the next start."""


class FirstLogin:
    """The password that was made for ``root``, known only to the process that made it, to be shown once."""

    def __init__(self) -> None:
        self._login: tuple[str, str] | None = None
        self._lock = threading.Lock()

    def put(self, username: str, password: str) -> None:
        """Keep a user name and its new password until they are shown."""
        self._login = (username, password)

    def take(self) -> tuple[str, str] | None:
        """Return ``(user name, password)`` the first time, ``None`` afterwards and where nothing was made."""
        with self._lock:
            login, self._login = self._login, None
            return login


def seed(core: Core) -> None:
    """Write the first rows once per installation, and what may have been lost since; one process at a time."""
    configs, keys = core.get(Configs), core.get(Keys)
    with migration_lock(core.db, core.data_directory / "migration.lock"):
        if not configs.get(INSTALLED):
            _install(core)
        keys.warm()
        core.get(Site).seed_url(f"{_scheme(core)}://{_own_address(core.http.host)}:{core.http.port}")


def installed(core: Core) -> bool:
    """Return whether a center has set up this database."""
    return bool(core.get(Configs).get(INSTALLED))


def join(core: Core) -> None:
    """Check the database of a process beside the center; raise ``SettingsError`` when its secrets cannot be read."""
    if not installed(core):
        log.warning("no center has set up this database: there are no rules, datasources or hosts in it")
        return
    if core.process == "pushgw":
        return  # it reads no secrets, and need not be trusted with them
    try:
        core.get(Configs).get(JWT_KEY)
    except VaultError:
        raise SettingsError(
            f"Secrets.Key: got a key other than the center's of this database, expected the same one "
            f"(or the same {core.data_directory / 'secret.key'})"
        ) from None


def _install(core: Core) -> None:
    given = core.settings[RootSettings].password
    passwords = core.get(Passwords)
    if given and len(given) < passwords.min_length:
        raise SettingsError(f"Root.Password: got ***, expected at least {passwords.min_length} characters")
    password = given or random_password()
    hashed, now = passwords.hash(password), int(core.clock())
    with core.db.atomic():
        core.snapshots.bump(USERS, TEAMS, ROLES, GROUPS, TOKENS)
        made = _add_root(hashed, now)
        _add_roles()
        core.get(Configs).set(INSTALLED, str(now), "system")
    if made and not given:
        core.get(FirstLogin).put("root", password)


def _add_root(hashed: str, now: int) -> bool:
    """Make the first administrator with a team and a business group; return whether there was none."""
    if User.select().exists():
        return False
    by_system = {"create_at": now, "create_by": "system", "update_at": now, "update_by": "system"}
    by_root = {"create_at": now, "create_by": "root", "update_at": now, "update_by": "root"}
    root = User.create(username="root", nickname="Admin", roles=ADMIN, password=hashed, **by_system)
    team = Team.create(name="demo-root-group", **by_root)
    TeamMember.create(group_id=team.id, user_id=root.id)
    group = BusiGroup.create(name="Default Busi Group", **by_root)
    BusiGroupMember.create(busi_group_id=group.id, user_group_id=team.id, perm_flag="rw")
    return True


def _add_roles() -> None:
    for name, note, points in BUILT_IN_ROLES:
        if Role.select().where(Role.name == name).exists():
            continue
        Role.create(name=name, note=note)
        for point in sorted(points):
            RoleOperation.create(role_name=name, operation=point)


def _scheme(core: Core) -> str:
    return "https" if core.http.cert_file and core.http.key_file else "http"


def _own_address(host: str) -> str:
    """Return the address under which others reach this machine; a datagram socket tells it without sending."""
    if host not in ("", "0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
