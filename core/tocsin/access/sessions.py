"""Sessions of people who logged in: a pair of signed tokens, and a record in the cache while they count."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

import jwt

from tocsin.access.directory import Directory, KnownUser
from tocsin.access.keys import Keys
from tocsin.app.sections import JwtAuth
from tocsin.plugin import unauthorized
from tocsin.store.cache import Cache

ALGORITHM = "HS256"


@dataclass(frozen=True)
class Session:
    """An access token that checked out."""

    access_uuid: str
    user_id: int
    username: str


class Sessions:
    """Opens, checks, renews and ends sessions.

    Records lie in the cache under the settings' prefix: ``<access uuid>`` and ``<refresh uuid>`` hold the identity
    ``<user id>-<user name>``.  With SingleLogin ``user/<user name>`` holds the access uuid of the one session that counts.
    Token lifetimes are wall-clock time.
    """

    def __init__(self, settings: JwtAuth, cache: Cache, keys: Keys, directory: Directory) -> None:
        self._settings = settings
        self._cache = cache
        self._keys = keys
        self._directory = directory
        self._access_seconds = settings.access_expired * 60
        self._refresh_seconds = settings.refresh_expired * 60

    def open(self, user: KnownUser) -> dict[str, str]:
        """Start a session and return ``access_token`` and ``refresh_token``."""
        identity = f"{user.id}-{user.username}"
        access = str(uuid.uuid4())
        refresh = f"{access}++{identity}"
        now = int(time.time())
        if self._settings.single_login:
            self._make_only(user.username, access, identity)
        self._cache.set(self._key(access), identity.encode(), self._access_seconds)
        self._cache.set(self._key(refresh), identity.encode(), self._refresh_seconds)
        claims: dict[str, Any] = {"authorized": True, "access_uuid": access, "exp": now + self._access_seconds}
        renewal = {"refresh_uuid": refresh, "exp": now + self._refresh_seconds}
        return {
            "access_token": self._sign({**claims, "user_identity": identity}),
            "refresh_token": self._sign({**renewal, "user_identity": identity}),
        }

    def check(self, token: str) -> Session | None:
        """Return the session of an access token: signature, expiry and record must hold."""
        uid = self._claim(token, "access_uuid")
        return self._recorded(uid, uid) if uid else None

    def renew(self, token: str) -> dict[str, str]:
        """Exchange a refresh token for a new pair; it works once, and the old access token ends with it."""
        refresh = self._claim(token, "refresh_uuid")
        access = refresh.partition("++")[0]
        session = self._recorded(refresh, access) if refresh else None
        if session is None:
            raise unauthorized("refresh token expired")
        user = self._directory.state().users.get(session.user_id)
        if user is None or user.username != session.username:
            raise unauthorized("user already deleted")
        # Of two requests with the same token the one that removes the record goes on.
        if not self._cache.delete(self._key(refresh)):
            raise unauthorized("refresh token expired")
        self._cache.delete(self._key(access))
        return self.open(user)

    def close(self, session: Session) -> None:
        """End a session."""
        refresh = f"{session.access_uuid}++{session.user_id}-{session.username}"
        self._cache.delete(self._key(session.access_uuid), self._key(refresh))

    def _make_only(self, username: str, access: str, identity: str) -> None:
        marker = self._key(f"user/{username}")
        earlier = (self._cache.get(marker) or b"").decode()
        if earlier:
            self._cache.delete(self._key(earlier), self._key(f"{earlier}++{identity}"))
        self._cache.set(marker, access.encode(), self._refresh_seconds)

    def _recorded(self, record: str, access: str) -> Session | None:
        identity = self._cache.get(self._key(record))
        if identity is None:
            return None
        user_id, _, username = identity.decode().partition("-")
        if self._settings.single_login:
            only = self._cache.get(self._key(f"user/{username}"))
            if only is not None and only != access.encode():
                return None
        return Session(access, int(user_id), username)

    def _claim(self, token: str, name: str) -> str:
        try:
            claims = jwt.decode(token, self._keys.jwt, algorithms=[ALGORITHM], options={"require": ["exp", name]})
        except jwt.InvalidTokenError:
            return ""
        value = claims.get(name)
        return value if isinstance(value, str) else ""

    def _sign(self, claims: dict[str, Any]) -> str:
        return jwt.encode(claims, self._keys.jwt, algorithm=ALGORITHM)

    def _key(self, record: str) -> str:
        return self._settings.key_prefix + record
