"""Tables of the access capability."""

from __future__ import annotations

from peewee import BigIntegerField, CharField, IntegerField, TextField

from tocsin.plugin import Table


class Stamped(Table):
    """A row that remembers who made and changed it, and when (Unix seconds)."""

    create_at = BigIntegerField(default=0)
    create_by = CharField(64, default="")
    update_at = BigIntegerField(default=0)
    update_by = CharField(64, default="")


class User(Stamped):
    """A person or an automation that can log in.

    ``roles`` are role names joined by spaces, ``contacts`` is a JSON object, ``password`` an argon2 hash or empty for
    users without a local password, ``belong`` the provider that created the user (empty: local).
    """

    username = CharField(64, unique=True)
    nickname = CharField(64, default="")
    password = CharField(255, default="")
    phone = CharField(1024, default="")
    email = CharField(64, default="")
    portrait = CharField(255, default="")
    roles = CharField(255, default="")
    contacts = TextField(default="{}")
    maintainer = IntegerField(default=0)
    belong = CharField(16, default="")
    last_active_time = BigIntegerField(default=0)

    class Meta:
        table_name = "users"


class UserToken(Table):
    """A personal token: found by a keyed hash, shown to its owner from the encrypted text."""

    username = CharField(64)
    token_name = CharField(255)
    token_hash = CharField(64, unique=True)
    token = TextField()
    create_at = BigIntegerField(default=0)
    last_used = BigIntegerField(default=0)

    class Meta:
        table_name = "user_token"
        indexes = ((("username", "token_name"), True),)


class Team(Stamped):
    """A team (user group)."""

    name = CharField(128, unique=True)
    note = CharField(255, default="")

    class Meta:
        table_name = "user_group"


class TeamMember(Table):
    """A user's membership in a team."""

    group_id = IntegerField()
    user_id = IntegerField(index=True)

    class Meta:
        table_name = "user_group_member"
        indexes = ((("group_id", "user_id"), True),)


class Role(Table):
    """A role; users refer to it by name."""

    name = CharField(191, unique=True)
    note = CharField(255, default="")

    class Meta:
        table_name = "role"


class RoleOperation(Table):
    """A permission point that a role holds."""

    role_name = CharField(191)
    operation = CharField(191)

    class Meta:
        table_name = "role_operation"
        indexes = ((("role_name", "operation"), True),)


class BusiGroup(Stamped):
    """A business group: the owner of rules, boards, hosts and the like.

    With ``label_enable`` 1 the label ``busigroup=<label_value>`` is attached to the group's series and events.
    """

    name = CharField(191, unique=True)
    label_enable = IntegerField(default=0)
    label_value = CharField(191, default="")

    class Meta:
        table_name = "busi_group"


class BusiGroupMember(Table):
    """A team bound to a business group; ``perm_flag`` is ``ro`` or ``rw``."""

    busi_group_id = IntegerField()
    user_group_id = IntegerField(index=True)
    perm_flag = CharField(8)

    class Meta:
        table_name = "busi_group_member"
        indexes = ((("busi_group_id", "user_group_id"), True),)


class Config(Stamped):
    """A key/value setting; ``external`` 0 is a setting of the service, 1 a user variable."""

    ckey = CharField(191)
    cval = TextField(default="")
    note = CharField(1024, default="")
    external = IntegerField(default=0)
    encrypted = IntegerField(default=0)

    class Meta:
        table_name = "configs"
        indexes = ((("ckey", "external"), True),)


TABLES: tuple[type[Table], ...] = (
    User,
    UserToken,
    Team,
    TeamMember,
    Role,
    RoleOperation,
    BusiGroup,
    BusiGroupMember,
    Config,
)
