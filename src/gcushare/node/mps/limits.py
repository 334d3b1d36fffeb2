"""Compute what a container gets so that MPS limits its processes, and the cards on which MPS cannot limit memory."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Card
from gcushare.core.units import MemoryUnit
from gcushare.node.container_environment import Grant
from gcushare.node.memory_limiter import NO_LIMITS, ContainerLimits, MemoryLimiter
from gcushare.node.mps.state import PIPE_VARIABLE, MpsFolders
from gcushare.node.node_settings import Fallback
from gcushare.node.pods import CardCounts

MEMORY_VARIABLE = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
THREADS_VARIABLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
SHM = "/dev/shm"
_MIB = 1 << 20
NOT_CHECKED = "the MPS daemon was not checked yet"


def limits_of(folders: MpsFolders, cards: Mapping[str, int], threads_percent: int | None = None) -> ContainerLimits:
    """Return the limits of one container; ``cards`` are the bytes granted of each card, by uuid.

    Uuids keep a limit on its card in whatever order CUDA counts cards. MPS takes whole MiB, so bytes are rounded down.
    """
    limits = ",".join(f"{uuid}={max(1, size // _MIB)}M" for uuid, size in sorted(cards.items()))
    variables = {PIPE_VARIABLE: str(folders.pipe), MEMORY_VARIABLE: limits}
    if threads_percent is not None:
        variables[THREADS_VARIABLE] = str(threads_percent)
    return ContainerLimits(variables, {str(folders.pipe): str(folders.pipe), SHM: str(folders.shm)})


class MpsLimiter(MemoryLimiter):
    """Limits memory by MPS. `MpsWatch` keeps ``daemon_problem`` up to date."""

    def __init__(self, folders: MpsFolders, fallback: Fallback) -> None:
        super().__init__(fallback)
        self.folders = folders
        self.daemon_problem = NOT_CHECKED
        self.is_awaited = True
        """Whether the daemon may still be starting, in its own pod: no pod goes without a limit because it is late."""
        self.card_problems: dict[int, str] = {}
        """By card index, why MPS cannot limit memory on that card even with a healthy daemon; of the newest reading."""

    @property
    def refuses(self) -> bool:
        return self.is_awaited or super().refuses

    def problem_of(self, card: Card) -> str:
        return card.limit_problem or self.daemon_problem

    def close_cards(self, found: CardsSnapshot) -> CardsSnapshot:
        self.card_problems = {each.index: each.limit_problem for each in found.cards if each.limit_problem}
        return super().close_cards(found)

    def limit(self, grant: Grant, unit: MemoryUnit, units: CardCounts, usable: CardCounts) -> ContainerLimits:
        if any(map(self.problem_of, grant.cards)):
            return NO_LIMITS
        percent = None
        if grant.shares_threads:
            # By the largest share: the rest of a card may belong to no other pod yet. At least one percent.
            percent = max(1, *(units[card.index] * 100 // max(1, card.units) for card in grant.cards))
        sizes = {card.uuid: unit.bytes_of(usable[card.index]) for card in grant.cards}
        return limits_of(self.folders, sizes, percent)
