"""Addresses: under which one this service is reached, which one a host is to report to, which ones mean the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

LONGEST_HOST = 263
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-]{0,252}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
PATH = re.compile(r"(/[A-Za-z0-9._\-]+)*")
PORTS = {"http": 80, "https": 443}
LOCAL = {"localhost": "127.0.0.1", "::1": "127.0.0.1"}


def is_host(text: str) -> bool:
    """Return whether a text is a host name or address, with or without a port, and nothing else."""
    return len(text) <= LONGEST_HOST and HOST.fullmatch(text) is not None


def normal_address(text: str) -> str:
    """Return an address as scheme, host and plain path; raise ``ValueError`` for anything that is none.

    What comes out holds no character that means something to a shell.
    """
    address = text.strip()
    if "://" not in address:
        address = "http://" + address
    parts = urlsplit(address)
    path = parts.path.rstrip("/")
    if parts.scheme not in PORTS or not is_host(parts.netloc) or not PATH.fullmatch(path):
        raise ValueError("expected an address like https://host:port")
    return f"{parts.scheme}://{parts.netloc}{path}"


def own_address(scheme: str, forwarded_scheme: str, forwarded_host: str, host: str, site_url: str) -> str:
    """Return the address under which a request reached this service, empty when nothing says so.

    :param scheme: of the connection itself.
    :param forwarded_scheme: what a front proxy says, as is ``forwarded_host``.
    :param host: the ``Host`` header.
    :param site_url: the address that the site settings name, used when no header does.
    """
    chosen = forwarded_scheme if forwarded_scheme in PORTS else scheme
    for name in (forwarded_host.partition(",")[0].strip(), host):
        if is_host(name):
            return f"{chosen}://{name}"
    try:
        return normal_address(site_url) if site_url.strip() else ""
    except ValueError:
        return ""


def comparable(url: str) -> str:
    """Return an address in the one form in which equal ones are equal, empty for what is no http address."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return ""
    scheme = parts.scheme.lower()
    if scheme not in PORTS or not parts.hostname:
        return ""
    host = LOCAL.get(parts.hostname, parts.hostname)
    return f"{scheme}://{host}:{port or PORTS[scheme]}{parts.path.rstrip('/')}"


def is_written_by(base_urls: Iterable[str], written: Iterable[str]) -> bool:
    """Return whether one of the written addresses lies at or below one of the base addresses."""
    bases = {found for url in base_urls if (found := comparable(url))}
    targets = {found for url in written if (found := comparable(url))}
    return any(target == base or target.startswith(base + "/") for target in targets for base in bases)
