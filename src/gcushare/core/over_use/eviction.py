"""Which pod is to be evicted for its over-use, if any, and why not the others. Pure; one answer per poll.

Only if a neighbour needs the memory (or always, if the admin says so), never on doubtful figures, one pod at a time.
A doubt that a pod's author can cause counts in bytes, for the pod that is judged: it never keeps a card from being
judged.
Pods that may burst are evicted before all others: what they use beyond their grant is lent.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Generic, TypeVar

from gcushare.core.over_use.tracking import PolledUse, gib_text
from gcushare.core.units import GIB

if TYPE_CHECKING:  # the settings, which name the choices here, need no ledger
    from gcushare.core.assignments import PodRef

UNKNOWN_BYTES = GIB // 4
"""If processes outside of pods use this much of a card, it is uncertain which pod causes a shortage."""


BURST_MARGIN_BYTES = GIB // 2
"""How much more than its pods' unused grants a card must have free while a pod bursts: an eviction takes a while."""


class When(enum.Enum):
    """When over-use alone is reason enough: ``danger`` when a neighbour's grant is in danger, or ``always``."""

    DANGER = "danger"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class CardReading:
    """One card as the last poll read it, in bytes; None is what could not be read.

    ``figures``: what each pod on it was granted and uses, by uid. ``promised``: kept for pods that do not hold it yet.
    ``unknown``: in use by processes that run in no pod. ``unconfirmed``: given out to pods that are not certain yet.
    ``doubt``: why the figures cannot be relied on. No pod's author can bring about ``unknown`` or ``doubt``.
    """

    index: int
    memory: int
    in_use: int | None
    unknown: int | None
    figures: Mapping[str, PolledUse]
    promised: int = 0
    unconfirmed: int = 0
    doubt: str = ""

    @property
    def surplus(self) -> int:
        """Bytes that the pods' processes are reported with beyond what the card has in use: one figure is wrong."""
        reported = sum(each.used for each in self.figures.values())
        return 0 if self.in_use is None else max(0, reported - self.in_use)

    @property
    def unused_grants(self) -> int:
        """What pods were granted of the card and do not use yet."""
        return self.promised + sum(max(0, each.granted - each.used) for each in self.figures.values())

    @property
    def free(self) -> int:
        """Bytes that are not in use; all of them if the use is unknown."""
        return max(0, self.memory - (self.in_use or 0))

    @property
    def shortfall(self) -> int:
        """Bytes that pods were granted and could not get; 0 if there are none, or if the use is unknown."""
        return 0 if self.in_use is None else max(0, self.unused_grants - self.free)

    @property
    def is_tight(self) -> bool:
        """Whether free memory hardly covers the unused grants, so that no pod may burst; False if use is unknown."""
        is_known = self.in_use is not None
        return is_known and self.unused_grants > 0 and self.free < self.unused_grants + BURST_MARGIN_BYTES

    def without(self, uids: Collection[str]) -> CardReading:
        """The card once these pods have ended."""
        freed = sum(each.used for uid, each in self.figures.items() if uid in uids)
        figures = {uid: each for uid, each in self.figures.items() if uid not in uids}
        return replace(self, figures=figures, in_use=None if self.in_use is None else max(0, self.in_use - freed))


@dataclass(frozen=True, slots=True)
class Evictable:
    """A pod that may be evicted. ``ending``: it is being deleted; ``is_overdue``: it should have ended by now.

    ``refused_lately``: why the API server did not evict it a moment ago; "" if it was not asked.
    """

    pod: PodRef
    _: KW_ONLY
    ending: bool = False
    is_overdue: bool = False
    is_static: bool = False
    refused_lately: str = ""


@dataclass(frozen=True, slots=True)
class Offender(Evictable):
    """A pod that is over on one card."""

    index: int
    figures: PolledUse


EvictableT = TypeVar("EvictableT", bound=Evictable, covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[EvictableT]):
    """The pod to evict, None for none; ``reason`` says why, ``passed_over`` why each other one was not chosen."""

    victim: EvictableT | None
    reason: str
    passed_over: Mapping[str, str]


def decide(
    offenders: Iterable[Offender],
    cards: Mapping[int, CardReading],
    when: When,
    exempt: Iterable[str] = (),
    *,
    pausing: str = "",
) -> Decision[Offender]:
    """Choose the worst offender of the lowest priority; ``pausing`` is why no pod can be evicted now.

    ``exempt``: the pods that the admin exempts, as ``namespace`` or ``namespace/name``, with ``*`` and ``?``.

    Pods that may burst come first, whatever their priority. Among equals the largest excess over the grant decides.
    """
    found = tuple(offenders)
    ending = {each.pod.uid for each in found if each.ending and not each.is_overdue}
    passed_over: dict[str, str] = {}
    able: list[Offender] = []
    for each in found:
        card = cards.get(each.index)
        later = None if card is None else card.without(ending)
        if why := _why_not(each, card, later, when, exempt) or pausing:
            passed_over.setdefault(str(each.pod), why)
        else:
            able.append(each)
    if not able:
        return Decision(None, "", passed_over)
    victim, *others = sorted(
        able, key=lambda it: (not it.figures.can_burst, it.pod.priority, -it.figures.excess, it.pod.uid, it.index)
    )
    passed_over |= {str(each.pod): f"after {victim.pod}: one at a time" for each in others if each.pod != victim.pod}
    passed_over.pop(str(victim.pod), None)
    return Decision(victim, _reason(victim, cards[victim.index]), passed_over)


def why_not_evictable(pod: Evictable, exempt: Iterable[str]) -> str:
    """Why a pod is not evicted, for whatever reason it would be; "" if nothing speaks against it."""
    for pattern in exempt:
        namespace, _, name = pattern.partition("/")
        if fnmatchcase(pod.pod.namespace, namespace) and fnmatchcase(pod.pod.name, name or "*"):
            return f"exempt by {pattern!r}"
    if pod.ending:
        return "it is being deleted: its memory comes free"
    if pod.is_static:
        return "a static pod, which only its node's own files can end"
    return pod.refused_lately


def _why_not(
    offender: Offender, card: CardReading | None, later: CardReading | None, when: When, exempt: Iterable[str]
) -> str:
    """Why a pod is not evicted; ``later`` is the card once the pods that are being deleted have ended."""
    if why := why_not_evictable(offender, exempt):
        return why
    if card is None or later is None or card.in_use is None or card.unknown is None:
        return f"it is not known how much of card {offender.index} is in use"
    if card.doubt:
        return f"the figures of card {card.index} are in doubt: {card.doubt}"
    if card.unknown >= UNKNOWN_BYTES:
        return f"{gib_text(card.unknown)} of card {card.index} are in use by processes of no known pod"
    figures = offender.figures
    if not figures.excess:
        return "its use at the last poll is not above its grant"
    if figures.excess <= card.surplus:
        return f"processes of card {card.index} are reported with {gib_text(card.surplus)} more than it has in use"
    if figures.excess <= card.surplus + card.unconfirmed:
        return f"{gib_text(card.unconfirmed)} of card {card.index} were given out just now, perhaps to it"
    if _is_permitted(figures, card, when):
        return f"card {card.index} still has what its pods were granted"
    if _is_permitted(figures, later, when):
        return f"card {card.index} will have what its pods were granted once others have ended that are being deleted"
    return ""


def _is_permitted(figures: PolledUse, card: CardReading, when: When) -> bool:
    if figures.can_burst:
        return not card.is_tight and (when is When.DANGER or figures.used <= figures.limit)
    return when is When.DANGER and not card.shortfall


def _reason(victim: Offender, card: CardReading) -> str:
    figures = victim.figures
    use = f"it uses {gib_text(figures.used)} of card {card.index} and was granted {gib_text(figures.granted)}"
    if figures.can_burst:
        use += f" (limit {gib_text(figures.limit)}, while no other pod needs it)"
    if card.shortfall:
        return f"{use}; other pods are short of {gib_text(card.shortfall)} of their grants"
    if figures.can_burst and card.is_tight:
        unused = gib_text(card.unused_grants)
        return f"{use}; the card has {gib_text(card.free)} free, and other pods may still need {unused} of their grants"
    return use
