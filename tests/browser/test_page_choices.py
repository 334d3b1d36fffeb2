"""What a reader chooses: search, filters, orders and the links that keep them, a language and a theme."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest_asyncio

from gcushare.wire.objects import Node
from tests.browser.canvas import colour_of, painted, until_painted, variable
from tests.browser.page_rig import PageRig, holding
from tests.browser.tab import Tab
from tests.builders import card
from tests.extender_objects import a_node, a_pod, node_document, on_card

NAMES = "[...document.querySelectorAll('#table tbody th')].map((each) => each.innerText)"


def labelled(name: str, *sizes: int, model: str = "S60", zone: str = "a") -> Node:
    document: dict[str, Any] = node_document(name, offered=[card(i, size, model=model) for i, size in enumerate(sizes)])
    document["metadata"]["labels"] = {"zone": zone}
    return msgspec.convert(document, Node)


@pytest_asyncio.fixture(loop_scope="session")
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
        await page.page.keyboard.insert_text(typed)
        await page.until(f"{NAMES}.join() === $0", found)
        await page.evaluate("document.activeElement.blur()")


async def test_a_search_that_finds_nothing_says_so_and_can_be_cleared(page: Tab) -> None:
    await page.press("/")
    await page.page.keyboard.insert_text("nothing like this")
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


TAKEN_OVER = {"GCUShare", "Pod", "English", "GiB", "kubelet", "GCU", "UID", "uid", "uuid", "GB"}
TAKEN_OVER |= {"kubectl", "inspect", "gcushare", "top", "io", "cards"}
"""Words that Chinese readers know by these letters, and those of a command and an annotation."""


def see_some(rig: PageRig) -> None:
    rig.see(a_node("节点-1", 16, 16), a_node("节点-2", 16))
    rig.see(a_pod("甲", 6, node="节点-1", record=on_card(0, 6), namespace="视觉"), a_pod("乙", 30, namespace="视觉"))


async def test_a_chinese_browser_reads_chinese_and_nothing_else(rig: PageRig, tab: Tab) -> None:
    see_some(rig)
    await tab.speak("zh-CN")
    await tab.show(rig.url)
    assert await tab.evaluate("document.documentElement.lang") == "zh-CN"

    waits = {"list=waiting": "永远放不下：它能用的卡最大为", "pod=enflame/视觉/乙": "最多申请 16 GB"}
    for address in ("", "node=enflame/节点-1", "pod=enflame/视觉/甲", *waits, "view=table"):
        await tab.open(address)
        if address in waits:
            await tab.until_text("#panel-body", waits[address])
        texts = [await tab.evaluate("document.body.innerText")]
        for name in ("aria-label", "placeholder", "title"):
            script = "[...document.querySelectorAll(`[${$0}]`)].map((each) => each.getAttribute($0))"
            texts += await tab.evaluate(script, name)
        latin = set(re.findall(r"[A-Za-z]{2,}", "\n".join(texts)))
        assert latin - TAKEN_OVER == set(), address


async def test_the_language_chosen_stays_chosen(rig: PageRig, tab: Tab) -> None:
    see_some(rig)
    await tab.show(rig.url)
    assert await tab.text("#attention") == "1\nwaiting pod"
    await tab.click("#language")
    await tab.until_text("#attention", "等待中的 Pod")
    await tab.page.reload()
    await tab.until_drawn()
    assert await tab.text("#shown") == "2 个节点 · 3 张卡 · 1 个 Pod"
    await tab.click("#language")
    await tab.until_text("#shown", "2 nodes · 3 cards · 1 pod")


async def test_a_language_that_is_not_spoken_gets_english(rig: PageRig, tab: Tab) -> None:
    see_some(rig)
    await tab.speak("fr-FR")
    await tab.show(rig.url)

    assert await tab.evaluate("document.documentElement.lang") == "en"


async def test_the_theme_follows_the_browser_until_one_is_chosen(rig: PageRig, tab: Tab) -> None:
    see_some(rig)
    await tab.show(rig.url)
    light = await variable(tab, "--tile")
    assert light in await painted(tab)

    await tab.page.emulate_media(color_scheme="dark")
    await tab.until("document.documentElement.dataset.theme === 'dark'")
    await until_painted(tab, await variable(tab, "--tile"))
    assert light not in await painted(tab)
    await tab.until("document.querySelector('#theme').title === 'Theme: automatic'")
    await tab.click("#theme")
    await tab.until("document.documentElement.dataset.theme === 'light'")
    await tab.page.reload()
    await tab.until_drawn()
    assert await tab.evaluate("document.documentElement.dataset.theme") == "light"
    assert light in await painted(tab)
