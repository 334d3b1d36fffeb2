"""What the page shows: figures, pieces, nodes, pods, what waits and why, and what needs a look."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.cli.kubectl.summary import percent_of
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import CARDS, CORRECTED, IDLE_SINCE, MEMORY_LIMIT, OVER_USE
from gcushare.wire.objects import Node, Pod
from tests.browser.canvas import box_of, colour_of, find, painted, until_painted, variable
from tests.browser.contrast import texts_of_the_map
from tests.browser.page_rig import PageRig, handed_out
from tests.browser.tab import Tab
from tests.builders import card
from tests.extender_objects import a_node, a_pod, as_whole, inventory_text, node_document, on_card, pod_document

FILLED = 5000
"""Pixels of a colour that fills a part of a card; a frame has fewer."""


def small_cluster() -> list[Node | Pod]:
    """Two nodes: 16 + 16 with 6 and 12 used on node-1, 16 free on node-2's only card."""
    return [
        a_node("node-1", 16, 16),
        a_node("node-2", 16),
        a_pod("a", 6, node="node-1", record=handed_out(0, 6), namespace="vision", labels={"app": "ocr"}),
        a_pod("b", 12, node="node-1", record=handed_out(1, 12), namespace="speech"),
    ]


async def test_the_glance_tells_how_full_it_is_and_what_still_fits(rig: PageRig, tab: Tab) -> None:
    rig.see(*small_cluster())
    await tab.show(rig.url)

    assert await tab.text("#granted-share") == "37%"
    assert await tab.text("#granted-words") == "18 GB of 48 GB\n30 GB free for new pods"
    assert await tab.text("#largest") == "16 GB"
    assert await tab.text("#largest-where") == "card 0 of node-2"
    assert await tab.text("#whole-free") == "1 card entirely free"
    assert (await tab.text("#room")).split("\n") == ["15 × 2 GB", "7 × 4 GB", "3 × 8 GB", "1 × 16 GB"]
    assert await tab.text("#shown") == "2 nodes · 3 cards · 2 pods"
    assert await tab.text("#attention") == "Nothing needs a look"


async def test_every_card_is_drawn_in_the_colours_of_who_holds_it(rig: PageRig, tab: Tab) -> None:
    rig.see(*small_cluster(), a_pod("c", 2, node="node-1", record=handed_out(1, 2), namespace="speech"))
    await tab.show(rig.url)

    shown = await painted(tab)
    assert {await colour_of(tab, "vision"), await colour_of(tab, "speech")} <= shown
    # Pieces of 16, 10 and 2 of 16: of what is free the small is distinguished, and the legend names both greys.
    assert {await variable(tab, "--free"), await variable(tab, "--sliver")} <= shown
    assert (await tab.text("#legend")).split("\n") == ["free", "free, under 15% of a card"]


async def test_where_there_is_one_namespace_colours_tell_pods_apart(rig: PageRig, tab: Tab) -> None:
    pods = [a_pod(f"p{number}", 1, node="node-1", record=handed_out(0, 1)) for number in range(12)]
    rig.see(a_node("node-1", 16), *pods)
    await tab.show(f"{rig.url}#node=enflame/node-1")
    hues = "[...document.querySelectorAll('.strip button')].map((each) => each.style.getPropertyValue('--hue'))"
    assert len(set(await tab.evaluate(hues))) == 12
    assert {await variable(tab, f"--ns-{number}") for number in range(12)} <= await painted(tab)
    assert "a colour for each pod" in await tab.text("#legend")

    rig.see(a_node("node-2", 16), a_pod("q", 4, node="node-2", record=handed_out(0, 4), namespace="other"))
    await tab.until(f"new Set({hues}).size === 1")
    await until_painted(tab, await colour_of(tab, "default"), await colour_of(tab, "other"), least=100)
    assert "a colour for each pod" not in await tab.text("#legend")


async def test_cards_without_pods_take_less_room(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16, 16), a_pod("a", 8, node="node-1", record=handed_out(0, 8), namespace="vision"))
    rig.see(a_node("node-2", 16), a_pod("b", 16, node="node-2", record=handed_out(0, 16), namespace="speech"))
    await tab.show(f"{rig.url}#ns=vision")
    _, top, _, bottom = await box_of(tab, await colour_of(tab, "vision"))
    _, _, _, end = await box_of(tab, await variable(tab, "--free"))
    assert 0.4 < (end - bottom) / (bottom - top) < 0.8

    await tab.open("node=enflame/node-1")
    strips = "[...document.querySelectorAll('.card')].map((each) => Boolean(each.querySelector('.strip')))"
    assert await tab.evaluate(strips) == [True, False]


async def test_a_pod_that_is_not_started_yet_is_framed_in_its_colour_until_it_is(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16), a_pod("a", 12, node="node-1", record=on_card(0, 12), namespace="vision"))
    rig.see(a_node("node-2", 16), a_pod("b", 12, node="node-2", record=handed_out(0, 12), namespace="speech"))
    await tab.show(rig.url)
    hue = await colour_of(tab, "vision")
    assert hue in await painted(tab)
    assert hue not in await painted(tab, FILLED)
    assert "not started yet" in await tab.text("#legend")
    rig.see(a_pod("a", 12, node="node-1", record=handed_out(0, 12), namespace="vision"))
    await until_painted(tab, hue, least=FILLED)


async def test_the_slider_shows_which_pieces_a_request_could_use(rig: PageRig, tab: Tab) -> None:
    rig.see(*small_cluster())
    await tab.show(f"{rig.url}#size=12")

    assert await tab.text("#probe-size") == "12 GB"
    assert await tab.text("#probe-words") == "fits on 1 card of 1 node · 46% of what is free is in smaller pieces"
    uses = "[...document.querySelectorAll('#histogram div')].map((each) => each.dataset.use)"
    assert (await tab.evaluate(uses)) == ["lost"] * 11 + ["usable"] * 5
    shown = await painted(tab)
    assert {await variable(tab, "--fits"), await variable(tab, "--sliver")} <= shown
    assert await variable(tab, "--free") not in shown
    assert (await tab.text("#legend")).split("\n") == ["it fits", "too small for it"]


def counted_in(unit: str, name: str, *sizes: int) -> Node:
    """A node whose units are not the usual GiB."""
    inventory = inventory_text([card(index, size) for index, size in enumerate(sizes)], unit)
    return a_node(name, *sizes, annotations={ENFLAME.inventory_annotation: inventory})


@pytest.mark.parametrize(
    ("unit", "sizes", "largest", "room", "step"),
    [
        ("1", (22,), "22 GB", "11 × 2 GB\n4 × 5 GB\n2 × 11 GB\n1 × 22 GB", "1 GB"),
        ("1", (3, 2), "3 GB", "5 × 1 GB\n1 × 3 GB", "1 GB"),
        ("0.1", (15,), "1.5 GB", "15 × 0.1 GB\n5 × 0.3 GB\n2 × 0.7 GB\n1 × 1.5 GB", "0.1 GB"),
        ("MiB", (23028,), "23,028 MiB", "8 × 2,878 MiB\n4 × 5,757 MiB\n2 × 11,514 MiB\n1 × 23,028 MiB", "1 GiB"),
    ],
)
async def test_every_size_that_is_offered_is_one_that_a_pod_can_ask_for(
    rig: PageRig, tab: Tab, unit: str, sizes: tuple[int, ...], largest: str, room: str, step: str
) -> None:
    rig.see(counted_in(unit, "node-1", *sizes))
    await tab.show(rig.url)

    assert await tab.text("#largest") == largest
    assert await tab.text("#room") == room
    await tab.evaluate("document.querySelector('#probe').focus()")
    await tab.press("ArrowRight")
    await tab.until_text("#probe-size", step)


async def test_a_node_opens_with_its_cards_and_pods(rig: PageRig, tab: Tab) -> None:
    document = node_document("node-1", offered=[card(0, model="S60"), card(1, model="S60")])
    document["metadata"]["labels"] = {"zone": "a"}
    document["status"]["addresses"] = [{"type": "InternalIP", "address": "10.1.2.3"}]
    rig.see(msgspec.convert(document, Node), *small_cluster()[2:])
    await tab.show(f"{rig.url}#node=enflame/node-1")

    assert await tab.text("#panel-title") == "node-1"
    words = await tab.text("#panel-body")
    for part in ("Card 0", "6 GB of 16 GB granted", "10 GB free", "vision/a", "zone=a", "10.1.2.3", "S60 · uuid-0"):
        assert part in words


async def test_a_click_on_a_pods_part_of_a_card_opens_the_pod(rig: PageRig, tab: Tab) -> None:
    rig.see(*small_cluster())
    await tab.show(f"{rig.url}#node=enflame/node-1")
    await tab.click(".strip button")
    await tab.until("document.querySelector('#panel-title').innerText === 'vision/a'")

    words = await tab.text("#panel-body")
    for part in ("node-1", "6 GB of card 0", "app=ocr", "running on its card", "uid-a"):
        assert part in words


async def test_a_click_into_the_map_opens_what_was_hit(rig: PageRig, tab: Tab) -> None:
    rig.see(*small_cluster())
    await tab.show(rig.url)
    await tab.page.mouse.click(*await find(tab, await colour_of(tab, "speech")))
    await tab.until("location.hash === '#pod=enflame/speech/b' && !document.querySelector('#panel').hidden")
    await tab.press("Escape")
    await tab.until("location.hash === '' && document.querySelector('#panel').hidden")
    await tab.settle()
    x, y = await tab.evaluate("(({x, y}) => [x, y])(document.querySelector('#canvas').getBoundingClientRect())")
    await tab.page.mouse.click(x + 60, y + 25)
    await tab.until("location.hash === '#node=enflame/node-1'")


async def test_waiting_pods_say_why(rig: PageRig, tab: Tab) -> None:
    rig.see(*small_cluster(), a_pod("big", 24, namespace="nlp"), a_pod("odd", "1.5", namespace="nlp"))
    rig.see(a_pod("c", 10, node="node-2", record=on_card(0, 10)), a_pod("fits-not", 12))
    await tab.show(rig.url)
    assert "3\nwaiting pods" in await tab.text("#attention")
    await tab.click("#attention [data-kind=waiting]")

    await tab.until_text("#panel-body", "It can never fit: no card that it may use has more than 16 GB.")
    await tab.until_text("#panel-body", "The largest request that fits now is 10 GB.")
    assert "It cannot be granted: " in await tab.text("#panel-body")


async def test_a_pod_that_can_never_fit_is_red_and_says_what_would_help(rig: PageRig, tab: Tab) -> None:
    rig.see(*small_cluster(), a_pod("big", 24), a_pod("late", 16))
    rig.see(a_pod("c", 1, node="node-2", record=on_card(0, 1)))
    await tab.show(f"{rig.url}#pod=enflame/default/big")

    words = await tab.until_text(".ways", "What would help")
    assert words.split("\n")[1:] == [
        "ask for at most 16 GB",
        'set the annotation gcushare.io/cards to "2": 12 GB on each of 2 cards of one node',
        "add a node with 1 card of 24 GB or more",
    ]
    colour = "getComputedStyle(document.querySelector($0)).color"
    assert await tab.text("#panel-body .chip[data-kind=bad]") == "can never fit"
    assert await tab.evaluate(colour, ".verdict") == await tab.evaluate(colour, "#panel-body .chip[data-kind=bad]")
    assert not await tab.evaluate("document.querySelector('.meter') !== null"), "it is near to nothing"

    await tab.open("pod=enflame/default/late")
    await tab.until("document.querySelector('.meter') !== null")
    assert await tab.text("#panel-body .chip[data-kind=warn]") == "waiting"
    assert not await tab.evaluate("document.querySelector('.ways, .verdict.bad') !== null")


@pytest.mark.parametrize(
    ("cards", "limit", "verdict", "way"),
    [
        (
            "2",
            None,
            "no node that it may use has more than 16 GB on each of 2 cards.",
            "at most 16 GB on each of 2 cards",
        ),
        ("3", None, "It can never fit on the nodes that there are.", "add a node with 3 cards of 20 GB or more"),
        (None, "70", "It can never fit on the nodes that there are.", "add a node with 1 card of 70 GB or more"),
    ],
)
async def test_the_most_that_there_is_is_said_of_what_the_pod_asks_for(
    rig: PageRig, tab: Tab, cards: str | None, limit: str | None, verdict: str, way: str
) -> None:
    wanted = {CARDS: cards, MEMORY_LIMIT: limit}
    units = 20 * int(cards) if cards else 8
    rig.see(*small_cluster(), a_pod("p", units, annotations={key: value for key, value in wanted.items() if value}))
    await tab.show(f"{rig.url}#pod=enflame/default/p")

    assert verdict in await tab.until_text(".why", "What would help")
    assert way in await tab.text(".ways")


async def test_a_waiting_pod_is_explained_by_kinds_of_nodes(rig: PageRig, tab: Tab) -> None:
    document = pod_document("p", 14)
    document["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
    ]
    rig.see(*small_cluster(), a_pod("c", 4, node="node-2", record=on_card(0, 4)), msgspec.convert(document, Pod))
    await tab.show(f"{rig.url}#pod=enflame/default/p")

    await tab.until_text("#panel-body", "kube-scheduler says")
    await tab.until_text(".why", "It would fit on")
    words = await tab.text("#panel-body")
    for part in ("14 GB in one card", "too little free memory", "best card: 12 GB free", "0/2 nodes are available"):
        assert part in words

    rig.see(a_pod("in-mib", 3072, annotations={"gcushare.io/memory-unit": "MiB"}))
    await tab.open("pod=enflame/default/in-mib")
    await tab.until_text("#panel-body", "3 GB in one card")


async def test_room_that_the_scheduler_did_not_ask_about_is_reported(rig: PageRig, tab: Tab) -> None:
    rig.see(*small_cluster(), a_pod("c", 10, node="node-2", record=on_card(0, 10)), a_pod("p", 9))
    rig.states[0].refused_on.record("uid-p", frozenset({"node-2"}))
    await tab.show(f"{rig.url}#pod=enflame/default/p")

    await tab.until_text(".why", "The scheduler asked about 1 of 2 nodes.")
    words = await tab.text(".why")
    assert "1 other has room, but another resource" in words
    assert "keeps the pod off: node-1" in words
    assert "The scheduler does not end them by itself" in words


async def test_a_pod_over_its_grant_is_counted_listed_and_explained(rig: PageRig, tab: Tab) -> None:
    note = '{"since":"2026-11-22T03:00:00Z","cards":{"0":{"used":5368709120,"granted":4294967296}}}'
    greedy = a_pod("greedy", 4, node="node-1", record=on_card(0, 4), annotations={OVER_USE: note})
    rig.see(*small_cluster(), greedy)
    await tab.show(rig.url)

    await tab.until_text("#attention", "pod over its grant")
    assert "over its grant" in await tab.text("#legend")
    await tab.click("#attention [data-kind=overuse]")
    words = await tab.until_text("#panel-body", "5.00 GiB of card 0 in use, 4.00 GiB granted")
    assert words.startswith("Pods over their grant")
    assert "4 GB, 5 GB in use" in {each.words for each in await texts_of_the_map(tab)}
    await tab.open("pod=enflame/default/greedy")
    assert "In use\n\n5 GB of card 0" in await tab.text("#panel-body")
    rig.see(a_pod("idle", 1, node="node-2", record=on_card(0, 1), annotations={IDLE_SINCE: "2026-01-01T00:00:00Z"}))
    await tab.open("pod=enflame/default/idle")
    await tab.until_text("#panel-body", "nothing for ")
    await tab.open("pod=enflame/vision/a")
    assert "kubectl inspect gcushare top node-1" in await tab.text("#panel-body"), "the extender does not know it"


async def test_what_needs_a_look_is_counted_and_listed(rig: PageRig, tab: Tab) -> None:
    unready = node_document("node-3", 16)
    unready["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    rig.see(
        a_node("node-1", offered=[card(0, sick=True, reason="XID 79"), card(1)]),
        a_node("node-2", 16, annotations={ENFLAME.cordon_annotation: "0"}),
        a_node("node-4", 16, annotations={ENFLAME.inventory_annotation: "{"}),
        msgspec.convert(unready, Node),
    )
    rig.see(a_pod("moved", 4, node="node-2", record=on_card(0, 4), annotations={CORRECTED: "1->0"}))
    await tab.show(rig.url)

    attention = (await tab.text("#attention")).replace("\n", " ")
    assert attention == ("1 sick card 1 node not ready 1 record that cannot be read 1 cordoned card 1 corrected record")
    await tab.click("#attention [data-kind=corrected]")
    words = await tab.until_text("#panel-body", "the record was corrected (1->0)")
    assert words.startswith("Corrected records")
    for part in ("node-1 · Card 0", "Sick: XID 79", "node-2 · Card 0", "1 pod stays on it", "node-3", "inventory"):
        assert part in words


async def test_cards_are_free_or_shared_or_held_whole(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16, 16, 16, modes=(SERVES_MEMORY, SERVES_WHOLE)))
    rig.see(a_pod("w", whole=1, node="node-1", record=as_whole(0)))
    rig.see(a_pod("a", 6, node="node-1", record=handed_out(1, 6)))
    await tab.show(f"{rig.url}#node=enflame/node-1")

    cards = await tab.evaluate("[...document.querySelectorAll('.card-head .right')].map((each) => each.innerText)")
    assert cards == ["granted whole", "10 GB free", "16 GB free"]
    assert await tab.evaluate("[...document.querySelectorAll('.strip [data-whole]')].length") == 1
    assert await tab.text("#whole-free") == "1 card entirely free · 1 can be had whole"
    assert "held whole" in await tab.text("#legend")
    assert await tab.text("#granted-share") == "45%"


async def test_cards_that_are_only_served_whole_are_not_offered_as_memory(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16, 16, modes=(SERVES_WHOLE,)), a_pod("w", whole=3))
    await tab.show(f"{rig.url}#node=enflame/node-1")

    assert (await tab.text("#largest"), await tab.text("#largest-where")) == ("—", "nothing is free")
    assert await tab.text("#whole-free") == "2 cards entirely free · 2 can be had whole"
    assert "free for pods that ask for whole cards" in await tab.text("#panel-body")
    await tab.click("#attention [data-kind=waiting]")
    await tab.until_text("#panel-body", "3 whole cards")
    await tab.until_text("#panel-body", "no node that it may use has more than 2 cards to give whole.")


async def test_a_node_of_whose_units_the_kubelet_counts_none_is_pointed_out(rig: PageRig, tab: Tab) -> None:
    document = node_document("node-1", 16)
    document["status"]["capacity"] = {**document["status"]["capacity"], ENFLAME.memory_resource: "0"}
    rig.see(msgspec.convert(document, Node))
    await tab.show(rig.url)

    assert await tab.text("#attention") == "1\nnode with capacity 0 in the kubelet"
    assert await tab.text("#largest") == "—"
    await tab.click("#attention [data-kind=uncounted]")
    await tab.until_text("#panel-body", "no pod can come here")


async def test_two_vendors_stand_side_by_side(tab: Tab) -> None:
    async with PageRig(vendors=(ENFLAME, ALIYUN)) as rig:
        rig.see(a_node("same", 16))
        both = node_document("same", 16)
        both["metadata"]["annotations"] |= node_document("same", 15, vendor=ALIYUN)["metadata"]["annotations"]
        rig.see(msgspec.convert(both, Node))
        await tab.show(f"{rig.url}#node=aliyun/same")

        assert await tab.text("#shown") == "2 nodes · 2 cards · 0 pods"
        assert await tab.text("#panel-kind") == "Node · GPU"


@pytest.mark.parametrize(
    ("unit", "size", "held", "words"),
    [
        ("0.001", 16_000, 500, "0.5 GB of 16 GB\n15.5 GB free for new pods"),
        ("MiB", 16_384, 512, "512 MiB of 16 GiB\n15.5 GiB free for new pods"),
    ],
)
async def test_memory_is_named_as_the_nodes_and_the_commands_name_it(
    rig: PageRig, tab: Tab, unit: str, size: int, held: int, words: str
) -> None:
    rig.see(counted_in(unit, "node-1", size), a_pod("a", held, node="node-1", record=on_card(0, held)))
    await tab.show(rig.url)

    assert await tab.text("#granted-words") == words


async def test_an_explanation_tells_the_memory_of_nodes_that_count_in_different_units(rig: PageRig, tab: Tab) -> None:
    fine = {"gcushare.io/memory-unit": "0.001"}
    rig.see(a_node("coarse", 24), counted_in("0.001", "fine", 16_000), a_pod("p", 20_000, annotations=fine))
    await tab.show(f"{rig.url}#pod=enflame/default/p")

    words = await tab.until_text(".why", "no card that it may use has more than 16 GB.")
    assert "0 of 24 GB free in all" in words, "they are counted otherwise"
    assert "16 GB of 16 GB free in all" in words


async def test_the_table_has_a_row_for_each_node(rig: PageRig, tab: Tab) -> None:
    rig.see(*small_cluster())
    await tab.show(rig.url)
    await tab.click("#view-table")

    await tab.until("!document.querySelector('#table').hidden")
    rows = await tab.evaluate("[...document.querySelectorAll('#table tbody tr')].map((row) => row.innerText)")
    assert len(rows) == 2
    assert "18 GB of 32 GB granted" in rows[0]
    assert await tab.evaluate("document.querySelector('#map').hidden")


async def test_an_empty_cluster_says_what_to_do_next(tab: Tab) -> None:
    async with PageRig(vendors=(ENFLAME, ALIYUN)) as rig:
        await tab.page.goto(rig.url)

        words = await tab.until_text("#empty", "No node offers cards yet.")
        for vendor in (ENFLAME, ALIYUN):
            assert f"kubectl label node NODE {vendor.node_label}" in words
            assert f"kubectl inspect {vendor.kubectl_plugin} doctor" in words
        assert await tab.evaluate("document.querySelector('#glance').hidden")
        rig.see(a_pod("early", 4))
        await tab.until_text("#attention", "waiting pod")
        assert "Granted" not in await tab.text("#glance")
        rig.see(a_node("node-1", 16))
        await tab.until_text("#granted-words", "0 of 16 GB")
        assert await tab.evaluate("document.querySelector('#empty').hidden")


@pytest.mark.parametrize(("used", "total"), [(24, 128), (29, 100), (57, 100), (1, 3), (127, 128), (0, 16)])
async def test_shares_are_rounded_as_in_the_inspect_command(rig: PageRig, tab: Tab, used: int, total: int) -> None:
    rig.see(a_node("coarse", total), a_pod("a", used or 1, node="coarse" if used else "", record=on_card(0, used)))
    await tab.show(rig.url)
    assert await tab.text("#granted-share") == f"{percent_of(used, total)}%"

    rig.see(counted_in("0.001", "fine", 1000 * total))
    rig.see(a_pod("b", 1000 * used or 1, node="fine" if used else "", record=on_card(0, 1000 * used)))
    await tab.until_text("#granted-words", f"of {2 * total} GB")
    await tab.until_text("#granted-share", f"{percent_of(used, total)}%")


@pytest.mark.parametrize("trouble", ["sick", "cordoned"])
async def test_a_card_in_trouble_is_marked_even_if_it_has_nothing_free(rig: PageRig, tab: Tab, trouble: str) -> None:
    annotations = {ENFLAME.cordon_annotation: "1"} if trouble == "cordoned" else {}
    offered = [card(0), card(1, sick=trouble == "sick")]
    rig.see(a_node("node-1", 16), a_node("node-2", offered=offered, annotations=annotations))
    rig.see(a_pod("a", 16, node="node-2", record=handed_out(1, 16)))
    await tab.show(rig.url)
    colour = await variable(tab, f"--{trouble}")
    assert colour in await painted(tab, 200)
    assert {"Card 1", trouble} <= {each.words for each in await texts_of_the_map(tab)}
    await tab.press("Tab")
    await tab.evaluate("document.querySelector('#map').focus()")
    assert (await tab.text("#active-node")).endswith(f"; 1 {trouble} card"), "trouble comes first"

    await tab.open("view=table")
    rows = (
        "[...document.querySelectorAll('#table tbody tr')].map((row) => row.querySelector('td:last-child').innerText)"
    )
    assert await tab.evaluate(rows) == [f"1 {trouble} card", ""]
    marks = """[...document.querySelectorAll("#table .strip")].map((each) => [each.dataset.state,
      getComputedStyle(each, "::after").borderTopColor])"""
    states = await tab.evaluate(marks)
    assert [state for state, _ in states] == ["", trouble, ""]
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    assert states[1][1] == f"rgb({red}, {green}, {blue})"
