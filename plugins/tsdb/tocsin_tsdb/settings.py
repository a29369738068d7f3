"""The section `[EmbeddedTSDB]` and what its texts mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tocsin.plugin import SettingsError, key, section
from tocsin_tsdb.promql.durations import parse_duration

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)?", re.ASCII)
_POWERS = {None: 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4}
SOCKET = "store.sock"


@section("EmbeddedTSDB")
class EmbeddedTsdbSettings:
    """The time-series store inside the center."""

    enable: bool = key("Enable", False, "run the embedded time-series store (center only)", shipped=True)
    directory: str = key("Dir", "data/tsdb", "data directory, relative to the working directory")
    retention: str = key("RetentionDuration", "15d", "how long samples are kept, like `12h`, `7d`, `1d12h`")
    max_bytes: str = key(
        "MaxBytes", "", "most bytes of blocks, like `10GiB`; the oldest go first; empty is unlimited", shipped="10GiB"
    )
    out_of_order: str = key("OutOfOrderTimeWindow", "10m", "how much older than the newest sample a late one may be")
    query_timeout: str = key("QueryTimeout", "1m", "longest time for a query")
    query_max_samples: int = key("QueryMaxSamples", 50_000_000, "most samples that one query may hold in memory")
    query_max_concurrency: int = key("QueryMaxConcurrency", 20, "queries that run at once; more wait")
    lookback_delta: str = key("LookbackDelta", "5m", "how old a sample may be and still count as current")
    basic_auth_user: str = key("BasicAuthUser", "", "user that clients must give; empty serves this host only")
    basic_auth_pass: str = key("BasicAuthPass", "", "its password; both or none", secret=True)
    enable_admin: bool = key("EnableAdminAPI", False, "serve the endpoints that delete series and make snapshots")
    datasource_url: str = key(
        "DatasourceUrl", "", "url of the registered datasource; lifts the restriction to this host"
    )


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """The section with its texts understood. Durations in ms."""

    directory: Path
    retention: int
    max_bytes: int
    out_of_order: int
    query_timeout: int
    query_max_samples: int
    query_max_concurrency: int
    lookback: int
    basic_auth: tuple[str, str] | None
    enable_admin: bool
    datasource_url: str

    @property
    def socket(self) -> Path:
        """The unix socket on which the store serves."""
        return self.directory / SOCKET

    @property
    def local_only(self) -> bool:
        """Whether only clients on this host are served."""
        return self.basic_auth is None and not self.datasource_url


def understand(section: EmbeddedTsdbSettings) -> StoreSettings:
    """Check and convert the section of a store that is switched on. Raises SettingsError naming the key."""
    if bool(section.basic_auth_user) != bool(section.basic_auth_pass):
        raise SettingsError("EmbeddedTSDB.BasicAuthUser and EmbeddedTSDB.BasicAuthPass: set both or none")
    if not section.directory:
        raise SettingsError("EmbeddedTSDB.Dir: got an empty text, expected a directory")
    for name, number in (
        ("QueryMaxSamples", section.query_max_samples),
        ("QueryMaxConcurrency", section.query_max_concurrency),
    ):
        if number < 1:
            raise SettingsError(f"EmbeddedTSDB.{name}: got {number}, expected a number of at least 1")
    if section.datasource_url and not section.datasource_url.startswith(("http://", "https://")):
        raise SettingsError(
            f"EmbeddedTSDB.DatasourceUrl: got {section.datasource_url!r}, expected an http or https url"
        )
    account = (section.basic_auth_user, section.basic_auth_pass) if section.basic_auth_user else None
    return StoreSettings(
        directory=Path(section.directory).absolute(),
        retention=_duration("RetentionDuration", section.retention, positive=True),
        max_bytes=_size("MaxBytes", section.max_bytes),
        out_of_order=_duration("OutOfOrderTimeWindow", section.out_of_order),
        query_timeout=_duration("QueryTimeout", section.query_timeout, positive=True),
        query_max_samples=section.query_max_samples,
        query_max_concurrency=section.query_max_concurrency,
        lookback=_duration("LookbackDelta", section.lookback_delta, positive=True),
        basic_auth=account,
        enable_admin=section.enable_admin,
        datasource_url=section.datasource_url,
    )


def _duration(name: str, text: str, *, positive: bool = False) -> int:
    try:
        milliseconds = 0 if text == "0" else parse_duration(text)
    except ValueError as error:
        raise SettingsError(f"EmbeddedTSDB.{name} invalid (use durations like 10m, 1h, 15d): {error}") from None
    if positive and milliseconds <= 0:
        raise SettingsError(
            f"EmbeddedTSDB.{name} invalid (use durations like 10m, 1h, 15d): got {text!r}, expected more than 0"
        )
    return milliseconds


def _size(name: str, text: str) -> int:
    if text in ("", "0"):
        return 0
    match = _SIZE.fullmatch(text)
    if match is None:
        raise SettingsError(f"EmbeddedTSDB.{name} invalid (use sizes like 512MiB, 10GiB): got {text!r}")
    unit = match[2]
    return int(float(match[1]) * 1024 ** _POWERS[unit[0] if unit and unit != "B" else unit])
