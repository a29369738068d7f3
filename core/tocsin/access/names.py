"""What texts that people give to objects may look like."""

from __future__ import annotations

import re
import unicodedata

from tocsin.access.refusals import refused

_DANGEROUS = ("<", ">", "&", "'", '"', "://", "../")
_PHONE = re.compile(r"\d{11}|\+\d{13}", re.ASCII)
_EMAIL = re.compile(r"\w[-._\w]*@\w[-._\w]*\.\w+")


def check_characters(field: str, value: str) -> str:
    """Return ``value`` unless it has characters that could be mistaken for markup or a path."""
    if any(mark in value for mark in _DANGEROUS):
        raise refused(f"{field} has invalid characters")
    return value


def check_length(field: str, value: str, limit: int) -> str:
    """Return ``value`` unless it is longer than its column."""
    if len(value) > limit:
        raise refused(f"{field}: got {len(value)} characters, expected at most {limit}")
    return value


def check_name(field: str, value: str, limit: int) -> str:
    """Return a trimmed name that is neither empty, too long nor has forbidden characters."""
    value = value.strip()
    if not value:
        raise refused(f"{field} is blank")
    if any(unicodedata.category(c) == "Cc" for c in value):
        raise refused(f"{field} has invalid characters")
    return check_characters(field, check_length(field, value, limit))


def check_role(value: str) -> str:
    """Return a role name; users' roles are stored joined by spaces, so it has none."""
    value = check_name("Role name", value, 191)
    if any(character.isspace() for character in value):
        raise refused(f"Role name: got {value!r}, expected a name without spaces")
    return value


def check_phone(value: str) -> str:
    """Return a phone number: empty, 11 digits, or ``+`` and 13 digits."""
    if value and not _PHONE.fullmatch(value):
        raise refused("Phone invalid")
    return value


def check_email(value: str) -> str:
    """Return an e-mail address or an empty text."""
    if value and not _EMAIL.search(value):
        raise refused("Email invalid")
    return check_length("Email", value, 64)


def visible(value: str) -> str:
    """Return ``value`` without characters that cannot be seen (controls, zero-width marks)."""
    return "".join(c for c in value if unicodedata.category(c) not in ("Cc", "Cf"))
