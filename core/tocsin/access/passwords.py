"""Password hashing and the policy for new passwords."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from tocsin.plugin import ApiError, invalid

MAX_BYTES = 1024
"""Longest password taken, so that a request cannot buy hashing time with its size."""


class Passwords:
    """Argon2id with 19 MiB and two passes (OWASP's first choice), a few at a time so that memory stays bounded."""

    PARALLEL = 4
    WAIT_SECONDS = 5.0

    def __init__(self, min_length: int) -> None:
        self.min_length = min_length
        self.hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
        """What hashes and checks; another one counts from the next password on."""
        self._slots = threading.BoundedSemaphore(self.PARALLEL)
        self._nobody = ""
        self._lock = threading.Lock()

    def checked(self, password: str, field: str = "password") -> str:
        """Return a new password that satisfies the policy; raise ``invalid`` naming ``field`` otherwise."""
        if len(password) < self.min_length:
            raise invalid(f"{field}: got {len(password)} characters, expected at least {self.min_length}")
        if len(password.encode()) > MAX_BYTES:
            raise invalid(f"{field}: got {len(password.encode())} bytes, expected at most {MAX_BYTES}")
        return password

    def hash(self, password: str) -> str:
        """Return the stored form of a password."""
        with self._slot():
            return self.hasher.hash(password)

    def verify(self, stored: str, password: str) -> bool:
        """Return whether a password is the stored one.

        Without a stored hash (an unknown user, or one without a local password) the same work is done in vain, so that
        the time of the answer tells nothing.
        """
        if len(password.encode()) > MAX_BYTES:
            return False
        wanted = stored or self._nobodys_hash()
        with self._slot():
            try:
                return self.hasher.verify(wanted, password) and bool(stored)
            except (VerificationError, InvalidHashError):
                return False

    def outdated(self, stored: str) -> bool:
        """Return whether a stored hash was made with other parameters than today's."""
        return self.hasher.check_needs_rehash(stored)

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Hold one of the places for hashing; a flood of logins must not keep every thread of the server waiting."""
        if not self._slots.acquire(timeout=self.WAIT_SECONDS):
            raise ApiError("too many password checks at once, try again later", "limit")
        try:
            yield
        finally:
            self._slots.release()

    def _nobodys_hash(self) -> str:
        with self._lock:
            if not self._nobody:
                self._nobody = self.hash(secrets.token_hex(16))
            return self._nobody


def random_password() -> str:
    """Return a password for a first login: 16 characters, 96 bits."""
    return secrets.token_urlsafe(12)
