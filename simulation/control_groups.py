"""A tree of control groups of version 2 in a folder, with the part of the kernel that charges and refuses memory.

What limits are set in it is the matter of `read` and `limit`, or of the fake NVML of the tests, which writes the same
files (``tests/native/fake_limits.h``).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gcushare.cards.ports import GroupMemory
from gcushare.core.errors import DeviceError

Keeping = Literal["dmem", "misc"]
NO_LIMIT = 2**64 - 1
_FILES = {"dmem": "dmem.max", "misc": "misc.limits"}


@dataclass(frozen=True, slots=True)
class SetCall:
    """One call that set a limit: bytes, and the code of its answer. ``at_ns``: nanoseconds since the epoch."""

    at_ns: int
    card: int
    soft: int
    hard: int
    code: int
    group: Path


class ControlGroups:
    """The machine's groups below ``root``, with a driver that keeps limits in one of its two ways."""

    def __init__(self, root: Path, keeping: Keeping = "dmem") -> None:
        self.root = root
        self.keeping: Keeping = keeping
        root.mkdir(parents=True, exist_ok=True)
        (root / "cgroup.controllers").write_text("cpu memory pids dmem\n")

    def make(self, path: str, *, dmem: bool = True) -> Path:
        """Make a group, and those above it that are missing; ``dmem``: whether its parent turned the controller on."""
        group = self.root
        for name in path.strip("/").split("/"):
            group = group / name
            if not group.exists():
                group.mkdir()
                (group / "cgroup.controllers").write_text("cpu memory pids dmem\n")
                (group / "cgroup.type").write_text("domain\n")
                if self.keeping == "dmem" and dmem:
                    (group / "dmem.max").touch()
        return group

    def remove(self, group: Path) -> None:
        """Remove a group whose processes have ended, with all below it."""
        shutil.rmtree(group)

    def allocate(self, group: Path, card: int, size: int) -> bool:
        """Have a process of this group allocate memory of a card; False if a limit refuses it."""
        for limited, hard, base in self._limits_above(group, card):
            if max(0, self.used(limited, card) - base) + size > hard:
                return False
        with (group / "charges").open("a") as file:
            file.write(f"{card} {size}\n")
        return True

    def free(self, group: Path, card: int) -> None:
        """Have the processes of this very group free all that they have of a card."""
        lines = self._lines(group / "charges")
        kept = [line for line in lines if int(line.split()[0]) != card]
        (group / "charges").write_text("".join(f"{line}\n" for line in kept))

    def used(self, group: Path, card: int) -> int:
        """What a group and all below it have of a card."""
        return sum(
            size
            for file in group.rglob("charges")
            for which, size in (map(int, line.split()) for line in self._lines(file))
            if which == card
        )

    def limit_of(self, group: Path, card: int) -> int | None:
        """The hard limit of this very group; None if it has none."""
        lines = [line.split() for line in self._lines(group / _FILES[self.keeping])]
        hard = next((int(words[2]) for words in reversed(lines) if int(words[0]) == card), NO_LIMIT)
        return None if hard == NO_LIMIT else hard

    def read(self, group: Path, card: int) -> GroupMemory | None:
        """What the driver answers of a group: its limit and its use, or without the controller those of the nearest
        group upwards that has one.

        Raises:
            DeviceError: there is no such group.
        """
        self._require(group)
        if self.keeping == "dmem":
            return GroupMemory(hard_bytes=self.limit_of(group, card), used_bytes=self.used(group, card))
        for limited, hard, base in self._limits_above(group, card):
            return GroupMemory(hard_bytes=hard, used_bytes=max(0, self.used(limited, card) - base))
        return None

    def limit(self, group: Path, card: int, hard_bytes: int | None) -> None:
        """Have the driver set a group's hard limit; None removes it.

        Raises:
            DeviceError: there is no such group, or it uses more.
        """
        self._require(group)
        file, used, base = group / _FILES[self.keeping], self.used(group, card), 0
        if self.keeping == "misc":
            bases = [int(words[3]) for words in map(str.split, self._lines(file)) if int(words[0]) == card]
            base = bases[-1] if bases else used
        hard = NO_LIMIT if hard_bytes is None else hard_bytes
        if hard < used - base:
            raise DeviceError(f"{str(group)!r} uses {used - base} bytes: a limit of {hard} is refused")
        others = [line for line in self._lines(file) if int(line.split()[0]) != card]
        file.write_text("".join(f"{line}\n" for line in [*others, f"{card} 0 {hard} {base}"]))

    def soft_sum(self, card: int) -> int:
        """All soft limits of the tree."""
        files = list(self.root.rglob(_FILES[self.keeping]))
        last = [[w for line in self._lines(f) if int((w := line.split())[0]) == card] for f in files]
        return sum(int(words[-1][1]) for words in last if words)

    def reload_driver(self) -> None:
        """Load the driver again: it has forgotten every limit."""
        for file in self.root.rglob(_FILES[self.keeping]):
            if self.keeping == "dmem":
                file.write_text("")
            else:
                file.unlink()

    def _limits_above(self, group: Path, card: int) -> list[tuple[Path, int, int]]:
        found = []
        while group != self.root:
            lines = [line.split() for line in self._lines(group / _FILES[self.keeping])]
            of_card = [words for words in lines if int(words[0]) == card and int(words[2]) != NO_LIMIT]
            if of_card and (self.limit_of(group, card) is not None):
                found.append((group, int(of_card[-1][2]), int(of_card[-1][3])))
                if self.keeping == "misc":  # the nearest counts alone
                    break
            group = group.parent
        return found

    def _require(self, group: Path) -> None:
        if not group.exists():
            raise DeviceError(f"there is no control group {str(group)!r}")

    @staticmethod
    def _lines(file: Path) -> list[str]:
        return file.read_text().splitlines() if file.exists() else []


def read_set_calls(library: Path) -> list[SetCall]:
    """The calls that set limits, from the log of a fake library."""
    log = library.with_name(library.name + ".log")
    lines = log.read_text().splitlines() if log.exists() else []
    calls = []
    for line in lines:
        at_ns, card, soft, hard, code, group = line.split(" ", 5)
        calls.append(SetCall(int(at_ns), int(card), int(soft), int(hard), int(code), Path(group)))
    return calls
