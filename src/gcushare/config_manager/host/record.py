"""The file that records the change of this node's scheduler, so that it can be undone exactly."""

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
    """Of the target before the change; the backup's content has the same."""
    after_sha256: tuple[str, ...]
    """Of the target as we wrote it, newest last, with the one before: the record is written first, so after a crash the
    target may still be the older one. With any other sum the target was edited since."""
    flag: str
    """Name of the flag that was set, without dashes."""
    flag_was: str | None
    """Its value before the change, None if it was not set."""
    config: str
    """Path of the configuration that was written."""
    config_sha256: tuple[str, ...]
    """Of the configuration, as ``after_sha256``."""
    scheduler_version: str
    is_proven: bool
    """Whether the scheduler was healthy with the change. False after a crash, so that the next run waits again."""
    is_adopted: bool = False
    """Whether the configuration contains an edit by hand. The next one is then made from it, and when it is removed a
    copy is kept."""

    def encoded(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


RECORD = BoundedJsonDecoder(Record, "the record", limit_bytes=1024 * 1024)


def parse_record(content: bytes, name: str) -> Record:
    """Read a record back.

    Raises:
        ConfigError: not a record, or a version that this program does not know.
    """
    try:
        return RECORD.read(content)
    except RemoteContractError as error:
        raise ConfigError(
            f"{name}: not a record that this gcushare-config-manager can read (did a newer version write it?): {error}"
        ) from error
