"""Settings of the access capability."""

from __future__ import annotations

from tocsin.plugin import at_least, key, section


@section("Access")
class AccessSettings:
    """Passwords and personal tokens."""

    password_min_length: int = key("PasswordMinLength", 8, "fewest characters of a new password", check=at_least(1))


@section("Root")
class RootSettings:
    """The first administrator, `root`; read only at the first start of an installation."""

    password: str = key(
        "Password", "", "its password, usually given as `TOCSIN_ROOT_PASSWORD`; empty makes a random one", secret=True
    )
