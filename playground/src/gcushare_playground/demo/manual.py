"""The scenario of the Enflame manual's chapter 4.1, and its pods, which claims are played with as well."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from gcushare_playground.demo.playing import Player

MANUAL_NAMESPACE = "kube-system"
MANUAL_CONTAINER = "pod-gcu-example"
MANUAL_QUARTERS = (1, 2, 3, 5)
"""The manual's 4, 8, 12 and 20 GB in quarters of its 16 GB cards."""


async def play_manual(player: Player) -> None:
    """Two pods share card 0, the third gets card 1, the fourth asks for more than any card has."""
    titles = (
        "A first pod gets a part of card 0",
        "A second pod gets the same card: the card in use is filled first",
        "A third pod does not fit on it and gets another card: a pod never spans cards",
        "A fourth pod asks for more than one card has: it stays Pending and says why",
    )
    await play_quarters(player, titles, partial(player.place, container=MANUAL_CONTAINER), player.refuse)


async def play_quarters(
    player: Player,
    titles: Sequence[str],
    place: Callable[[str, int], Awaitable[None]],
    refuse: Callable[[str, int], Awaitable[None]],
) -> None:
    """Create the manual's pods, each a step, and have each placed or refused by its key and units."""
    card_units = player.ledger.largest
    for number, (quarters, title) in enumerate(zip(MANUAL_QUARTERS, titles, strict=True), start=1):
        player.stage.step(f"Step {number}. {title}")
        name, limits = f"gcushare-pod-{number}", {player.vendor.memory_resource: card_units * quarters // 4}
        await player.create(name, limits, namespace=MANUAL_NAMESPACE, container=MANUAL_CONTAINER)
        then = place if quarters <= 4 else refuse
        await then(f"{MANUAL_NAMESPACE}/{name}", card_units * quarters // 4)
    await player.show_cluster()
