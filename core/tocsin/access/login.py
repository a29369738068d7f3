"""Logging in with user name and password."""

from __future__ import annotations

import hashlib
import logging

import peewee

from tocsin.access.configs import Configs
from tocsin.access.directory import Directory, KnownUser
from tocsin.access.models import User
from tocsin.access.passwords import Passwords
from tocsin.access.refusals import refused
from tocsin.http.metrics import Metrics
from tocsin.store.cache import Cache

log = logging.getLogger(__name__)
LIMIT_KEY = "login_fail_count"


class Login:
    """Checks passwords and counts failures; the setting ``login_fail_count`` (``"<seconds> <count>"``) bounds them."""

    def __init__(
        self, directory: Directory, passwords: Passwords, configs: Configs, cache: Cache, metrics: Metrics
    ) -> None:
        self._directory = directory
        self._passwords = passwords
        self._configs = configs
        self._cache = cache
        self._results = metrics.counter("svc_center_login_total", "Password logins by result.", ("result",))
        for result in ("success", "failure", "limited"):
            self._results.labels(result)

    def check(self, username: str, password: str) -> KnownUser:
        """Return the user these credentials belong to; raise ``unauthorized`` or ``limit`` otherwise."""
        seconds, count = self._limit()
        counter = "/login_fail/" + hashlib.sha256(username.encode()).hexdigest()
        if count and int(self._cache.get(counter) or 0) >= count:
            self._results.labels("limited").inc()
            raise refused("reach login fail count", "limit")
        user = self._directory.state().users_by_name.get(username)
        stored = _stored_hash(user.id) if user else ""
        if self._passwords.verify(stored, password) and user:
            self._results.labels("success").inc()
            self._renew_hash(user, stored, password)
            return user
        self._results.labels("failure").inc()
        if count:
            self._cache.increment(counter, seconds)
        raise refused("Username or password invalid", "unauthorized")

    def _limit(self) -> tuple[int, int]:
        """Return ``(seconds, count)``; a count of 0 means no limit."""
        words = self._configs.get(LIMIT_KEY).split()
        if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
            return 0, 0
        return int(words[0]), int(words[1])

    def _renew_hash(self, user: KnownUser, stored: str, password: str) -> None:
        """Replace a hash made with older parameters while the password is at hand; a failure can wait for next time."""
        if not self._passwords.outdated(stored):
            return
        try:
            fresh = self._passwords.hash(password)
            User.update(password=fresh).where((User.id == user.id) & (User.password == stored)).execute()
        except peewee.DatabaseError:
            log.warning("the password hash of user %d could not be renewed", user.id, exc_info=True)


def _stored_hash(user_id: int) -> str:
    row = User.select(User.password).where(User.id == user_id).tuples().first()
    return str(row[0]) if row else ""
