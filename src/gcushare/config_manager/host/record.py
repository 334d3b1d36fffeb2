"""What was done on this node, in a small versioned file, so that it can be undone exactly."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.wire.untrusted_json import BoundedJsonDecoder


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change of one file that starts a scheduler."""

    version: Literal[1] = 1
    target: str
    """The manifest or unit that was changed."""
    before_sha256: str
    """Of the target as it was; the backup has the same."""
    after_sha256: tuple[str, ...]
    """Of the target as we wrote it, and before that, newest last: the record is written before the target, so a
    crash leaves an older one. Another sum means that someone else edited it since."""
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
    is_adopted: bool = False
    """Whether the configuration was made from one that someone edited by hand: its sum is known, but its words are an
    admin's, so it is what the next one is made from, and is kept aside where it is removed."""

    def encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


RECORD = BoundedJsonDecoder(Record, "the record", limit_bytes=1024 * 1024)


def parse_record(content: bytes, name: str) -> Record:
    """Read a record back.

    Raises:
        ConfigError: not a record, or of a version that this program does not know.
    """
    try:
        return RECORD.read(content)
    except RemoteContractError as error:
        raise ConfigError(
            f"{name}: not a record of this gcushare-config-manager (a newer one reads what it wrote): {error}"
        ) from error
