"""Bodies of the access endpoints; keys that are not named here are ignored."""

from __future__ import annotations

from typing import Any

from marshmallow import fields, validate

from tocsin.http.schemas import Loose, Whole, ids, text


def needed() -> fields.String:
    """Return a text that must be there and not be empty."""
    return fields.String(required=True, validate=validate.Length(min=1, error="required"))


def at_most(length: int) -> validate.Length:
    """Return a check of a text's length, in characters."""
    return validate.Length(max=length, error="expected at most {max} characters")


def contacts(**more: Any) -> fields.Dict:
    """Return contact values by key."""
    return fields.Dict(keys=fields.String(), values=fields.String(), **more)


class LoginBody(Loose):
    """User name and password."""

    username = needed()
    password = needed()


class RefreshBody(Loose):
    """A refresh token."""

    refresh_token = needed()


class SelfProfileBody(Loose):
    """What people may change about themselves."""

    nickname = text()
    phone = text()
    email = text()
    portrait = text()
    contacts = contacts(load_default=dict)


class ProfileBody(Loose):
    """What an administrator may change about a user."""

    nickname = text()
    phone = text()
    email = text()
    contacts = contacts(load_default=dict)
    roles = fields.List(fields.String(), required=True)


class UserBody(SelfProfileBody):
    """A new user."""

    username = needed()
    password = needed()
    roles = fields.List(fields.String(), required=True)


class UserChangeBody(Loose):
    """The fields of a user that a service changes; those it leaves out stay."""

    nickname = fields.String()
    phone = fields.String()
    email = fields.String()
    portrait = fields.String()
    contacts = contacts()
    roles = fields.List(fields.String())


class PasswordBody(Loose):
    """A new password."""

    password = needed()


class OwnPasswordBody(Loose):
    """The old and the new password of the caller."""

    oldpass = needed()
    newpass = needed()


class TokenBody(Loose):
    """A new personal token."""

    token_name = needed()


class UserTokenBody(Loose):
    """Whose token a service asks for."""

    username = text()
    raw_token = text()


class RoleBody(Loose):
    """A new role."""

    name = needed()
    note = text()


class RoleChangeBody(RoleBody):
    """A changed role."""

    id = Whole(required=True)


class TeamBody(Loose):
    """A team."""

    name = needed()
    note = text()


class IdsBody(Loose):
    """Ids of objects."""

    ids = ids()


PERM_FLAG = validate.OneOf(("ro", "rw"), error="got {input!r}, expected 'ro' or 'rw'")


class GroupTeamBody(Loose):
    """A team to bind to a new business group."""

    user_group_id = Whole(required=True)
    perm_flag = fields.String(required=True, validate=PERM_FLAG)


class GroupMemberBody(GroupTeamBody):
    """A team to bind to a business group that exists."""

    busi_group_id = Whole(required=True)


class GroupUnbindBody(Loose):
    """A team to take off a business group."""

    busi_group_id = Whole(required=True)
    user_group_id = Whole(required=True)


class GroupBody(Loose):
    """A business group."""

    name = needed()
    label_enable = Whole(load_default=0, validate=validate.OneOf((0, 1), error="got {input}, expected 0 or 1"))
    label_value = text()


class NewGroupBody(GroupBody):
    """A new business group with its teams."""

    members = fields.List(fields.Nested(GroupTeamBody), load_default=list)


class ConfigBody(Loose):
    """A setting."""

    ckey = fields.String(required=True, validate=(validate.Length(min=1, error="required"), at_most(191)))
    cval = text()


class ConfigRowBody(ConfigBody):
    """A new row of the settings."""

    note = fields.String(load_default="", validate=at_most(1024))
    external = Whole(load_default=0, validate=validate.OneOf((0, 1), error="got {input}, expected 0 or 1"))


class ConfigChangeBody(Loose):
    """A changed row of the settings; empty fields stay."""

    id = Whole(required=True)
    ckey = fields.String(validate=at_most(191))
    cval = fields.String()
    note = fields.String(validate=at_most(1024))
