"""Compute what a container gets so that MPS limits its processes, and the cards on which MPS cannot limit memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Card, Health, InventoryCard
from gcushare.core.errors import Refused
from gcushare.core.units import MemoryUnit
from gcushare.node.mps.state import MpsFolders
from gcushare.node.node_settings import Fallback, MemoryLimit, MpsSettings

PIPE_VARIABLE = "CUDA_MPS_PIPE_DIRECTORY"
MEMORY_VARIABLE = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
THREADS_VARIABLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
SHM = "/dev/shm"
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """A container's variables, and the host folders that are mounted, by their path in the container."""

    variables: Mapping[str, str]
    mounts: Mapping[str, str]


NO_LIMITS = ContainerLimits({}, {})


def limits_of(folders: MpsFolders, cards: Mapping[str, int], threads_percent: int | None = None) -> ContainerLimits:
    """Return the limits of one container; ``cards`` are the bytes granted of each card, by uuid.

    Uuids keep a limit on its card in whatever order CUDA counts cards. MPS takes whole MiB, so bytes are rounded down.
    """
    limits = ",".join(f"{uuid}={max(1, size // _MIB)}M" for uuid, size in sorted(cards.items()))
    variables = {PIPE_VARIABLE: str(folders.pipe), MEMORY_VARIABLE: limits}
    if threads_percent is not None:
        variables[THREADS_VARIABLE] = str(threads_percent)
    return ContainerLimits(variables, {str(folders.pipe): str(folders.pipe), SHM: str(folders.shm)})


class MpsLimiter:
    """Decides for each card whether MPS limits memory there. `MpsWatch` keeps ``daemon_problem`` up to date."""

    def __init__(self, folders: MpsFolders, fallback: Fallback) -> None:
        self.folders = folders
        self._fallback = fallback
        self.daemon_problem = "the MPS daemon was not checked yet"
        self.card_problems: dict[int, str] = {}
        """By card index, why MPS cannot limit memory on that card even with a healthy daemon; of the newest reading."""

    @property
    def refuses(self) -> bool:
        """Whether cards without a limit take no new pods."""
        return self._fallback is Fallback.REFUSE

    def problem_of(self, card: Card) -> str:
        """Why MPS cannot limit memory on a card now; "" if it can."""
        return card.limit_problem or self.daemon_problem

    def close_cards(self, found: CardsSnapshot) -> CardsSnapshot:
        """Return the cards to offer: with ``--mps-fallback refuse`` those without a limit take no new pods."""
        self.card_problems = {each.index: each.limit_problem for each in found.cards if each.limit_problem}
        if not self.refuses:
            return found
        cards = tuple(
            msgspec.structs.replace(each, health=Health.UNHEALTHY, reason=f"memory cannot be limited: {problem}")
            if each.health is Health.HEALTHY and (problem := self.problem_of(each))
            else each
            for each in found.cards
        )
        return replace(found, cards=cards)

    def limit(
        self,
        cards: Sequence[InventoryCard],
        units: Mapping[int, int],
        unit: MemoryUnit,
        *,
        usable: Mapping[int, int] | None = None,
        by_memory: bool = False,
    ) -> ContainerLimits:
        """Return the limits of a container with so many units of each card; none if one of the cards has no limit.

        ``usable``: the units that it may use, if they are more than those granted. ``by_memory``: it may use the chip
        in proportion to what was granted, too.
        """
        if any(map(self.problem_of, cards)):
            return NO_LIMITS
        percent = None
        if by_memory:
            # By the largest share: the rest of a card may belong to no other pod yet. At least one percent.
            percent = max(1, *(units[card.index] * 100 // max(1, card.units) for card in cards))
        usable = usable or units
        return limits_of(self.folders, {card.uuid: unit.bytes_of(usable[card.index]) for card in cards}, percent)

    def check(self, cards: Iterable[InventoryCard]) -> None:
        """Check that memory of these cards can be limited, or need not be.

        Raises:
            Refused: it cannot, and ``--mps-fallback`` is ``refuse``.
        """
        problems = {card.index: problem for card in cards if (problem := self.problem_of(card))}
        if problems and self.refuses:
            cards_text = "; ".join(f"card {index}: {problem}" for index, problem in sorted(problems.items()))
            raise Refused(
                f"memory cannot be limited ({cards_text}); --mps-fallback unlimited lets pods start without a limit"
            )


def make_limiter(settings: MpsSettings) -> MpsLimiter | None:
    """Return the limiter that the settings ask for; None if memory is not limited."""
    if settings.memory_limit is not MemoryLimit.MPS:
        return None
    return MpsLimiter(MpsFolders(settings.mps_root), settings.mps_fallback)
