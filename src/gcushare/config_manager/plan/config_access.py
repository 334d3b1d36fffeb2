"""Which user reads a scheduler's configuration, and which owner and mode its file gets for that."""

from __future__ import annotations

from dataclasses import replace

from gcushare.config_manager.host.files import FileState, HostFiles
from gcushare.core.errors import Refused

_MODE = 0o644
"""As kubeadm's configurations: a scheduler that does not run as root must be able to read the file."""
_SECRET_MODE = 0o600


def user_id(files: HostFiles, user: str) -> int | None:
    """Find a user's number, by the host's own file if it is a name; None if that does not know it."""
    if user.isdecimal():
        return int(user)
    state = files.read("/etc/passwd")
    lines = "" if state is None else state.content.decode(errors="replace")
    entries = (line.split(":") for line in lines.splitlines())
    uid = next((entry[2] for entry in entries if entry[0] == user and len(entry) > 2), "")
    return int(uid) if uid.isdecimal() else None


def readable_config(
    content: bytes, target: FileState, original: FileState | None, user: str, uid: int | None, *, is_secret: bool
) -> FileState:
    """Make the file's attributes: no wider than those of the ``original`` that was copied, if there is one.

    ``target`` is the scheduler's manifest or unit, ``user`` with the number ``uid`` runs it. A file that not everyone
    may read is given to that user. Root's group may then read it too, so that a root without capabilities finds it
    again.

    Raises:
        Refused: that user is not known.
    """
    widest = _MODE if original is None else _MODE & original.mode
    owner = target if is_secret or original is None else original
    mode = (widest & _SECRET_MODE if is_secret else widest) | 0o400
    state = replace(target, content=content, mode=mode, uid=owner.uid, gid=owner.gid)
    if mode & 0o004 or uid in (0, owner.uid):
        return state
    if uid is not None:
        return replace(state, uid=uid, gid=0, mode=(widest & 0o640) | 0o400)
    why = "holds a private key" if is_secret else f"has the mode {mode:04o} of the one that it is copied from"
    raise Refused(
        f"the configuration {why}, and this host does not know the user that must read it, {user!r}: give "
        "kube-scheduler a user of /etc/passwd or a number (User= of the unit, runAsUser of the pod)"
    )
