"""Every text is distinguished from its ground as WCAG AA asks, in both themes, whatever state it tells of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
import pytest

from gcushare.scheduler_extender.dashboard.dashboard_settings import Access
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import CORRECTED
from gcushare.wire.objects import Node, Pod
from tests.browser.contrast import Text, texts_of, texts_of_the_map
from tests.browser.page_rig import PageRig, handed_out
from tests.browser.pictures import waiting_pods
from tests.browser.tab import Tab, Theme
from tests.builders import card
from tests.extender_objects import a_pod, node_document, on_card

NAMESPACES = tuple(f"team-{letter}" for letter in "abcdefghijkl")
"""As many as there are colours."""


def every_state() -> list[Node | Pod]:
    """Four nodes on which everything that the page can tell of a card or a pod is the case somewhere."""
    sick = card(1, sick=True, reason="XID 79")
    documents = [
        node_document("ready", offered=[card(0), sick, card(2), card(3)], annotations={ENFLAME.cordon_annotation: "2"}),
        node_document("away", 16, 16, 16, 16),
        node_document("colours-1", 16, 16, 16, 16),
        node_document("colours-2", 16, 16, 16, 16),
    ]
    for document in documents:
        document["metadata"]["labels"] = {"zone": "a"}
    documents[1]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    pods = [
        a_pod("pending", 8, node="ready", record=on_card(0, 8), namespace="team-a"),
        a_pod("running", 6, node="ready", record=handed_out(0, 6), namespace="team-b"),
        a_pod("moved", 4, node="ready", record=handed_out(2, 4), namespace="team-c", annotations={CORRECTED: "1->2"}),
        a_pod("gone-node", 8, node="away", record=handed_out(1, 8), namespace="team-a"),
        a_pod("gone-pending", 8, node="away", record=on_card(1, 8), namespace="team-b"),
    ]
    for number, space in enumerate(NAMESPACES):
        node, index = f"colours-{1 + number // 6}", number % 4
        pods.append(a_pod(f"p{number}", 5, node=node, record=handed_out(index, 5), namespace=space))
        pods.append(a_pod(f"q{number}", 3, node=node, record=on_card(index, 3), namespace=space))
    return [*(msgspec.convert(each, Node) for each in documents), *pods]


async def show(rig: PageRig, tab: Tab, theme: Theme, address: str = "") -> None:
    await tab.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    await tab.show(f"{rig.url}#{address}")


def faint(texts: Sequence[Text]) -> set[str]:
    return {f"{each.where}: {each.words!r} {each.ratio:.2f} < {each.needed}" for each in texts if each.is_faint}


THEMES = pytest.mark.parametrize("theme", ["light", "dark"])
PLACES = {
    "the map": "",
    "a filter": "ns=team-a&size=12",
    "a node": "node=enflame/ready",
    "a node that is away": "node=enflame/away",
    "a pod among others": "pod=enflame/team-b/running",
    "a pod not handed out yet": "pod=enflame/team-a/pending",
    "a pod that waits": "pod=enflame/nlp-training/llm-serve-0",
    "the list of troubles": "list=sick",
    "the list of waiting pods": "list=waiting",
    "the table": "view=table",
    "nothing found": "q=nothing-is-called-so",
}


@THEMES
async def test_every_text_of_the_page_can_be_read(rig: PageRig, tab: Tab, theme: Theme) -> None:
    rig.see(*every_state(), *waiting_pods(datetime.now(UTC)))
    await show(rig, tab, theme)
    problems: dict[str, set[str]] = {}
    for place, address in PLACES.items():
        await tab.open(address)
        if place == "a pod that waits":
            await tab.until("document.querySelector('.why ol') !== null")
        texts = await texts_of(tab)
        assert len(texts) > 10
        if found := faint(texts):
            problems[place] = found

    assert problems == {}


@THEMES
async def test_every_text_of_the_map_can_be_read(rig: PageRig, tab: Tab, theme: Theme) -> None:
    rig.see(*every_state())
    await tab.resize(2560, 1440)
    await show(rig, tab, theme)
    problems: dict[str, set[str]] = {}
    for address in ("", "ns=team-a", "size=12"):
        await tab.open(address)
        texts = await texts_of_the_map(tab)
        words = {each.words for each in texts}
        assert {"away", "pending", "gone-node", "Card 1"} <= words
        assert ("p11" in words) == (address != "ns=team-a")
        if found := faint(texts):
            problems[address] = found

    assert problems == {}


@THEMES
async def test_a_tip_and_a_notice_can_be_read(rig: PageRig, tab: Tab, theme: Theme) -> None:
    rig.see(*every_state())
    rig.leadership.is_leader = False
    await show(rig, tab, theme)
    await tab.until("!document.querySelector('#notice').hidden")
    x, y = await tab.evaluate("(({x, y}) => [x, y])(document.querySelector('#canvas').getBoundingClientRect())")
    await tab.page.mouse.move(x + 50, y + 60)
    await tab.until("!document.querySelector('#tip').hidden")

    assert faint(await texts_of(tab)) == set()


@THEMES
@pytest.mark.parametrize("tab_may_complain", [True], indirect=True)
async def test_the_gate_can_be_read(tab: Tab, theme: Theme) -> None:
    async with PageRig(access=Access.TOKEN) as rig:
        await tab.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        await tab.page.goto(rig.url)
        await tab.until("!document.querySelector('#gate').hidden")
        await tab.click("#gate .primary")

        assert faint(await texts_of(tab)) == set()


async def test_a_faint_text_is_found(rig: PageRig, tab: Tab) -> None:
    rig.see(*every_state())
    await tab.show(rig.url)
    await tab.evaluate("document.querySelector('#shown').style.opacity = 0.6")

    assert [each.words for each in await texts_of(tab) if each.is_faint] == [await tab.text("#shown")]


@THEMES
async def test_a_pod_not_handed_out_yet_has_a_frame_of_its_own_and_a_name(rig: PageRig, tab: Tab, theme: Theme) -> None:
    rig.see(*every_state())
    await show(rig, tab, theme, "node=enflame/ready")

    strip = """document.querySelector("[data-id='strip-0-uid-pending']")"""
    style = await tab.evaluate(
        f"(({{ opacity, borderTopStyle }}) => [opacity, borderTopStyle])(getComputedStyle({strip}))"
    )
    assert style == ["1", "dashed"]
    assert await tab.evaluate(f"{strip}.ariaLabel") == "team-a/pending: 8 GB · not started yet"
