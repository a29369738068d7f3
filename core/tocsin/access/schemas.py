"""Bodies of the access endpoints; keys that are not named here are ignored."""

from __future__ import annotations

from typing import Any

from marshmallow import EXCLUDE, Schema, fields, validate


class Text(fields.String):
    """A text that may be left out or null: both mean empty."""

    def __init__(self, **more: Any) -> None:
        super().__init__(load_default="", **more)

    def deserialize(self, value: Any, attr: str | None = None, data: Any = None, **more: Any) -> Any:
        """Return the text; null is empty."""
        return super().deserialize("" if value is None else value, attr, data, **more)


class Object(Schema):
    """Base of all bodies."""

    class Meta:
        unknown = EXCLUDE


def needed() -> fields.String:
    """Return a text that must be there and not be empty."""
    return fields.String(required=True, validate=validate.Length(min=1, error="required"))


def at_most(length: int) -> validate.Length:
    """Return a check of a text's length, in characters."""
    return validate.Length(max=length, error="expected at most {max} characters")


def whole(**more: Any) -> fields.Integer:
    """Return an integer given as a JSON number."""
    return fields.Integer(strict=True, **more)


def ids() -> fields.List[int]:
    """Return a list of object ids."""
    return fields.List(whole(), load_default=list)


def contacts(**more: Any) -> fields.Dict:
    """Return contact values by key."""
    return fields.Dict(keys=fields.String(), values=fields.String(), allow_none=True, **more)


class LoginBody(Object):
    """User name and password."""

    username = needed()
    password = needed()


class RefreshBody(Object):
    """A refresh token."""

    refresh_token = needed()


class SelfProfileBody(Object):
    """What people may change about themselves."""

    nickname = Text()
    phone = Text()
    email = Text()
    portrait = Text()
    contacts = contacts(load_default=dict)


class ProfileBody(Object):
    """What an administrator may change about a user."""

    nickname = Text()
    phone = Text()
    email = Text()
    contacts = contacts(load_default=dict)
    roles = fields.List(fields.String(), required=True)


class UserBody(SelfProfileBody):
    """A new user."""

    username = needed()
    password = needed()
    roles = fields.List(fields.String(), required=True)


class UserChangeBody(Object):
    """The fields of a user that a service changes; those it leaves out stay."""

    nickname = fields.String()
    phone = fields.String()
    email = fields.String()
    portrait = fields.String()
    contacts = contacts()
    roles = fields.List(fields.String())


class PasswordBody(Object):
    """A new password."""

    password = needed()


class OwnPasswordBody(Object):
    """The old and the new password of the caller."""

    oldpass = needed()
    newpass = needed()


class TokenBody(Object):
    """A new personal token."""

    token_name = needed()


class UserTokenBody(Object):
    """Whose token a service asks for."""

    username = Text()
    raw_token = Text()


class RoleBody(Object):
    """A new role."""

    name = needed()
    note = Text()


class RoleChangeBody(RoleBody):
    """A changed role."""

    id = whole(required=True)


class TeamBody(Object):
    """A team."""

    name = needed()
    note = Text()


class IdsBody(Object):
    """Ids of objects."""

    ids = ids()


PERM_FLAG = validate.OneOf(("ro", "rw"), error="got {input!r}, expected 'ro' or 'rw'")


class GroupTeamBody(Object):
    """A team to bind to a new business group."""

    user_group_id = whole(required=True)
    perm_flag = fields.String(required=True, validate=PERM_FLAG)


class GroupMemberBody(GroupTeamBody):
    """A team to bind to a business group that exists."""

    busi_group_id = whole(required=True)


class GroupUnbindBody(Object):
    """A team to take off a business group."""

    busi_group_id = whole(required=True)
    user_group_id = whole(required=True)


class GroupBody(Object):
    """A business group."""

    name = needed()
    label_enable = whole(load_default=0, validate=validate.OneOf((0, 1), error="got {input}, expected 0 or 1"))
    label_value = Text()


class NewGroupBody(GroupBody):
    """A new business group with its teams."""

    members = fields.List(fields.Nested(GroupTeamBody), load_default=list, allow_none=True)


class ConfigBody(Object):
    """A setting."""

    ckey = fields.String(required=True, validate=(validate.Length(min=1, error="required"), at_most(191)))
    cval = Text()


class ConfigRowBody(ConfigBody):
    """A new row of the settings."""

    note = Text(validate=at_most(1024))
    external = whole(load_default=0, validate=validate.OneOf((0, 1), error="got {input}, expected 0 or 1"))


class ConfigChangeBody(Object):
    """A changed row of the settings; empty fields stay."""

    id = whole(required=True)
    ckey = fields.String(validate=at_most(191))
    cval = fields.String()
    note = fields.String(validate=at_most(1024))
