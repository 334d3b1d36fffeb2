"""The scenario of a choice of cards: replicas that share no card, and a training whose two cards are linked."""

from __future__ import annotations

from gcushare.wire.annotations import APART, CARDS, CARDS_LINKED
from gcushare_playground.demo.playing import CONTAINER, NAMESPACE, Player
from gcushare_playground.demo.reading import kubelet_cards


async def play_apart_and_linked(player: Player) -> None:
    """Two replicas and a pod next to them, a training over two linked cards, and a replica that has to wait for it."""
    card = player.ledger.largest
    part, stage, memory = card // 4, player.stage, player.vendor.memory_resource

    async def replica(name: str) -> None:
        await player.create(name, {memory: part}, labels={"app": "web"}, annotations={APART: "app"})

    stage.step("Step 1. Two replicas that are kept apart get two cards, though one has room for both")
    await replica("web-0")
    first = await _settle(player, "web-0", part)
    await replica("web-1")
    second = await _settle(player, "web-1", part)
    stage.check("web-1 is on another card than web-0", second != first, True)
    stage.step("Step 2. A pod that does not ask to be kept apart shares a card with one of them")
    await player.create("notebook", {memory: card - part})
    shared = await _settle(player, "notebook", card - part)
    stage.check("notebook is on a card of theirs", shared in (first, second), True)
    stage.step("Step 3. A training over two cards accepts nothing but linked ones")
    await player.create("training", {memory: 2 * card}, annotations={CARDS: "2", CARDS_LINKED: "true"})
    linked = await _settle(player, "training", 2 * card)
    groups = [player.cluster.plan.nodes[0].link_groups[index] for index in linked]
    stage.check(f"its cards are linked: {groups[0]}", groups, groups[:1] * 2)
    stage.step("Step 4. A third replica waits: the one card that has room holds a replica already")
    await replica("web-2")
    message = await player.wait_refused(f"{NAMESPACE}/web-2")
    await player.show_pods()
    stage.check(f"and says why: {message.partition('. ')[0]}", APART in message, True)
    unit, reason = player.cluster.plan.unit.label, "in one card, that holds no other pod of app=web"
    text = "\n".join(await player.show_explain("web-2"))
    stage.check(f"explain says what it needs: {part} {unit} {reason}", reason in text, True)

    stage.step("Step 5. The training ends, and the third replica gets a card of its own")
    await player.delete("training", linked)
    third = await _settle(player, "web-2", part)
    stage.check("web-2 is on a card without a replica", third in (first, second), False)


async def _settle(player: Player, name: str, units: int) -> tuple[int, ...]:
    """Wait until a pod runs, and check that record, kubelet and container agree on its cards."""
    stage, key = player.stage, f"{NAMESPACE}/{name}"
    found = await player.wait_assigned(key)
    record = player.record_of(found)
    cards = record.card_indexes if record is not None else ()
    await player.show_pods()
    each = units // max(1, len(cards))
    held = kubelet_cards(player.cluster, player.node, found["metadata"]["uid"])
    names = ",".join(map(str, cards))
    stage.check(
        f"the kubelet gave it {each} units of card {names} as its record says", held, dict.fromkeys(cards, each)
    )
    await player.show_given(found, CONTAINER, cards)
    for card in cards:
        player.take(name, card, each)
    await player.show_inspect()
    return cards
