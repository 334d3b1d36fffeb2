"""From a phone to a wall, from one node to forty: what there is to see uses the room that there is."""

from __future__ import annotations

import pytest

from tests.browser.canvas import covered
from tests.browser.contrast import texts_of_the_map
from tests.browser.page_rig import PageRig
from tests.browser.pictures import Shape, make_cluster
from tests.browser.tab import Tab
from tests.extender_objects import a_node

SCREENS = {
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
    if screen not in ("phone", "tablet"):
        # Where the page does not scroll, the height is used as well.
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

    assert {"gcu-001", "triton-cb5kj", "13 GiB free", "12 GiB", "Card 7"} <= written
    assert [words for words in written if "…" in words] == []


async def test_a_column_too_narrow_for_names_says_how_much(rig: PageRig, tab: Tab) -> None:
    rig.see(*make_cluster(Shape(nodes=5, cards=8, fill=0.6, troubles=False)))
    await tab.show(rig.url)
    written = {each.words for each in await texts_of_the_map(tab)}

    assert {"gcu-001", "Card 0"} <= written
    assert written & {"12 GiB", "12"}, "the figure alone where the font is too wide for its unit"
    assert [words for words in written if "…" in words] == []
