"""From a phone to a wall, from one node to hundreds: what there is to see uses the room that there is."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.vendors import ENFLAME
from gcushare.wire.objects import Node
from tests.browser.canvas import covered
from tests.browser.contrast import texts_of_the_map
from tests.browser.page_rig import PageRig
from tests.browser.pictures import Shape, make_cluster
from tests.browser.tab import Tab
from tests.browser.test_page_contrast import every_state
from tests.extender_objects import a_node, node_document

SCREENS = {
    "small": (1024, 700),
    "phone": (390, 844),
    "tablet": (820, 1100),
    "laptop": (1440, 900),
    "desk": (2560, 1440),
    "wall": (3840, 2160),
}


@pytest.mark.parametrize("screen", ["phone", "wall"])
async def test_forty_nodes_fit_the_screen(rig: PageRig, tab: Tab, screen: str) -> None:
    rig.see(*(a_node(f"n{number:02d}", *[16] * 8) for number in range(40)))
    await tab.resize(*SCREENS[screen])
    await tab.show(rig.url)

    assert await tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert await tab.evaluate(
        "document.querySelector('#canvas').getBoundingClientRect().width > window.innerWidth * 0.8"
    )


@pytest.mark.parametrize("screen", SCREENS)
async def test_few_nodes_use_the_width_that_is_there(rig: PageRig, tab: Tab, screen: str) -> None:
    await tab.resize(*SCREENS[screen])
    await tab.goto(rig.url)
    shares = {}
    for number in range(1, 4):
        rig.see(a_node(f"n{number}", *[16] * 8))
        await tab.until_text("#shown", f"{number} node")
        await tab.until_drawn()
        shares[number] = await covered(tab)

    assert min(width for width, _ in shares.values()) > 0.9, shares
    if screen not in ("phone", "tablet", "small"):
        # Where the page does not scroll and is not low, the height is used as well.
        assert min(height for _, height in shares.values()) > 0.85, shares


async def test_five_nodes_stand_as_three_and_two(rig: PageRig, tab: Tab) -> None:
    rig.see(*(a_node(f"n{number}", *[16] * 8) for number in range(5)))
    await tab.show(rig.url)
    await tab.evaluate("document.querySelector('#map').focus()")
    await tab.press("Home")
    for _ in range(2):
        await tab.press("ArrowRight")
    await tab.press("ArrowLeft")
    await tab.press("ArrowDown")

    assert (await tab.text("#active-node")).startswith("n4:")


@pytest.mark.parametrize("screen", ["laptop", "desk", "wall"])
async def test_the_labels_of_one_node_are_not_cut(rig: PageRig, tab: Tab, screen: str) -> None:
    rig.see(*make_cluster(Shape(nodes=1, cards=8, fill=0.2, seed=3, troubles=False)))
    await tab.resize(*SCREENS[screen])
    await tab.show(rig.url)
    written = {each.words for each in await texts_of_the_map(tab)}

    assert {"gcu-001", "triton-cb5kj", "13 GB free", "12 GB", "Card 7"} <= written
    assert [words for words in written if "…" in words] == []


async def test_a_column_too_narrow_for_names_says_how_much(rig: PageRig, tab: Tab) -> None:
    rig.see(*make_cluster(Shape(nodes=5, cards=8, fill=0.6, troubles=False)))
    await tab.show(rig.url)
    written = {each.words for each in await texts_of_the_map(tab)}

    assert {"gcu-001", "Card 0"} <= written
    assert written & {"12 GB", "12"}, "the figure alone where the font is too wide for its unit"
    assert [words for words in written if "…" in words] == []


GLANCE = "document.querySelector('#glance').getBoundingClientRect().height / window.innerHeight"


@pytest.mark.parametrize("screen", ["phone", "small", "laptop"])
@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
async def test_the_summary_takes_at_most_a_third_of_the_window(
    rig: PageRig, tab: Tab, screen: str, language: str
) -> None:
    rig.see(*every_state(), *make_cluster(Shape(nodes=30)))
    await tab.resize(*SCREENS[screen], mobile=screen == "phone")
    await tab.speak(language)
    await tab.show(rig.url)

    assert await tab.evaluate("document.querySelectorAll('#attention li').length") >= 4
    assert await tab.evaluate(GLANCE) <= 1 / 3
    assert await tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    if screen == "phone":
        assert await tab.evaluate("document.querySelector('#map').getBoundingClientRect().top < innerHeight / 2")
        assert not await tab.evaluate("document.querySelector('#histogram').checkVisibility()")
        await tab.click("#details-toggle")
        assert await tab.evaluate("document.querySelector('#histogram').checkVisibility()")


async def test_of_many_nodes_those_in_trouble_come_first_with_their_names(rig: PageRig, tab: Tab) -> None:
    rig.see(*make_cluster(Shape(nodes=240, fill=0.2)))
    await tab.resize(*SCREENS["small"])
    await tab.show(rig.url)

    headings = ("Needs a look · 4 nodes", "S60 · 157 nodes", "T20 · 79 nodes")
    written = [each.words for each in await texts_of_the_map(tab)]
    assert [words for words in dict.fromkeys(written) if words.startswith(("Needs", "gcu-"))] == [
        headings[0], "gcu-009", "gcu-022", "gcu-029", "gcu-015"
    ]  # fmt: skip
    await tab.evaluate("document.querySelector('#map').focus()")
    names = []
    for key in ("ArrowDown", "ArrowUp", "End", "Home"):
        await tab.press(key)
        names.append((await tab.text("#active-node")).partition(":")[0])
    assert names == ["gcu-001", "gcu-009", "gcu-240", "gcu-009"]
    await tab.evaluate("document.querySelector('#map').scrollTop = 0")
    x, y = await tab.evaluate("(({x, y}) => [x, y])(document.querySelector('#canvas').getBoundingClientRect())")
    await tab.click_at(x + 170, y + 60)
    await tab.until("location.hash === '#node=enflame/gcu-022'")

    await tab.open("sort=name")
    await tab.evaluate("window.written = []")
    await tab.evaluate("window.dispatchEvent(new Event('resize'))")
    await tab.settle()
    assert not set(headings) & {each["words"] for each in await tab.evaluate("window.written")}


async def test_a_node_that_comes_into_trouble_moves_to_the_front(rig: PageRig, tab: Tab) -> None:
    rig.see(*(a_node(f"n{number:03d}", 16) for number in range(120)))
    await tab.show(rig.url)
    await tab.until("document.querySelector('#state').dataset.state === 'live'")
    await tab.evaluate("document.querySelector('#map').focus()")
    await tab.press("Home")
    assert (await tab.text("#active-node")).startswith("n000:")

    node = node_document("n077", 16, annotations={ENFLAME.cordon_annotation: "0"})
    rig.see(msgspec.convert(node, Node))
    await tab.until_text("#attention", "cordoned card")
    await tab.press("Home")
    assert await tab.text("#active-node") == "n077: 0 of 16 GB granted on 1 card; largest free piece 0; 1 cordoned card"
