"""The pods of the simulated bursts: the rules of their authors, and the containers that ask for cards."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.vendors import ENFLAME
from gcushare.wire import annotations as keys
from simulation.store import Doc

MEMORY, WHOLE = ENFLAME.memory_resource, ENFLAME.whole_card_resource
RULES: tuple[Mapping[str, str], ...] = (
    {}, {}, {keys.CARDS: "2"}, {keys.CARDS: "2"}, {keys.USE_CARDS: "0"}, {keys.USE_CARDS: "1"}, {keys.USE_CARDS: "S60"},
    {keys.USE_CARDS: "T20,S60"}, {keys.USE_CARDS: "strongest"}, {keys.AVOID_CARDS: "0"}, {keys.AVOID_CARDS: "T20"},
    {keys.CARD_POLICY: "spread"}, {keys.CARDS: "2", keys.AVOID_CARDS: "1"}, {keys.MEMORY_LIMIT: "16"},
    {keys.MEMORY_LIMIT: "12", keys.CARDS: "2"}, {keys.CARDS: "3"}, {keys.CARDS: "2", keys.USE_CARDS: "S60"},
    {keys.MEMORY_LIMIT: "8"}, {keys.CARDS: "2", keys.USE_CARDS: "strongest"}, {keys.USE_CARDS: "0,2"},
    {keys.COMPUTE_SHARE: "proportional"},
)  # fmt: skip
RULES_BETWEEN_CARDS = (
    *({keys.APART: "app"}, {keys.APART: "app"}, {keys.APART: "app"}, {keys.APART: "app", keys.CARDS: "2"}),
    *({keys.CARDS: "2", keys.CARDS_LINKED: "true"}, {keys.CARDS: "2", keys.CARDS_LINKED: "true", keys.APART: "app"}),
)
"""Those that depend on what other cards, or the pods on them, are."""
Shape = tuple[tuple[str, int], ...]
"""Each container that asks for cards: init, sidecar or app, and its amount."""


def _shapes(*texts: str) -> tuple[Shape, ...]:
    return tuple(
        tuple((kind, int(amount)) for kind, _, amount in (part.partition(":") for part in text.split()))
        for text in texts
    )


SHAPES = _shapes(
    "app:2", "app:4", "app:4", "app:4", "app:12", "app:16", "app:24", "app:2 app:2", "app:2 app:4", "app:2 app:10",
    "app:6 app:6 app:6", "init:2 app:2", "init:2 app:4", "init:4 app:2", "init:8 app:2", "init:12 app:6",
    "init:18 app:12", "init:6 app:2 app:2", "init:14 app:4 app:4", "init:2 init:6 app:2", "init:6 init:2 app:4",
    "init:4 init:4 app:4", "init:4 sidecar:2 app:2", "init:6 sidecar:6 app:6", "sidecar:2 init:2 app:2",
    "sidecar:2 init:6 app:4", "sidecar:4 init:8 app:2", "sidecar:4 init:8 app:2", "sidecar:2 sidecar:4 app:4",
    "init:4 sidecar:4 init:8 app:4 app:2",
)  # fmt: skip
WHOLE_SHAPES = _shapes(
    "app:1", "app:2", "app:1 app:1", "init:2 app:1", "init:3 app:2", "init:2 app:1 app:1", "init:1 sidecar:1 app:1"
)


def make_pod(name: str, amounts: Shape, resource: str, rule: Mapping[str, str]) -> Doc:
    """Write a pod that asks for a resource; it has its name as its uid."""
    containers: dict[str, list[Doc]] = {"initContainers": [], "containers": []}
    for number, (kind, amount) in enumerate(amounts):
        container: Doc = {"name": f"{kind}{number}", "resources": {"limits": {resource: str(amount)}}}
        if kind == "sidecar":
            container["restartPolicy"] = "Always"
        containers["containers" if kind == "app" else "initContainers"].append(container)
    metadata = {"name": name, "namespace": "default", "uid": name, "annotations": dict(rule), "labels": {"app": "web"}}
    return {"metadata": metadata, "spec": containers, "status": {}}
