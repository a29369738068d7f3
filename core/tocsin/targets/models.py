"""Tables of the targets capability."""

from __future__ import annotations

import peewee

from tocsin.plugin import Migration, Migrator, Table, create

IDENT_LENGTH = 191
"""Longest name of a host, in characters."""


class TargetRow(Table):
    """A host. ``tags`` and ``host_tags`` are JSON lists of ``key=value``: what people gave it, and what its collector says.

    ``change`` is the number of the last change that concerns its labels or groups (0: it never had any), see
    :class:`~tocsin.targets.book.LabelBook`. ``group_id`` belongs to an older model of one group per host and stays 0.
    """

    group_id = peewee.IntegerField(default=0)
    ident = peewee.CharField(IDENT_LENGTH, unique=True)
    note = peewee.CharField(255, default="")
    tags = peewee.TextField(default="[]")
    host_tags = peewee.TextField(default="[]")
    host_ip = peewee.CharField(64, default="", index=True)
    agent_version = peewee.CharField(255, default="")
    engine_name = peewee.CharField(255, default="")
    os = peewee.CharField(31, default="")
    update_at = peewee.BigIntegerField(default=0)
    change = peewee.BigIntegerField(default=0, index=True)

    class Meta:
        table_name = "target"


class TargetGroup(Table):
    """A host bound to a business group."""

    target_ident = peewee.CharField(IDENT_LENGTH)
    group_id = peewee.IntegerField(index=True)
    update_at = peewee.BigIntegerField(default=0)

    class Meta:
        table_name = "target_busi_group"
        indexes = ((("target_ident", "group_id"), True),)


TABLES: tuple[type[Table], ...] = (TargetRow, TargetGroup)

EXACT_COLLATIONS = ("utf8mb4_nopad_bin", "utf8mb4_0900_bin", "utf8mb4_bin")
"""Collations of MariaDB and MySQL that tell names apart by case, accents and trailing blanks, the best one first."""


def _compare_names_exactly(migrator: Migrator) -> None:
    """Let MariaDB and MySQL tell all names of hosts apart, as the others do: ``Web`` is not ``web``."""
    if migrator.database.kind != "mysql":
        return
    run = migrator.database.peewee.execute_sql
    there = {name for (name,) in run("SELECT collation_name FROM information_schema.collations")}
    collation = next(name for name in EXACT_COLLATIONS if name in there)
    for table, column in (("target", "ident"), ("target_busi_group", "target_ident")):
        run(f"ALTER TABLE {table} MODIFY {column} VARCHAR({IDENT_LENGTH}) COLLATE {collation} NOT NULL")


MIGRATIONS = (create(*TABLES), Migration(2, "compare names exactly", _compare_names_exactly))
