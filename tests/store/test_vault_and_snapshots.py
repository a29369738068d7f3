"""Secrets at rest, and configuration that is never stale."""

import os
import re
import stat
from pathlib import Path

import pytest

from tocsin.app.settings import SettingsError
from tocsin.plugin.testkit import AppFactory
from tocsin.store.snapshots import RECENT_SECONDS, ChangeVersion, Snapshots
from tocsin.store.stamp import Stamp
from tocsin.store.vault import Vault, VaultError


def test_secrets_are_encrypted_with_a_private_key(tmp_path: Path) -> None:
    file = tmp_path / "sub" / "secret.key"
    vault = Vault.open("", file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    stored = vault.encrypt("swordfish")
    assert "swordfish" not in stored
    assert Vault.open("", file).decrypt(stored) == "swordfish"
    assert vault.encrypt("") == vault.decrypt("") == ""
    assert list(file.parent.iterdir()) == [file]
    other = Vault.open("", tmp_path / "other.key")
    with pytest.raises(VaultError):
        other.decrypt(stored)


def test_a_bad_configured_key_is_refused_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        Vault.open("too short", tmp_path / "key")
    assert "too short" not in str(caught.value)


def test_a_change_is_seen_by_another_process_at_once(make_app: AppFactory) -> None:
    loads: list[str] = []
    one, two = make_app().core, make_app().core

    def load() -> list[str]:
        loads.append("x")
        return list(loads)

    snapshot = two.snapshots.make("things", ("things", "teams"), load)
    first = snapshot.get()
    assert snapshot.get() is first
    one.snapshots.bump("others")
    assert snapshot.get() is first
    one.snapshots.bump("things")
    assert snapshot.get() == ["x", "x"]
    one.snapshots.bump("teams", "things")
    assert len(snapshot.get()) == 3
    report = "\n".join(two.snapshots.report())
    assert re.search(r"things:\nlast: timestamp: .*count: 2.*\ncurr: timestamp: .*count: 3, message: success\n", report)


def test_a_failed_load_is_reported_and_tried_again(make_app: AppFactory) -> None:
    core = make_app().core
    down = [True]

    def load() -> list[int]:
        if down.pop():
            down.append(False)
            raise RuntimeError("down")
        return [1]

    snapshot = core.snapshots.make("things", ("things",), load)
    with pytest.raises(RuntimeError):
        snapshot.get()
    assert "failed to query records: RuntimeError" in "\n".join(core.snapshots.report())
    assert snapshot.get() == [1]


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_recent_versions_notice_a_change_of_this_machine_at_once_without_a_query_each_time(
    make_app: AppFactory,
) -> None:
    reader, writer = make_app().core, make_app().core  # models write through the one that was made last
    recent = Snapshots(reader.db, Clock())
    before = recent.recent()
    assert recent.recent() is before
    with writer.db.atomic():
        writer.snapshots.bump("things")
        with writer.db.atomic():
            writer.snapshots.bump("things")
        assert recent.recent() is before  # nothing is committed yet
    assert recent.recent()["things"] == 2
    writer.snapshots.bump("things")
    assert recent.recent()["things"] == 3


def test_recent_versions_notice_a_change_of_another_machine_soon(make_app: AppFactory) -> None:
    core, clock = make_app().core, Clock()
    recent = Snapshots(core.db, clock)
    recent.recent()
    ChangeVersion.insert(name="things", version=7).execute()
    clock.now += RECENT_SECONDS / 2
    assert "things" not in recent.recent()
    clock.now += RECENT_SECONDS / 2
    assert recent.recent()["things"] == 7


def test_recent_versions_of_a_transaction_that_is_rolled_back_are_not_kept(make_app: AppFactory) -> None:
    core = make_app().core
    recent = Snapshots(core.db, Clock())

    def fail() -> None:
        with core.db.atomic():
            core.snapshots.bump("things")
            assert recent.recent()["things"] == 1
            raise RuntimeError("rolled back")

    with pytest.raises(RuntimeError):
        fail()
    assert "things" not in recent.recent()


def test_the_stamp_has_its_place_on_disk_and_keeps_its_number(tmp_path: Path) -> None:
    """A hole in the file would be filled at the first change, and with a full disk that ends the process."""
    file = tmp_path / "stamp"
    stamp = Stamp(file)
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())  # some file systems choose the place when it is written out
    assert (file.stat().st_size, file.stat().st_blocks > 0) == (8, True)
    stamp.renew()
    assert Stamp(file).read() == stamp.read() != 0
