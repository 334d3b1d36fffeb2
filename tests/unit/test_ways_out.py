"""What explain advises is granted once it is done: the advice is tried by the code that grants."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.assignments import Assignment, CardGrant, PodRef
from gcushare.core.cards import MAX_CARDS, Health, InventoryCard
from gcushare.core.errors import Refused
from gcushare.core.explain.explanation import Explainer, Explanation
from gcushare.core.explain.ways_out import Change, WayOut, find_ways_out
from gcushare.core.ledger import Ledger
from gcushare.core.placement import POLICIES
from gcushare.core.requests import CardSelection, ContainerKind, ContainerResources, PodRequest, parse_pod_request
from gcushare.vendors import ENFLAME
from tests.builders import GIB_UNIT, cards

APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR


@dataclass(frozen=True)
class Wish:
    """A pod as its author writes it."""

    containers: tuple[tuple[ContainerKind, int], ...]
    whole: bool = False
    cards: int = 1
    use: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    limit: int = 0

    def parse(self) -> PodRequest:
        name = ENFLAME.whole_card_resource if self.whole else ENFLAME.memory_resource
        found = parse_pod_request(
            [ContainerResources(f"c{n}", kind, {name: str(u)}, {}) for n, (kind, u) in enumerate(self.containers)],
            ENFLAME,
            cards_per_pod=self.cards,
            selection=CardSelection(self.use, self.avoid) if self.use or self.avoid else None,
            memory_limit=self.limit,
        )
        assert found is not None
        return found

    @property
    def real_limit(self) -> int:
        """Its limit; none if that is no more than it asks for: who asks for another amount takes it back."""
        return self.limit if self.parse().cards.limit else 0

    def after(self, way: WayOut) -> Wish:
        """The pod once its author has followed the advice, as its text says it."""
        request = way.request
        total = request.cards if self.whole else request.units * request.cards
        match way.change:
            case Change.AMOUNT:
                return replace(self, containers=((APP, total),), limit=self.real_limit)
            case Change.CARDS:
                same = total == self.parse().total_units
                containers = self.containers if same else tuple((kind, total) for kind, _ in self.containers)
                return replace(self, containers=containers, cards=request.cards, limit=self.real_limit)
            case Change.LIMIT:
                return replace(self, limit=request.limit * request.cards)
            case Change.SELECTION:
                return replace(self, use=(), avoid=())
            case Change.LINKS | Change.NODE | Change.RULES:
                return self


@dataclass
class Cluster:
    nodes: list[list[InventoryCard]]
    held: list[Assignment] = field(default_factory=list)

    def ledger(self) -> Ledger:
        found = Ledger()
        for number, offered in enumerate(self.nodes):
            found.set_node(f"n{number}", offered, GIB_UNIT)
        for each in self.held:
            found.apply(each)
        return found


def explain(cluster: Cluster, request: PodRequest) -> Explanation:
    explainer = Explainer(request.cards)
    for node in cluster.ledger().nodes.values():
        explainer.add(node)
    return explainer.finish()


def is_granted(cluster: Cluster, request: PodRequest) -> bool:
    """The decision of bind: cards are chosen and reserved."""
    for name, node in cluster.ledger().nodes.items():
        try:
            cluster.ledger().reserve(PodRef("new", "d", "new"), name, request.cards, POLICIES["binpack"].rank_card)
        except Refused:
            assert not node.fits(request.cards)
        else:
            return True
    return False


def with_new_node(cluster: Cluster, size: int) -> Cluster:
    new = [msgspec.structs.replace(card, uuid=f"new-{card.index}") for card in cards(*(size,) * MAX_CARDS)]
    return Cluster([*cluster.nodes, new], cluster.held)


names = st.lists(st.sampled_from(["0", "1", "2", "T20", "uuid-1"]), max_size=2, unique=True).map(tuple)
wishes = st.builds(
    Wish,
    st.lists(st.tuples(st.sampled_from([APP, APP, INIT, SIDECAR]), st.integers(1, 40)), min_size=1, max_size=3).map(
        tuple
    ),
    cards=st.sampled_from([1, 1, 1, 2, 3]),
    use=names,
    avoid=names,
    limit=st.sampled_from([0, 0, 0, 24, 36, 60]),
) | st.builds(Wish, st.just(((APP, 3),)), whole=st.just(True), use=names, avoid=names)


def is_parsed(wish: Wish) -> bool:
    try:
        wish.parse()
    except Refused:
        return False
    return True


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    nodes = []
    for _ in range(draw(st.integers(1, 3))):
        sizes = draw(st.lists(st.sampled_from([4, 10, 16, 24]), min_size=1, max_size=4))
        offered = [
            msgspec.structs.replace(
                card,
                cordoned=draw(st.integers(0, 5)) == 0,
                health=draw(st.sampled_from([Health.HEALTHY] * 4 + [Health.UNHEALTHY])),
                model=draw(st.sampled_from(["T20", "S60"])),
            )
            for card in cards(*sizes)
        ]
        nodes.append(offered)
    held = []
    for number in range(draw(st.integers(0, 3))):
        node = draw(st.integers(0, len(nodes) - 1))
        card = draw(st.sampled_from(nodes[node]))
        whole = draw(st.integers(0, 4)) == 0
        grant = CardGrant(card.index, draw(st.integers(1, card.units)), whole)
        held.append(Assignment(PodRef(f"u{number}", "d", f"p{number}"), f"n{node}", (grant,), assigned=True))
    return Cluster(nodes, held)


@pytest.mark.slow
@given(wishes.filter(is_parsed), clusters())
def test_every_advice_for_a_pod_that_never_fits_is_granted_once_it_is_done(wish: Wish, cluster: Cluster) -> None:
    request = wish.parse()
    empty = Cluster(cluster.nodes)
    found = explain(cluster, request)
    assert found.can_ever_fit == is_granted(empty, request)
    ways = find_ways_out(found, request.divisor)
    assert not (found.can_ever_fit and ways)
    for way in ways:
        there = empty
        if way.change is Change.NODE:
            there = with_new_node(empty, max(request.cards.units, request.cards.limit, 1))
        changed = wish.after(way).parse()
        assert is_granted(there, changed), way
        assert (changed.cards.units, changed.cards.cards) == (way.request.units, way.request.cards)


@pytest.mark.slow
@given(wishes.filter(is_parsed), clusters())
def test_the_largest_request_that_fits_now_and_the_pods_that_would_have_to_end_are_granted(
    wish: Wish, cluster: Cluster
) -> None:
    request = wish.parse()
    found = explain(cluster, request)
    assert bool(found.nodes_fit) == is_granted(cluster, request)
    if found.remedy is not None:
        ended = {each.uid for each in found.remedy.victims}
        assert is_granted(Cluster(cluster.nodes, [e for e in cluster.held if e.pod.uid not in ended]), request)
    if not found.nodes_fit and found.largest_now:
        asked, most = request.cards, found.largest_now
        changed = replace(asked, cards=most) if wish.whole else replace(asked, units=most)
        assert is_granted(cluster, replace(request, cards=changed))


@pytest.mark.parametrize(
    ("wish", "sizes", "expected"),
    [
        pytest.param(Wish(((APP, 9), (APP, 9))), (16, 16), ["AMOUNT", "NODE"], id="9 + 9 is not divisible"),
        pytest.param(Wish(((APP, 3), (APP, 15))), (16,) * 3, ["AMOUNT", "CARDS", "NODE"], id="3 + 15 by three cards"),
        pytest.param(Wish(((APP, 3), (APP, 15))), (16, 16), ["AMOUNT", "NODE"], id="3 + 15 by two cards"),
        pytest.param(Wish(((INIT, 19), (APP, 4))), (16, 16), ["AMOUNT", "NODE"], id="init container"),
        pytest.param(Wish(((APP, 20),), use=("0",)), (16, 16), ["AMOUNT", "NODE"], id="use-cards names one"),
        pytest.param(Wish(((APP, 20),), use=("0",)), (16, 24), ["AMOUNT", "SELECTION", "NODE"], id="another would do"),
        pytest.param(
            Wish(((APP, 10),), limit=30, use=("0",)), (16, 24), ["LIMIT", "NODE"], id="limit of allowed cards"
        ),
        pytest.param(Wish(((APP, 20),), use=("uuid-0",)), (), [], id="no card of that name"),
    ],
)
def test_advice_follows_from_what_would_be_granted(wish: Wish, sizes: tuple[int, ...], expected: list[str]) -> None:
    request = wish.parse()
    ways = find_ways_out(explain(Cluster([list(cards(*sizes))]), request), request.divisor)
    assert [way.change.name for way in ways] == expected
    if expected[:1] == ["LIMIT"]:
        assert ways[0].request.limit == 16


def test_a_runtime_with_one_card_per_container_is_not_advised_to_take_several() -> None:
    found = explain(Cluster([list(cards(16, 16))]), Wish(((APP, 20),)).parse())
    assert [way.change for way in find_ways_out(found, 1)] == [Change.AMOUNT, Change.NODE]
