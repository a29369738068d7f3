"""The installation's own keys: made once, kept encrypted among the settings, never shown."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from functools import cached_property

from tocsin.access.configs import Configs

JWT_KEY = "jwt_signing_key"
TOKEN_KEY = "token_hash_key"  # noqa: S105 - the name of a setting


class Keys:
    """Keys of sessions and personal tokens, the same in every process of the installation."""

    def __init__(self, configs: Configs) -> None:
        self._configs = configs

    @cached_property
    def jwt(self) -> str:
        """Key that signs session tokens."""
        return self._configs.set_once(JWT_KEY, secrets.token_hex(32), encrypted=True)

    def token_hash(self, token: str) -> str:
        """Return the text under which a personal token is found; useless to who steals the table without the key."""
        return hmac.new(self._token_key, token.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()

    @cached_property
    def _token_key(self) -> bytes:
        return self._configs.set_once(TOKEN_KEY, secrets.token_hex(32), encrypted=True).encode()

    def warm(self) -> None:
        """Make the keys that are missing."""
        _ = self.jwt, self._token_key
