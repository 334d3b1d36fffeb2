"""Who reads a scheduler's configuration, and which owner and mode its file gets for that."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gcushare.config_manager.host.files import FileState, HostFiles
from gcushare.config_manager.host.launch import RunsAs
from gcushare.core.errors import Refused

_MODE = 0o644
"""As kubeadm's configurations: a scheduler that does not run as root must be able to read the file."""
_SECRET_MODE = 0o600


@dataclass(frozen=True, slots=True)
class ConfigReader:
    """The user that a scheduler runs as."""

    shown: str
    uid: int | None
    """None if the host does not know the user."""
    gids: frozenset[int]

    def may(self, wanted: int, mode: int, uid: int, gid: int) -> bool:
        """Whether the user has a right (4 to read, 1 to enter a directory) on a file with this mode and owner."""
        if self.uid == 0:
            return True
        shift = 6 if uid == self.uid else 3 if gid in self.gids else 0
        return bool(mode >> shift & wanted)


def find_reader(files: HostFiles, runs_as: RunsAs) -> ConfigReader:
    """Resolve users and groups by the host's own files; those of a directory service are not known."""
    names = (runs_as.user, *runs_as.groups)
    is_named = not all(map(str.isdecimal, names))
    users, groups = (_entries(files, path) if is_named else [] for path in ("/etc/passwd", "/etc/group"))
    uid, primary = next((each[2:4] for each in users if each[0] == runs_as.user), (runs_as.user, ""))
    gids = {each[2] for each in groups if each[0] in runs_as.groups or runs_as.user in each[3].split(",")}
    gids.update(runs_as.groups or [primary])
    return ConfigReader(
        runs_as.user, int(uid) if uid.isdecimal() else None, frozenset(map(int, filter(str.isdecimal, gids)))
    )


def _entries(files: HostFiles, path: str) -> list[list[str]]:
    """Read the lines of passwd or group: a name, a password, an id, and a group's id or a group's members."""
    state = files.read(path)
    lines = [] if state is None else state.content.decode(errors="replace").splitlines()
    return [entry for line in lines if len(entry := line.split(":")) > 3]


def readable_config(
    content: bytes, target: FileState, original: FileState | None, reader: ConfigReader, *, is_secret: bool
) -> FileState:
    """Make the file's attributes: no wider than those of the ``original`` that was copied, if there is one.

    ``target`` is the scheduler's manifest or unit. A file that the scheduler's user could not read is given to it.
    Root's group may then read it too, so that a root without capabilities finds it again.

    Raises:
        Refused: that user is not known.
    """
    widest = _MODE if original is None else _MODE & original.mode
    owner = target if is_secret or original is None else original
    mode = (widest & _SECRET_MODE if is_secret else widest) | 0o400
    state = replace(target, content=content, mode=mode, uid=owner.uid, gid=owner.gid, acl=None)
    if reader.may(4, state.mode, state.uid, state.gid):
        return state
    if reader.uid is not None:
        return replace(state, uid=reader.uid, gid=0, mode=(widest & 0o640) | 0o400)
    if reader.gids:
        return replace(state, gid=min(reader.gids), mode=(widest & 0o600) | 0o440)
    why = "holds a private key" if is_secret else f"has the mode {mode:04o} of the one that it is copied from"
    raise Refused(
        f"the configuration {why}, and this host does not know the user that must read it, {reader.shown!r}: give "
        "kube-scheduler a user of /etc/passwd or a number (User= of the unit, runAsUser of the pod)"
    )
