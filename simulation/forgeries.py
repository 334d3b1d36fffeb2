"""Draws what authors and stolen tokens forge, in storms alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from gcushare.vendors import VENDORS_BY_NAME
from gcushare.wire import annotations as keys
from simulation.schedule import Action, Settings

FORGERIES = {"forge record", "forge inventory", "forge mirror", "secret"}
"""What attackers and careless admins write into objects of ours."""
SECRET_FAULTS = ("lost", "half written", "torn", "swapped", "replaced")
"""What becomes of the certificates' Secret."""


def draw_forgeries(rng: random.Random, settings: Settings, from_s: float, until_s: float) -> Iterator[Action]:
    """In some storms, authors and stolen tokens forge what only our programs write."""
    vendor = VENDORS_BY_NAME[settings.vendor]
    for _ in range(rng.choice([0, 1, 4])):
        args: dict[str, Any] = {"how": rng.choice(SECRET_FAULTS), "for_s": rng.choice([1.0, 30.0, 90.0])}
        yield Action(round(rng.uniform(from_s, until_s), 3), "secret", args)
    if rng.random() < 0.6:
        return
    record = vendor.record
    values: dict[str, list[str | None]] = {
        record.card_index: ["0", "1", "9", "x", None],
        record.card_units: ["1", "999999999", "x"],
        record.pod_units: ["0", "1", "-1", "999999999"],
        record.assigned: ["true", "false", None],
        keys.CARD_MODE: [keys.MODE_WHOLE, None],
        keys.UNITS_BY_CARD: ["1,2", "x"],
        keys.CORRECTED: ["0->1"],
    }
    at_s = from_s + rng.expovariate(1 / 5.0)
    while at_s < until_s:
        node = rng.randrange(len(settings.nodes))
        if rng.random() < 0.15:
            texts = [None, "x", "{}", '{"version":1,"unit":"1","cards":[]}']
            args = {"node": node, "of": rng.randrange(len(settings.nodes))}
            yield Action(round(at_s, 3), "forge inventory", {**args, "text": rng.choice(texts)})
        else:
            changes = {key: rng.choice(values[key]) for key in rng.sample(list(values), rng.choice([1, 2, 4]))}
            if rng.random() < 0.2:
                changes = {keys.ROOM_FOUND: str(rng.random())}
            by = rng.choice([None, node])
            args = {"node": by, "which": rng.random(), "changes": changes}
            yield Action(round(at_s, 3), "forge record", args)
        at_s += rng.expovariate(1 / 5.0)


def draw_mirrors(rng: random.Random, settings: Settings, from_s: float, until_s: float) -> Iterator[Action]:
    """In some storms, authors make pods that pass for mirrors of static pods."""
    for _ in range(rng.choice([0, 0, 1, 5])):
        args = {
            "node": rng.randrange(len(settings.nodes)),
            "name": f"m{rng.randrange(1_000_000)}",
            "units": rng.choice([1, 2, 4, 8, 16]),
            "hash_of": rng.choice(["", "uid", "name"]),
            "which": rng.random(),
            "with_record": rng.random() < 0.3,
            "for_s": rng.choice([0.5, 60.0, 600.0]),
        }
        yield Action(round(rng.uniform(from_s, until_s), 3), "forge mirror", args)
