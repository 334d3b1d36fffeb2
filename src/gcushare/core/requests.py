"""What a pod asks for: units per container, and the effective request of the whole pod.

Source of the effective request: Kubernetes' rule for init containers and sidecars. App containers run together, so
they add up. An init container runs alone, together with the sidecars (init containers that always restart) that
started before it. The pod needs the larger of the two. All containers of a pod share its card or cards.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Protocol

from gcushare.core.assignments import ApartGroup
from gcushare.core.cards import InventoryCard
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.log_fields import cut_text
from gcushare.core.quantities import parse_count
from gcushare.core.units import GIB
from gcushare.core.whole_cards import CLOSE
from gcushare.core.wording import counted

MAX_REQUESTING_CONTAINERS = 64
"""Each costs two kubelet calls and a walk over the node's pods. Real pods have a handful."""
MAX_POD_UNITS = 10_000_000
"""More than any node has, and small enough that a cluster's sum stays an exact integer in every JSON reader."""


class ContainerKind(enum.Enum):
    """When a container runs: ``SIDECAR`` is an init container whose restartPolicy is Always."""

    APP = "app"
    INIT = "init"
    SIDECAR = "sidecar"


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """One container's resource lists, as the pod's author wrote them."""

    name: str
    kind: ContainerKind
    limits: Mapping[str, object]
    requests: Mapping[str, object]


class ResourceNames(Protocol):
    """The resources of one vendor that we grant; a ``Vendor`` is one."""

    @property
    def memory_resource(self) -> str: ...

    @property
    def count_resource(self) -> str: ...

    @property
    def whole_card_resource(self) -> str: ...


STRONGEST = "strongest"
"""The entry of ``CardSelection.use`` that allows every card and prefers those with the most memory."""
_LARGEST_LOG = 9.0
"""log2 of 512 GiB, more than any card has."""
_POLICYS_PART = 0.001
"""So much of a node's score keeps nodes apart that are equal by the author's order."""


_ID = re.compile(r"[0-9]+|(?:[A-Z]{3}-)?[0-9a-fA-F]{8}[0-9a-fA-F-]*", re.ASCII)
"""What names one card, an index or a uuid, and no model."""


@lru_cache(maxsize=256)
def _rank_entries(use: tuple[str, ...]) -> tuple[int, ...]:
    """The place of each entry of a list in its order, from 0 on. Every card of every node is compared by it."""
    kinds = [_ID.fullmatch(word) is not None for word in use]
    return tuple(accumulate((not (is_id and before) for before, is_id in pairwise(kinds)), initial=0))[: len(kinds)]


@dataclass(frozen=True, slots=True)
class CardSelection:
    """A pod author's choice of cards, and the order in which they are preferred.

    Each entry is a card's uuid, index or model; an empty ``use`` means any card. Entries are preferred in their order,
    but indexes and uuids that stand next to each other are equal. ``use`` may also be ``STRONGEST`` alone. Among
    equally preferred cards the policy decides. ``limit``: the units that the pod may use of each card while no other
    pod needs them, 0 if only those that it requests. A card with fewer units is not allowed. ``linked``: all its cards
    have to be of one link group. ``apart``: the pods with which it shares no card.
    """

    use: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    limit: int = 0
    linked: bool = False
    apart: ApartGroup | None = None

    def allows(self, card: InventoryCard) -> bool:
        """Whether the author's choice includes this card."""
        if card.units < self.limit:
            return False
        names = {str(card.index), card.uuid, card.model} - {""}
        return (not self.use or self.is_strongest or not names.isdisjoint(self.use)) and names.isdisjoint(self.avoid)

    @property
    def is_strongest(self) -> bool:
        """Whether the cards with the most memory are preferred."""
        return self.use == (STRONGEST,)

    @property
    def is_ordered(self) -> bool:
        """Whether one allowed card may be preferred to another."""
        return self.is_strongest or _rank_entries(self.use)[-1:] > (0,)

    def preference(self, card: InventoryCard | None) -> int:
        """How much the author prefers an allowed card: the most preferred has the largest number.

        That is 0 or less for a list, and bytes of memory for ``STRONGEST``. A card that is not known yet comes last.
        """
        if self.is_strongest:
            return 0 if card is None else card.memory_bytes
        names = () if card is None else (str(card.index), card.uuid, card.model)
        found = (rank for word, rank in zip(self.use, _rank_entries(self.use), strict=True) if word in names)
        return -next(found, len(self.use))

    def weigh(self, preference: int, score: float) -> float:
        """Put a card's preference before a policy's ``score``; the result is also from 0.0 to 1.0."""
        if self.is_strongest:
            strength = math.log2(max(1.0, preference / GIB)) / _LARGEST_LOG
            return (1.0 - _POLICYS_PART) * min(1.0, strength) + _POLICYS_PART * score
        steps = _rank_entries(self.use)[-1] + 1
        return max(0.0, (steps - 1 + preference + (1.0 - _POLICYS_PART) * score) / steps)


@dataclass(frozen=True, slots=True)
class CardRequest:
    """What placement must find on one node: ``cards`` cards with ``units`` free units each, or ``cards`` whole cards.

    For whole cards ``units`` is 0: a whole card is granted whatever its size. ``whole_policy`` (a name from
    ``whole_cards.WHOLE_CARD_POLICIES``) chooses among several cards; it is the default if no whole cards are requested.
    ``per_gib``: how many of these units are 2**30 bytes, if the pod's author says it; 0: as the cluster counts.
    """

    units: int
    cards: int = 1
    whole: bool = False
    selection: CardSelection | None = None
    whole_policy: str = CLOSE
    per_gib: int = 0

    @property
    def excludes_cards(self) -> bool:
        """Whether the pod's author excludes any card; one that only prefers some does not."""
        selection = self.selection
        return selection is not None and bool(
            selection.avoid or selection.limit or (selection.use and not selection.is_strongest)
        )

    @property
    def limit(self) -> int:
        """Units that the pod may use of each card while no other pod needs them; 0 if only those that it requests."""
        return self.selection.limit if self.selection is not None else 0

    @property
    def linked(self) -> bool:
        """Whether the cards have to be of one link group."""
        return self.selection is not None and self.selection.linked

    @property
    def apart(self) -> ApartGroup | None:
        """The pods with which it shares no card."""
        return self.selection.apart if self.selection is not None else None

    def allows(self, card: InventoryCard) -> bool:
        """Whether the pod's author allows this card."""
        return self.selection is None or self.selection.allows(card)


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for: ``units`` of memory in total, or ``whole_cards``; never both."""

    name: str
    kind: ContainerKind
    units: int = 0
    whole_cards: int = 0

    @property
    def amount(self) -> int:
        """The number of device ids that the kubelet asks for: units, or whole cards."""
        return self.whole_cards or self.units


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod's request: the containers that ask for cards, in the kubelet's admission order, and their sum."""

    containers: tuple[ContainerRequest, ...]
    cards: CardRequest

    @property
    def total_units(self) -> int:
        return self.cards.units * self.cards.cards

    @property
    def divisor(self) -> int:
        """The largest number by which the amount of each container can be divided."""
        return math.gcd(*(container.units for container in self.containers))


def parse_pod_request(
    containers: Sequence[ContainerResources],
    names: ResourceNames,
    *,
    cards_per_pod: int = 1,
    selection: CardSelection | None = None,
    memory_limit: int = 0,
    whole_policy: str = CLOSE,
    per_gib: int = 0,
    is_bound: bool = False,
) -> PodRequest | None:
    """Read a pod's request; None when no container asks for a card.

    ``containers`` are the init containers, then the app containers, each in the order of the pod's spec. If
    ``is_bound``, limits on what we grant are not checked: the kubelet gives the pod its devices in any case, and they
    must be counted. ``memory_limit``: the units that the pod may use of all its cards; 0 if only those it requests.
    ``per_gib``: as in ``CardRequest``.

    Raises:
        RemoteContractError: a quantity is malformed, or requests differ from limits.
        Refused: the request is well-formed, but this system does not grant it.
    """
    requesting = tuple(
        request
        for request in (_parse_container(c, names, is_bound=is_bound) for c in containers)
        if request.units or request.whole_cards
    )
    if not requesting:
        return None
    if len(requesting) > MAX_REQUESTING_CONTAINERS and not is_bound:
        raise Refused(
            f"{counted(len(requesting), 'container', 'ask')} for {names.memory_resource} or "
            f"{names.whole_card_resource}; at most {MAX_REQUESTING_CONTAINERS} of a pod may: let fewer containers ask"
        )
    if len(requesting) == 1:
        units, whole_cards = requesting[0].units, requesting[0].whole_cards
    else:
        units = effective_request((c.kind, c.units) for c in requesting)
        whole_cards = effective_request((c.kind, c.whole_cards) for c in requesting)
    if max(units, whole_cards) > MAX_POD_UNITS:
        raise Refused(
            f"the pod asks for {max(units, whole_cards)} in all, more than any node has: give a number of units or "
            f"cards, not of bytes, and at most {MAX_POD_UNITS}"
        )
    if units and whole_cards:
        raise Refused(f"a pod asks for {names.memory_resource} or for {names.whole_card_resource}, not for both")
    if whole_cards:
        cards = CardRequest(0, whole_cards, whole=True, selection=selection, whole_policy=whole_policy)
    else:
        for container in requesting:
            if container.units % cards_per_pod:
                raise Refused(
                    f"{_container_text(container.name)} asks for {container.units} {names.memory_resource}, which "
                    f"{counted(cards_per_pod, 'card')} cannot share equally; use a multiple"
                )
        cards = CardRequest(units // cards_per_pod, cards_per_pod, selection=selection, per_gib=per_gib)
    return PodRequest(requesting, _with_limit(cards, memory_limit))


def _with_limit(cards: CardRequest, memory_limit: int) -> CardRequest:
    """Add a pod's limit to its request; 0 for none.

    Raises:
        Refused: the limit does not fit the request.
    """
    if cards.whole and memory_limit:
        raise Refused(
            f"annotation gcushare.io/memory-limit={memory_limit} is for shared memory, and the pod asks for whole "
            "cards; remove it"
        )
    limit = limit_per_card(memory_limit, cards)
    return replace(cards, selection=replace(cards.selection or CardSelection(), limit=limit)) if limit else cards


def limit_per_card(memory_limit: int, request: CardRequest) -> int:
    """Divide a pod's limit over its cards; 0 if it has none, or may use only what it requests.

    Raises:
        Refused: the limit is below the request, or the cards cannot share it equally.
    """
    total = request.units * request.cards
    if not memory_limit or memory_limit == total:
        return 0
    if memory_limit < total:
        raise Refused(
            f"annotation gcushare.io/memory-limit={memory_limit} is below the {counted(total, 'unit')} that the pod "
            f"asks for; write {total} or more, or remove it"
        )
    if memory_limit % request.cards:
        raise Refused(
            f"annotation gcushare.io/memory-limit={memory_limit}: {counted(request.cards, 'card')} cannot share "
            "that equally; use a multiple"
        )
    return memory_limit // request.cards


def effective_request(amounts: Iterable[tuple[ContainerKind, int]]) -> int:
    """Combine container amounts into what the pod holds at its peak; see the module's docstring for the rule."""
    running = sidecars = peak_of_init = 0
    for kind, amount in amounts:
        match kind:
            case ContainerKind.APP:
                running += amount
            case ContainerKind.SIDECAR:
                sidecars += amount
                peak_of_init = max(peak_of_init, sidecars)
            case ContainerKind.INIT:
                peak_of_init = max(peak_of_init, sidecars + amount)
    return max(running + sidecars, peak_of_init)


def split_over_cards(units: int, card_indexes: Collection[int]) -> dict[int, int]:
    """Divide units equally over cards. The lowest indexes get one unit of the remainder each."""
    if not card_indexes:
        return {}
    share, rest = divmod(units, len(card_indexes))
    return {index: share + (position < rest) for position, index in enumerate(sorted(card_indexes))}


def _parse_container(container: ContainerResources, names: ResourceNames, *, is_bound: bool) -> ContainerRequest:
    units = _amount(container, names.memory_resource)
    count = 0 if is_bound else _amount(container, names.count_resource)
    whole_cards = _amount(container, names.whole_card_resource)
    if count > 1:
        raise Refused(
            f"{_container_text(container.name)} asks for {names.count_resource}: {count}; a container shares one card, "
            "so only 1 is accepted with the memory"
        )
    return ContainerRequest(container.name, container.kind, units, whole_cards)


def _amount(container: ContainerResources, resource: str) -> int:
    if resource not in container.limits and resource not in container.requests:
        return 0
    limit, request = container.limits.get(resource), container.requests.get(resource)
    try:
        amount = parse_count(limit if limit is not None else request)
        asked = parse_count(request) if request is not None else amount
    except RemoteContractError as error:
        raise RemoteContractError(f"{_container_text(container.name)}: {resource}: {error}") from error
    if limit is None or asked != amount:
        raise RemoteContractError(
            f"{_container_text(container.name)}: {resource}: limits {limit!r} and requests {request!r} must be equal; "
            "set the limit and leave the request out"
        )
    return amount


def _container_text(name: str) -> str:
    """Kubernetes allows names of 63 characters; a longer one is in a body that no API server has checked."""
    return f"container {cut_text(name, 63)!r}"
