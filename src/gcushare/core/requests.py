"""What a pod asks for: units per container, and the effective request of the whole pod.

Source of the effective request: Kubernetes' rule for init containers and sidecars. App containers run together, so
they add up; an init container runs alone, beside the sidecars (init containers that restart always) started before
it; the pod needs the larger of the two. All containers of a pod share its card or cards.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gcushare.core.cards import Card
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.quantities import parse_count
from gcushare.core.topology import CLOSE

MAX_REQUESTING_CONTAINERS = 64
"""Each costs the plugin two calls of the kubelet and a walk over the pods; real ones have a handful."""
MAX_POD_UNITS = 10_000_000
"""Far more than any node has, and little enough that sums over a cluster stay within what JSON readers take."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceNames:
    """The resources of one vendor that mean something to us."""

    memory: str
    count: str
    whole_card: str


@dataclass(frozen=True, slots=True)
class CardSelection:
    """A pod author's choice of cards; each word is a card's uuid, index or model. Empty ``use`` means any."""

    use: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()

    def allows(self, card: Card) -> bool:
        """Whether a card is one of those that the author chose."""
        words = {str(card.index), card.uuid, card.model} - {""}
        return (not self.use or not words.isdisjoint(self.use)) and words.isdisjoint(self.avoid)


@dataclass(frozen=True, slots=True)
class CardRequest:
    """What placement has to find on one node: ``cards`` cards with ``units`` free units each, or that many whole ones.

    For whole cards ``units`` is 0: a whole card is granted whatever its size. ``whole_policy``, a name of
    ``placement.WHOLE_CARD_POLICIES``, says which are taken; the default's where no whole cards are requested.
    """

    units: int
    cards: int = 1
    whole: bool = False
    selection: CardSelection | None = None
    whole_policy: str = CLOSE

    def allows(self, card: Card) -> bool:
        """Whether the pod's author lets this be one of its cards."""
        return self.selection is None or self.selection.allows(card)


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container holds: ``units`` of memory in all, or ``whole_cards``; never both."""

    name: str
    kind: ContainerKind
    units: int = 0
    whole_cards: int = 0

    @property
    def amount(self) -> int:
        """What the kubelet asks for: units, or whole cards."""
        return self.whole_cards or self.units


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A pod's request: its containers with cards in the order in which the kubelet admits them, and the sum."""

    containers: tuple[ContainerRequest, ...]
    cards: CardRequest

    @property
    def total_units(self) -> int:
        return self.cards.units * self.cards.cards


def parse_pod_request(
    containers: Sequence[ContainerResources],
    names: ResourceNames,
    *,
    cards_per_pod: int = 1,
    selection: CardSelection | None = None,
    whole_policy: str = CLOSE,
    is_bound: bool = False,
) -> PodRequest | None:
    """Read a pod's request; None when no container asks for a card.

    ``containers`` are init containers first, then app containers, as in the pod's spec. ``is_bound``: the pod runs, or
    will in a moment, so that what counts is what the kubelet gives it, not whether it would have been granted.

    Raises:
        RemoteContractError: a quantity is malformed, or requests differ from limits.
        Refused: well-formed, but nothing that this system grants.
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
            f"{len(requesting)} containers ask for {names.memory} or {names.whole_card}; at most "
            f"{MAX_REQUESTING_CONTAINERS} of a pod may: let fewer containers ask"
        )
    if len(requesting) == 1:
        units, whole_cards = requesting[0].units, requesting[0].whole_cards
    else:
        units = effective_request((c.kind, c.units) for c in requesting)
        whole_cards = effective_request((c.kind, c.whole_cards) for c in requesting)
    if max(units, whole_cards) > MAX_POD_UNITS:
        raise Refused(
            f"the pod asks for {max(units, whole_cards)} in all, more than any node has; at most {MAX_POD_UNITS} are "
            "counted"
        )
    if units and whole_cards:
        raise Refused(f"a pod asks for {names.memory} or for {names.whole_card}, not for both")
    if whole_cards:
        return PodRequest(
            requesting, CardRequest(0, whole_cards, whole=True, selection=selection, whole_policy=whole_policy)
        )
    for container in requesting:
        if container.units % cards_per_pod:
            raise Refused(
                f"container {container.name!r} asks for {container.units} {names.memory}, which {cards_per_pod} cards "
                "cannot share equally; use a multiple"
            )
    return PodRequest(requesting, CardRequest(units // cards_per_pod, cards_per_pod, selection=selection))


def effective_request(amounts: Iterable[tuple[ContainerKind, int]]) -> int:
    """Fold container amounts into what the pod holds at its peak."""
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
    """Divide units equally over cards; what does not divide goes to the lowest indexes, one unit each."""
    if not card_indexes:
        return {}
    share, rest = divmod(units, len(card_indexes))
    return {index: share + (position < rest) for position, index in enumerate(sorted(card_indexes))}


def _parse_container(container: ContainerResources, names: ResourceNames, *, is_bound: bool) -> ContainerRequest:
    units = _amount(container, names.memory)
    count = 0 if is_bound else _amount(container, names.count)
    whole_cards = _amount(container, names.whole_card)
    if count > 1:
        raise Refused(
            f"container {container.name!r} asks for {names.count}: {count}; a container shares one card, so only 1 is "
            "accepted beside the memory"
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
        raise RemoteContractError(f"container {container.name!r}: {resource}: {error}") from error
    if limit is None or asked != amount:
        raise RemoteContractError(
            f"container {container.name!r}: {resource}: limits {limit!r} and requests {request!r} must be equal; "
            "set the limit and leave the request out"
        )
    return amount
