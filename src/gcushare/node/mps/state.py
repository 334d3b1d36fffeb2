"""The state file with which the container of the MPS daemon reports to the plugin; both mount its folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from gcushare.core.errors import RemoteContractError
from gcushare.wire.untrusted_json import BoundedJsonDecoder, read_bounded

STATE_BYTES = 1 << 16
FRESH_S = 15.0
"""An older file means that the daemon's container is gone or hangs: it is written every few seconds."""


class MpsFolders:
    """The folders below the root, which has the same path on the host, in the daemon's container and in pods."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.pipe = root / "pipe"
        self.log = root / "log"
        self.shm = root / "shm"
        self.state = root / "state.json"


class MpsState(msgspec.Struct, frozen=True):
    """What is reported. ``instance`` differs after each start of the daemon; ``problem`` is "" while it answers.

    ``started_s``: when it was started, in seconds since the epoch. ``is_restart``: it is not the first since the boot.
    """

    instance: str
    problem: str = ""
    started_s: float = 0.0
    is_restart: bool = False


MPS_STATE = BoundedJsonDecoder(MpsState, "the MPS daemon's state", limit_bytes=STATE_BYTES)


def write_state(folders: MpsFolders, state: MpsState) -> None:
    """Replace the file.

    Raises:
        OSError: as writing raises it.
    """
    temporary = folders.root / ".state.json"
    temporary.write_bytes(msgspec.json.encode(state))
    temporary.replace(folders.state)


class MpsStateReader:
    """Reads the newest report, and tells how long there was no new one.

    Ages are measured on the monotonic clock, since a wall clock may be set while the file keeps its old time. Only the
    age of the first file comes from the wall clock: nothing else has it.
    """

    def __init__(
        self,
        folders: MpsFolders,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._path = folders.state
        self._clock = clock
        self._wall_clock_s = wall_clock_s
        self._written_ns: int | None = None
        self._heard_s = 0.0

    def read(self) -> MpsState:
        """Read the file. If it is too old, or cannot be read, the problem of the returned state says so."""
        try:
            with self._path.open("rb") as stream:
                self._record_time(os.fstat(stream.fileno()).st_mtime_ns)
                state = MPS_STATE.read(read_bounded(stream, STATE_BYTES, "the MPS daemon's state"))
        except FileNotFoundError:
            return MpsState("", f"no MPS daemon has started yet: there is no {str(self._path)!r}")
        except (OSError, RemoteContractError) as error:
            return MpsState("", f"{str(self._path)!r} cannot be read: {error}")
        if self._clock() - self._heard_s > FRESH_S:
            # The text has no age: each change of a problem is an Event, a log line and a list for the kubelet.
            stale = f"the container of the MPS daemon has reported nothing for more than {FRESH_S:g}s"
            return msgspec.structs.replace(state, problem=state.problem or stale)
        return state

    def _record_time(self, written_ns: int) -> None:
        if written_ns == self._written_ns:
            return
        age_s = abs(self._wall_clock_s() - written_ns / 1e9) if self._written_ns is None else 0.0
        self._written_ns, self._heard_s = written_ns, self._clock() - age_s
