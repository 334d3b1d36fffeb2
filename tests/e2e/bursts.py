"""Pods that are created together and differ in the cards they may have, and what must hold for each once it is at rest.

Most pods of a burst ask the kubelet for the same number next: no call of the kubelet names a pod, so these are the pods
that may be taken for each other. The rules are counted here from what the pods ask for, by no code of the programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from gcushare.core.requests import STRONGEST, ContainerKind
from gcushare.core.units import GIB
from gcushare.vendors import ENFLAME
from gcushare.wire import annotations as keys
from gcushare_playground.plans import NodePlan
from tests.e2e.control_plane import NODE
from tests.e2e.images import NAME
from tests.e2e.node_side import real_pod
from tests.e2e.objects import JsonObject

UNITS = (16, 16, 16, 24)
MODELS = ("i20", "i20", "s60", "s60")
EVERY = frozenset(range(len(UNITS)))
BURST_SIZES = range(4, 9)
_INIT, _SIDECAR, _APP = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.APP


class MixedCards(NodePlan):
    """Four cards of two models and two sizes."""

    def cards_document(
        self, unhealthy: Mapping[int, str] | None = None, used: Mapping[int, int] | None = None
    ) -> bytes:
        document = super().cards_document(unhealthy, used)
        for model in MODELS:
            document = document.replace(b'"model": ""', f'"model": "{model}"'.encode(), 1)
        return document


FOUR_MIXED = MixedCards(name=NODE, card_bytes=tuple(units * GIB for units in UNITS))


@dataclass(frozen=True, slots=True)
class Rule:
    """What annotations say of a pod's cards: those that it may have, and those that it gets while there is room."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    allowed: frozenset[int] = EVERY
    preferred: frozenset[int] = EVERY


ANY = Rule()
_CHOICES = (
    Rule({keys.USE_CARDS: "0"}, frozenset({0})),
    Rule({keys.USE_CARDS: "1"}, frozenset({1})),
    Rule({keys.USE_CARDS: "2,3"}, frozenset({2, 3})),
    Rule({keys.AVOID_CARDS: "0"}, EVERY - {0}),
    Rule({keys.AVOID_CARDS: "0,1"}, EVERY - {0, 1}),
    Rule({keys.USE_CARDS: "i20"}, frozenset({0, 1})),
    Rule({keys.AVOID_CARDS: "s60"}, frozenset({0, 1})),
    Rule({keys.USE_CARDS: f"{NODE}-card-2"}, frozenset({2})),
    Rule({keys.USE_CARDS: "s60", keys.AVOID_CARDS: "3"}, frozenset({2})),
    Rule({keys.USE_CARDS: "s60,i20"}, preferred=frozenset({2, 3})),
    Rule({keys.USE_CARDS: STRONGEST}, preferred=frozenset({3})),
)
_OF_MEMORY = (Rule({keys.CARD_POLICY: "spread"}), Rule({keys.CARD_POLICY: "binpack"}))
_OF_ONE_CARD = (Rule({keys.MEMORY_LIMIT: "20"}, frozenset({3})),)
_OF_WHOLE_CARDS = (Rule({keys.WHOLE_CARD_POLICY: "loose"}),)


@dataclass(frozen=True, slots=True)
class Part:
    """One container: when it runs, and how many units or whole cards it asks for."""

    name: str
    kind: ContainerKind
    amount: int


@dataclass(frozen=True, slots=True)
class BurstPod:
    """One pod of a burst. ``cards``: over how many its memory is spread. ``by_hand``: no scheduler places it."""

    name: str
    parts: tuple[Part, ...]
    rule: Rule = ANY
    cards: int = 1
    whole: bool = False
    by_hand: bool = False

    @property
    def total(self) -> int:
        """The units or whole cards that the pod holds at its peak, by Kubernetes' rule for init containers."""
        together = sidecars = alone = 0
        for part in self.parts:
            if part.kind is _INIT:
                alone = max(alone, sidecars + part.amount)
            else:
                together += part.amount
                sidecars += part.amount if part.kind is _SIDECAR else 0
        return max(together, alone)

    def needs(self, card: int) -> int:
        """The units that the pod holds on one of its cards."""
        return UNITS[card] if self.whole else self.total // self.cards

    def body(self) -> JsonObject:
        """Write the pod."""
        body = real_pod(self.name, 0)
        if self.by_hand:
            body["spec"]["nodeName"] = NODE
        spread = {keys.CARDS: str(self.cards)} if self.cards > 1 else {}
        body["metadata"]["annotations"] = {**self.rule.annotations, **spread}
        resource = ENFLAME.whole_card_resource if self.whole else ENFLAME.memory_resource
        written = [(part.kind, _container(part, resource)) for part in self.parts]
        body["spec"]["initContainers"] = [each for kind, each in written if kind is not _APP]
        body["spec"]["containers"] = [each for kind, each in written if kind is _APP]
        return body

    def __str__(self) -> str:
        parts = " ".join(f"{part.kind.value}:{part.amount}" for part in self.parts)
        options = self.body()["metadata"]["annotations"]
        words = " ".join(f"{key.removeprefix('gcushare.io/')}={value}" for key, value in options.items())
        kind = " whole" if self.whole else ""
        return f"{self.name} [{parts}{kind}{' by hand' if self.by_hand else ''}{' ' + words if words else ''}]"


def _container(part: Part, resource: str) -> JsonObject:
    limits = {resource: str(part.amount)}
    container: JsonObject = {"name": part.name, "image": NAME, "imagePullPolicy": "Never"}
    container["resources"] = {"limits": limits}
    if part.kind is _SIDECAR:
        container |= {"restartPolicy": "Always"}
    return container | ({"args": ["once"]} if part.kind is _INIT else {})


def draw_burst(random: Random, number: int, *, by_hand: float = 0.0) -> tuple[BurstPod, ...]:
    """Draw the pods of one burst; each of them is placed by no scheduler with probability ``by_hand``.

    Nearly all ask for ``amount`` first. Most bursts leave room on the node; some ask for more than it has.
    """
    amount = random.choice((2, 4, 4, 6))
    has_whole = random.random() < 0.4
    room = sum(UNITS) * (2 if random.random() < 0.15 else 0.6)
    burst: list[BurstPod] = []
    for position in range(random.choice(BURST_SIZES)):
        name = f"b{number}-{position}"
        whole = has_whole and random.random() < 0.3
        made = _draw_whole(random, name) if whole else _draw_shared(random, name, amount)
        room -= max(map(made.needs, made.rule.allowed)) * (made.total if whole else made.cards)
        if room < 0 and burst:
            break
        burst.append(BurstPod(made.name, made.parts, made.rule, made.cards, made.whole, random.random() < by_hand))
    return tuple(burst)


def _draw_shared(random: Random, name: str, amount: int) -> BurstPod:
    cards = random.choice((1, 1, 2))
    parts = _draw_parts(random, amount, cards)
    pod = BurstPod(name, parts, cards=cards)
    choices = [ANY, ANY, ANY, *_CHOICES, *_OF_MEMORY, *(_OF_ONE_CARD if cards == 1 and pod.total < 20 else ())]
    fitting = [rule for rule in choices if len(rule.allowed) >= cards]
    return BurstPod(name, parts, random.choice(fitting), cards)


def _draw_whole(random: Random, name: str) -> BurstPod:
    parts = random.choice(
        (
            (Part("main", _APP, 1),),
            (Part("main", _APP, 1),),
            (Part("main", _APP, 2),),
            (Part("main", _APP, 1), Part("second", _APP, 1)),
            (Part("first", _INIT, 1), Part("main", _APP, 1)),
            (Part("first", _INIT, 2), Part("main", _APP, 1)),
        )
    )
    pod = BurstPod(name, parts, whole=True)
    fitting = [rule for rule in (ANY, ANY, *_CHOICES, *_OF_WHOLE_CARDS) if len(rule.allowed) >= pod.total]
    return BurstPod(name, parts, random.choice(fitting), whole=True)


def _draw_parts(random: Random, amount: int, cards: int) -> tuple[Part, ...]:
    main = Part("main", _APP, amount)
    less = Part("main", _APP, max(cards, amount // 2 // cards * cards))
    several: Sequence[tuple[Part, ...]] = (
        (main, Part("second", _APP, amount)),
        (main, Part("second", _APP, cards), Part("third", _APP, amount)),
        (Part("first", _INIT, amount), less),
        (Part("first", _INIT, amount), Part("next", _INIT, less.amount), main),
        (Part("aside", _SIDECAR, amount), main),
        (Part("aside", _SIDECAR, less.amount), Part("first", _INIT, amount), less),
    )
    return random.choice(((main,),) * 8 + tuple(several))
