"""The scenario of whole and shared cards: a card is free, shared or whole, never two of them at a time."""

from __future__ import annotations

from gcushare.core.wording import counted
from gcushare_playground.demo.playing import CONTAINER, NAMESPACE, Player
from gcushare_playground.demo.reading import kubelet_whole_cards
from gcushare_playground.picture import allocatable_of, node_of


async def play_whole_and_shared(player: Player) -> None:
    """Pods that share a card, one that wants two for itself, one that has to wait for them, and who sees what."""
    quarter = player.ledger.largest // 4
    player.stage.step("Step 1. A pod that asks for memory shares a card, which no one can have whole from now on")
    await _create_sharing(player, "notebook-1", quarter)
    await _show_allocatable(player)
    player.stage.step("Step 2. A pod that asks for two whole cards gets two that no one uses; their memory is closed")
    await player.create("training", {player.vendor.whole_card_resource: 2})
    cards = await _settle_whole(player, "training", 2)
    await _show_allocatable(player)
    player.stage.step("Step 3. A second pod that asks for memory gets the same card: free cards stay free")
    await _create_sharing(player, "notebook-2", quarter)
    unshared = sum(1 for used in player.ledger.used if not used) + len(cards)
    player.stage.step(
        f"Step 4. A pod asks for {counted(unshared, 'card')}, all that are not shared: it stays Pending and says why"
    )
    await player.create("big-training", {player.vendor.whole_card_resource: unshared})
    expected = f"0/1 nodes are available: 1 Insufficient {player.vendor.whole_card_resource}."
    await player.tell_refused(f"{NAMESPACE}/big-training", expected)
    player.stage.step(
        "Step 5. The training ends: its cards are free again, and the pod that waits gets what it asked for"
    )
    await player.delete("training", cards)
    await _settle_whole(player, "big-training", unshared)
    await _show_allocatable(player)
    await player.show_cluster()


async def _create_sharing(player: Player, name: str, units: int) -> None:
    await player.create(name, {player.vendor.memory_resource: units})
    await player.place(f"{NAMESPACE}/{name}", units)


async def _settle_whole(player: Player, name: str, count: int) -> tuple[int, ...]:
    """Wait until a pod runs on whole cards, and check everything that says which they are; returns them."""
    stage, node, cards = player.stage, player.node, player.ledger.whole_cards_for(count)
    found = await player.wait_assigned(f"{NAMESPACE}/{name}")
    await player.show_pods()
    stage.check(f"{NAMESPACE}/{name} runs on {node}", node_of(found), node)
    player.ledger.take_whole(cards)
    for card in cards:
        player.shown.setdefault(card, {})[name] = player.ledger.capacity[card]
    record = player.record_of(found)
    reported = record and (record.card_indexes, record.whole, record.assigned)
    stage.check(f"its record names card {_names(cards)}, whole, assigned", reported, (cards, True, True))
    held = kubelet_whole_cards(player.cluster, node, found["metadata"]["uid"])
    stage.check(f"the kubelet gave it card {_names(cards)} and no other", held, cards)
    sight = await player.show_given(found, CONTAINER, cards)
    limit = sight.environment.get(player.vendor.environment.container_units)
    stage.check("and no limit of memory: the cards are its own", limit, None)
    await player.show_inspect()
    return cards


async def _show_allocatable(player: Player) -> None:
    """Show what the node could still give, once its kubelet has reported it."""
    name, nodes, vendor = player.node, player.cluster.nodes, player.vendor
    words, wanted = (vendor.memory_resource, vendor.whole_card_resource), player.ledger.allocatable()

    def found() -> tuple[int, ...]:
        return tuple(allocatable_of(nodes.objects[name], word) for word in words)

    await nodes.until(lambda: found() == wanted, f"{name} has {wanted} of {words}", shown=lambda: str(found()))
    player.stage.command(f"kubectl describe node {name}")
    lines = (f"  {word}: {count}" for word, count in zip(words, wanted, strict=True))
    player.stage.output("\n".join(["Allocatable:", *lines]))
    offered = f"{name} offers {counted(wanted[0], 'unit')} and {counted(wanted[1], 'whole card')}"
    player.stage.check(offered, found(), wanted)


def _names(cards: tuple[int, ...]) -> str:
    return ",".join(map(str, cards))
