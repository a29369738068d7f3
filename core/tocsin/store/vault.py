"""Encryption of secrets at rest."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from tocsin.app.settings import SettingsError

MARK = "enc:v1:"
"""Prefix of an encrypted text; what lacks it was stored before encryption and is returned as it is."""


class VaultError(Exception):
    """A stored secret that this installation's key does not open."""


class Vault:
    """Encrypts and decrypts texts with the installation's key (AES-128-CBC with HMAC-SHA256, Fernet's format)."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)

    @classmethod
    def open(cls, configured: str, file: Path) -> Vault:
        """Use the configured key, else the one in ``file``, which is made with mode 0600 when it does not exist."""
        if configured:
            try:
                return cls(configured.encode())
            except ValueError:
                raise SettingsError("Secrets.Key: got ***, expected 32 bytes in URL-safe base64") from None
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            return cls(file.read_bytes().strip())
        except FileNotFoundError:
            return cls(_make_key(file))
        except ValueError:
            raise SettingsError(f"{file}: expected 32 bytes in URL-safe base64") from None

    def encrypt(self, plain: str) -> str:
        """Return ``plain`` encrypted; an empty text stays empty."""
        return MARK + self._fernet.encrypt(plain.encode()).decode() if plain else ""

    def decrypt(self, stored: str) -> str:
        """Return the text that :meth:`encrypt` got; raise :class:`VaultError` when the key does not fit."""
        if not stored.startswith(MARK):
            return stored
        try:
            return self._fernet.decrypt(stored[len(MARK) :]).decode()
        except InvalidToken:
            raise VaultError("a stored secret cannot be decrypted with this installation's key") from None


def _make_key(file: Path) -> bytes:
    """Create the key file atomically; when two processes race, both use the one that was linked first."""
    key = base64.urlsafe_b64encode(os.urandom(32))
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as handle:
        handle.write(key + b"\n")
        handle.flush()
        os.fsync(handle.fileno())
    try:
        os.link(temporary, file)
    except FileExistsError:
        return file.read_bytes().strip()
    finally:
        temporary.unlink()
    return key
