"""Both languages and both themes: what the browser prefers, and what a reader chose."""

from __future__ import annotations

import re

from tests.browser.canvas import painted, until_painted, variable
from tests.browser.page_rig import PageRig
from tests.browser.tab import Tab
from tests.extender_objects import a_node, a_pod, on_card

TAKEN_OVER = {"GCUShare", "Pod", "English", "GiB", "kubelet", "GCU", "UID", "uid", "uuid", "GB"}
TAKEN_OVER |= {"kubectl", "inspect", "gcushare", "top"}
"""Words that Chinese readers know by these letters, and those of a command."""


def see_some(rig: PageRig) -> None:
    rig.see(a_node("节点-1", 16, 16), a_node("节点-2", 16))
    rig.see(a_pod("甲", 6, node="节点-1", record=on_card(0, 6), namespace="视觉"), a_pod("乙", 30, namespace="视觉"))


async def test_a_chinese_browser_reads_chinese_and_nothing_else(rig: PageRig, tab: Tab) -> None:
    see_some(rig)
    await tab.speak("zh-CN")
    await tab.show(rig.url)
    assert await tab.evaluate("document.documentElement.lang") == "zh-CN"

    for address in ("", "node=enflame/节点-1", "pod=enflame/视觉/甲", "list=waiting", "view=table"):
        await tab.open(address)
        if address == "list=waiting":
            await tab.until_text("#panel-body", "永远放不下：它能用的卡最大为")
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
    await tab.reload()
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

    await tab.prefer(prefers_color_scheme="dark")
    await tab.until("document.documentElement.dataset.theme === 'dark'")
    await until_painted(tab, await variable(tab, "--tile"))
    assert light not in await painted(tab)
    await tab.until("document.querySelector('#theme').title === 'Theme: automatic'")
    await tab.click("#theme")
    await tab.until("document.documentElement.dataset.theme === 'light'")
    await tab.reload()
    await tab.until_drawn()
    assert await tab.evaluate("document.documentElement.dataset.theme") == "light"
    assert light in await painted(tab)
