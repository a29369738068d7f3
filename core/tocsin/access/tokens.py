"""Personal tokens: credentials that act as their owner until they are deleted."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import peewee

from tocsin.access.directory import TOKENS
from tocsin.access.keys import Keys
from tocsin.access.models import UserToken
from tocsin.access.refusals import taken
from tocsin.plugin import invalid, not_found
from tocsin.store.database import Database
from tocsin.store.snapshots import Snapshots
from tocsin.store.vault import Vault

NAME_LENGTH = 255


class Tokens:
    """Makes, lists, reveals and deletes personal tokens; a token is looked up through the directory."""

    def __init__(
        self, database: Database, snapshots: Snapshots, vault: Vault, keys: Keys, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._snapshots = snapshots
        self._vault = vault
        self._keys = keys
        self._clock = clock

    def create(self, username: str, name: str) -> dict[str, Any]:
        """Make a token for a user and return it with its value in clear."""
        name = name.strip()
        if not name:
            raise invalid("token_name: got an empty text, expected a name")
        if len(name) > NAME_LENGTH:
            raise invalid(f"token_name: got {len(name)} characters, expected at most {NAME_LENGTH}")
        value = str(uuid.uuid4())
        try:
            with self._database.atomic():
                row = UserToken.create(
                    username=username,
                    token_name=name,
                    token_hash=self._keys.token_hash(value),
                    token=self._vault.encrypt(value),
                    create_at=int(self._clock()),
                )
                self._snapshots.bump(TOKENS)
        except peewee.IntegrityError:
            raise taken("token name already exists") from None
        return _json(row, value)

    def of_user(self, username: str) -> list[dict[str, Any]]:
        """Return a user's tokens, oldest first, with masked values."""
        rows = UserToken.select().where(UserToken.username == username).order_by(UserToken.id)
        return [_json(row, masked(self._vault.decrypt(row.token))) for row in rows]

    def reveal(self, username: str, token_id: int) -> dict[str, Any]:
        """Return one of a user's own tokens with its value in clear."""
        row = UserToken.get_or_none((UserToken.id == token_id) & (UserToken.username == username))
        if row is None:
            raise not_found("No such token")
        return _json(row, self._vault.decrypt(row.token))

    def first_of(self, username: str, name: str) -> dict[str, Any]:
        """Return a user's oldest token in clear; without any, one called ``name`` is made."""
        row = UserToken.select().where(UserToken.username == username).order_by(UserToken.id).first()
        return _json(row, self._vault.decrypt(row.token)) if row else self.create(username, name)

    def delete(self, username: str, token_id: int) -> None:
        """Delete one of a user's own tokens; it stops working with the next request."""
        with self._database.atomic():
            own = (UserToken.id == token_id) & (UserToken.username == username)
            if not UserToken.delete().where(own).execute():
                raise not_found("No such token")
            self._snapshots.bump(TOKENS)


def masked(value: str) -> str:
    """Return a token value that can be recognised but not used."""
    return f"{value[:4]}****{value[-4:]}"


def _json(row: UserToken, value: str) -> dict[str, Any]:
    return {
        "id": row.id,
        "username": row.username,
        "token_name": row.token_name,
        "token": value,
        "create_at": row.create_at,
        "last_used": row.last_used,
    }
