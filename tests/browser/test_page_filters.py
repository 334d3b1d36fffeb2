"""Finding things: search, filters, orders and the links that keep them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gcushare.wire.objects import Node, Pod
from tests.browser.canvas import colour_of, painted, until_painted, variable
from tests.browser.page_rig import PageRig
from tests.browser.tab import Tab
from tests.builders import card
from tests.extender_objects import a_pod, node_document, on_card

NAMES = "[...document.querySelectorAll('#table tbody th')].map((each) => each.innerText)"


def labelled(name: str, *sizes: int, model: str = "S60", zone: str = "a") -> Node:
    document: dict[str, Any] = node_document(name, offered=[card(i, size, model=model) for i, size in enumerate(sizes)])
    document["metadata"]["labels"] = {"zone": zone}
    return msgspec.convert(document, Node)


def holding(name: str, node: str, units: int, **options: Any) -> Pod:
    return a_pod(name, units, node=node, record=replace(on_card(0, units), assigned=True), **options)


@pytest.fixture
async def page(rig: PageRig, tab: Tab) -> Tab:
    rig.see(labelled("alpha", 16, 16), labelled("beta", 16, 16, zone="b"), labelled("gamma", 32, model="T20"))
    rig.see(holding("ocr-1", "alpha", 15, namespace="vision", labels={"app": "ocr"}))
    rig.see(holding("asr-1", "beta", 4, namespace="speech", labels={"app": "asr"}))
    rig.see(a_pod("ocr-2", 30, namespace="vision"), a_pod("asr-2", 40, namespace="speech"))
    await tab.show(f"{rig.url}#view=table")
    return tab


async def test_search_finds_nodes_and_pods_by_name_label_and_model(page: Tab) -> None:
    searches = {"ALPH": "alpha", "vision/ocr": "alpha", "zone=b": "beta", "app=asr": "beta", "t20": "gamma"}
    for typed, found in searches.items():
        await page.press("/")
        await page.evaluate("document.activeElement.select()")
        await page.type(typed)
        await page.until(f"{NAMES}.join() === $0", found)
        await page.evaluate("document.activeElement.blur()")


async def test_a_search_that_finds_nothing_says_so_and_can_be_cleared(page: Tab) -> None:
    await page.press("/")
    await page.type("nothing like this")
    await page.until_text("#empty", "No node matches the filters.")
    assert await page.text("#scope-words") == (
        "Filtered by search “nothing like this”: the figures are those of 0 of 3 nodes."
    )
    assert await page.evaluate("document.querySelector('#glance').hidden"), "no figures of nothing"
    await page.click("#clear")
    await page.until(f"{NAMES}.length === 3")


async def test_orders_put_first_what_is_looked_for(page: Tab) -> None:
    orders = {
        "free": "gamma,beta,alpha",
        "full": "alpha,beta,gamma",
        "largest": "gamma,alpha,beta",
        "stranded": "beta,alpha,gamma",
    }
    choose = (
        "((list) => { list.value = $0; list.dispatchEvent(new Event('change')); })(document.querySelector('#sort'))"
    )
    for order, names in orders.items():
        await page.evaluate(choose, order)
        await page.until(f"{NAMES}.join() === $0", names)
        assert f"sort={order}" in await page.evaluate("location.hash")


async def test_filters_of_a_link_are_set_and_can_be_taken_back(rig: PageRig, page: Tab) -> None:
    await page.open("view=table&model=T20&label=zone%3Da")
    await page.until(f"{NAMES}.join() === 'gamma'")
    assert await page.evaluate("document.querySelector('#model').value") == "T20"
    assert await page.evaluate("document.querySelector('#label').value") == "zone=a"
    scope = "Filtered by model T20 · label zone=a: the figures are those of 1 of 3 nodes."
    assert await page.text("#scope-words") == scope
    await page.click("#clear")
    await page.until("location.hash === '#view=table'")
    assert await page.evaluate("document.querySelector('#scope').hidden")
    await page.until_text("#shown", "3 nodes · 5 cards · 2 pods")


async def test_what_comes_later_can_be_chosen_as_well(rig: PageRig, page: Tab) -> None:
    await page.click("#view-map")
    rig.see(holding("tts-1", "gamma", 4, namespace="late", labels={"app": "tts"}))
    options = "[...document.querySelectorAll($0)].some((each) => each.value === $1)"
    await page.until(options, "#namespace option", "late")
    await page.until(options, "#labels option", "app=tts")
    rig.see(a_pod("tts-2", 40, namespace="later"))
    await page.until(options, "#namespace option", "later")


async def test_a_namespace_stands_out_and_the_others_fade(page: Tab) -> None:
    await page.click("#view-map")
    await page.click("[data-id='space-vision']")
    await until_painted(page, await colour_of(page, "vision"), await variable(page, "--faded"))
    assert await colour_of(page, "speech") not in await painted(page)
    assert await page.evaluate("document.querySelector('#namespace').value") == "vision"

    await page.open("ns=vision&list=waiting")
    await page.until_text("#panel-body", "vision/ocr-2")
    assert "speech/asr-2" not in await page.text("#panel-body")
    assert await page.text("#attention") == "1\nwaiting pod"


async def test_a_label_of_the_panel_filters(page: Tab) -> None:
    await page.open("view=table&pod=enflame/speech/asr-1")
    await page.until_text("#panel-body", "app=asr")
    await page.click("[data-id='label-app=asr']")
    await page.until(f"{NAMES}.join() === 'beta'")
