"""From a phone to a wall, from one node to hundreds: what there is to see uses the room that there is."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from gcushare.vendors import ENFLAME
from gcushare.wire.objects import Pod
from tests.browser.canvas import covered
from tests.browser.contrast import texts_of_the_map, words_of_the_map
from tests.browser.page_rig import PageRig
from tests.browser.pictures import Shape, make_cluster
from tests.browser.tab import Tab
from tests.browser.test_page_contrast import every_state
from tests.extender_objects import a_node

SCREENS = {
    "small": (1024, 700),
    "phone": (390, 844),
    "low": (1280, 800),
    "tablet": (820, 1100),
    "laptop": (1440, 900),
    "desk": (2560, 1440),
    "wall": (3840, 2160),
}


@pytest.mark.parametrize("screen", SCREENS)
async def test_few_nodes_use_the_width_that_is_there(rig: PageRig, tab: Tab, screen: str) -> None:
    await tab.resize(*SCREENS[screen])
    await tab.page.goto(rig.url)
    shares = {}
    for number in range(1, 4):
        rig.see(a_node(f"n{number}", *[16] * 8))
        await tab.until_text("#shown", f"{number} node")
        await tab.until_drawn()
        shares[number] = await covered(tab)

    assert min(width for width, _ in shares.values()) > 0.9, shares
    if screen not in ("phone", "tablet", "small", "low"):
        # Where the page does not scroll and is not low, the height is used as well.
        assert min(height for _, height in shares.values()) > 0.85, shares


async def test_five_nodes_stand_as_two_two_and_one(rig: PageRig, tab: Tab) -> None:
    rig.see(*(a_node(f"n{number}", *[16] * 8) for number in range(5)))
    await tab.show(rig.url)
    await tab.evaluate("document.querySelector('#map').focus()")
    await tab.press("Home")
    for _ in range(2):
        await tab.press("ArrowRight")
    await tab.press("ArrowLeft")
    await tab.press("ArrowDown")

    assert (await tab.text("#active-node")).startswith("n3:")


@pytest.mark.parametrize("screen", ["laptop", "desk", "wall"])
async def test_the_labels_of_one_node_are_not_cut(rig: PageRig, tab: Tab, screen: str) -> None:
    rig.see(*make_cluster(Shape(nodes=1, cards=8, fill=0.2, seed=3, troubles=False)))
    await tab.resize(*SCREENS[screen])
    await tab.show(rig.url)
    written = {each.words for each in await texts_of_the_map(tab)}

    assert {"gcu-001", "triton-cb5kj", "13 GB free", "12 GB", "Card 7"} <= written
    assert [words for words in written if "…" in words] == []


@pytest.mark.parametrize("screen", ["low", "laptop", "desk"])
async def test_of_three_nodes_every_card_tells_its_number_its_pods_and_how_much(
    rig: PageRig, tab: Tab, screen: str
) -> None:
    objects = list(make_cluster(Shape(nodes=3, cards=8, fill=0.6, seed=11, troubles=False)))
    rig.see(*objects)
    await tab.resize(*SCREENS[screen])
    await tab.show(rig.url)
    written = Counter(await words_of_the_map(tab))

    assert [written[f"Card {number}"] for number in range(8)] == [3] * 8
    pods = {each.metadata.name for each in objects if isinstance(each, Pod)}
    assert len(pods) > 40
    assert pods - written.keys() == set()
    assert sum(n for words, n in written.items() if words.endswith(" GB")) > 0.9 * len(pods)
    assert {"14 GB free", "8 × 16 GB · a pod of 14 GB fits"} <= written.keys()


async def test_a_phone_shows_rows_with_numbers_and_amounts(rig: PageRig, tab: Tab) -> None:
    rig.see(*make_cluster(Shape(nodes=3, cards=8, fill=0.6, seed=11, troubles=False)))
    await tab.resize(*SCREENS["phone"], mobile=True)
    await tab.show(rig.url)
    written = {each.words for each in await texts_of_the_map(tab)}

    assert {"gcu-001", "Card 0", "Card 7", "2 GB", "8 GB free", "triton-h4qvh"} <= written


@pytest.mark.parametrize("screen", ["small", "low", "laptop", "desk"])
@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
async def test_search_and_filters_are_one_line(rig: PageRig, tab: Tab, screen: str, language: str) -> None:
    rig.see(*make_cluster(Shape(nodes=30)))
    await tab.resize(*SCREENS[screen])
    await tab.speak(language)
    await tab.show(rig.url)
    boxes = await tab.evaluate("""["search", "namespace", "model", "label", "sort", "language", "theme"].map((id) => {
      const box = document.getElementById(id).getBoundingClientRect();
      return [box.left, box.right, (box.top + box.bottom) / 2];
    })""")

    assert max(middle for *_, middle in boxes) - min(middle for *_, middle in boxes) < 4
    assert all(right <= left for (_, right, _), (left, _, _) in pairwise(boxes)), "nothing overlaps"
    assert boxes[-1][1] <= SCREENS[screen][0]


GLANCE = "document.querySelector('#glance').getBoundingClientRect().height / window.innerHeight"


@pytest.mark.parametrize("screen", ["phone", "small", "low", "laptop"])
@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
async def test_the_summary_takes_at_most_a_fifth_of_the_window(
    rig: PageRig, tab: Tab, screen: str, language: str
) -> None:
    rig.see(*every_state(), *make_cluster(Shape(nodes=30)))
    await tab.resize(*SCREENS[screen], mobile=screen == "phone")
    await tab.speak(language)
    await tab.show(rig.url)

    assert await tab.evaluate("document.querySelectorAll('#attention li').length") >= 4
    assert await tab.evaluate(GLANCE) <= 1 / 5
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
    await tab.page.mouse.click(x + 170, y + 60)
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

    rig.see(a_node("n077", 16, annotations={ENFLAME.cordon_annotation: "0"}))
    await tab.until_text("#attention", "cordoned card")
    await tab.press("Home")
    assert await tab.text("#active-node") == "n077: 0 of 16 GB granted on 1 card; largest free piece 0; 1 cordoned card"
