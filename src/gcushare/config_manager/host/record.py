"""What was done on this node, in a small versioned file, so that it can be undone exactly."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.wire.foreign import BoundedJsonDecoder

RECORD_VERSION = 1
RECORD = BoundedJsonDecoder(dict[str, Any], "the record", limit_bytes=1024 * 1024)
_SUMS = ("after_sha256", "config_sha256")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One change of one file that starts a scheduler."""

    target: str
    """The manifest or unit that was changed."""
    before_sha256: str
    """Of the target as it was; the backup has the same."""
    after_sha256: tuple[str, ...]
    """Of the target as we wrote it, and before that, newest last: the record is written before the target, so a
    crash leaves the older one. Another sum means that someone else edited it since."""
    flag: str
    """Name of the flag that was set, without dashes."""
    flag_was: str | None
    """Its value before, None when it was not there."""
    config: str
    """The configuration that was written."""
    config_sha256: tuple[str, ...]
    """Of the configuration as we wrote it, and before that, as above."""
    scheduler_version: str
    is_proven: bool
    """Whether the scheduler was seen healthy with it. False after a crash while waiting: the next run waits again."""

    def encoded(self) -> bytes:
        return (json.dumps({"version": RECORD_VERSION, **asdict(self)}, indent=2) + "\n").encode()


def parse_record(content: bytes, name: str) -> Record:
    """Read a record back.

    Raises:
        ConfigError: not a record, or of a version that this program does not know.
    """
    try:
        fields = RECORD.read(content)
        version = fields.pop("version")
    except (RemoteContractError, KeyError) as error:
        raise ConfigError(f"{name}: not a record of gcushare-config-manager: {error}") from error
    if version != RECORD_VERSION:
        raise ConfigError(
            f"{name}: record version {version!r} is not known, only {RECORD_VERSION}: use the newer program"
        )
    if set(fields) != set(Record.__slots__):
        raise ConfigError(f"{name}: the record's keys must be {sorted(Record.__slots__)}, they are {sorted(fields)}")
    for key in _SUMS:
        fields[key] = tuple(fields[key]) if isinstance(fields[key], list) else fields[key]
    wrong = sorted(key for key, value in fields.items() if not _fits(key, value))
    if wrong:
        raise ConfigError(f"{name}: the record's values of {', '.join(wrong)} are not of the kind they must be")
    return Record(**fields)


def _fits(key: str, value: object) -> bool:
    if key in _SUMS:
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    if key == "is_proven":
        return isinstance(value, bool)
    return isinstance(value, str) or (key == "flag_was" and value is None)
