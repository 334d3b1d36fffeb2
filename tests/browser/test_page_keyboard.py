"""The page without a mouse and without eyes: keys, focus, names and roles."""

from __future__ import annotations

import pytest_asyncio

from tests.browser.page_rig import PageRig
from tests.browser.tab import Tab
from tests.extender_objects import a_node, a_pod, on_card


@pytest_asyncio.fixture(loop_scope="session")
async def page(rig: PageRig, tab: Tab) -> Tab:
    """Twelve nodes, one pod on the third, one that waits."""
    rig.see(*(a_node(f"node-{number:02d}", 16, 16) for number in range(1, 13)))
    rig.see(a_pod("p", 4, node="node-03", record=on_card(0, 4)), a_pod("w", 20))
    await tab.show(rig.url)
    return tab


async def option(tab: Tab) -> str:
    return str(await tab.evaluate("document.querySelector('#active-node').textContent"))


async def test_the_first_stop_leads_past_the_bar(page: Tab) -> None:
    await page.press("Tab")
    assert await page.focused() == "skip"
    await page.press("Enter")
    assert await page.focused() == "map"
    assert (await option(page)).startswith("node-01: 0 of 32 GB granted on 2 cards")


async def test_arrows_walk_over_the_nodes_and_enter_opens(page: Tab) -> None:
    await page.evaluate("document.querySelector('#map').focus()")
    for key in ("ArrowRight", "ArrowRight"):
        await page.press(key)
    assert (await option(page)).startswith("node-03: 4 GB of 32 GB granted")
    await page.press("End")
    assert (await option(page)).startswith("node-12")
    assert await page.evaluate("document.querySelector('#active-node').getAttribute('aria-posinset')") == "12"
    await page.press("Home")
    assert (await option(page)).startswith("node-01")
    await page.press("ArrowDown")
    below = await option(page)
    assert not below.startswith(("node-01", "node-02"))
    await page.press("ArrowUp")
    assert (await option(page)).startswith("node-01")

    await page.press("Enter")
    await page.until("document.activeElement.id === 'panel-title'")
    assert await page.text("#panel-title") == "node-01"


async def test_escape_closes_and_gives_the_focus_back(page: Tab) -> None:
    await page.evaluate("document.querySelector('#map').focus()")
    await page.press("Enter")
    await page.until("!document.querySelector('#panel').hidden")
    await page.press("Escape")
    await page.until("document.querySelector('#panel').hidden")
    assert await page.focused() == "map"


async def test_a_slash_searches_and_escape_leaves(page: Tab) -> None:
    await page.press("/")
    assert await page.focused() == "search"
    await page.page.keyboard.insert_text("node-07")
    await page.until_text("#shown", "1 node · 2 cards")
    await page.press("Escape")
    await page.until("document.activeElement.id === 'map' && !location.hash.includes('q=')")


async def test_back_undoes_what_was_opened(page: Tab) -> None:
    await page.click("#attention [data-kind=waiting]")
    await page.until_text("#panel-body", "default/w")
    await page.click("#panel-body .link")
    await page.until("location.hash === '#pod=enflame/default/w'")
    await page.evaluate("history.back()")
    await page.until("location.hash === '#list=waiting'")
    await page.until_text("#panel-title", "Waiting pods")


async def test_plus_minus_and_nought_change_the_size_of_the_tiles(page: Tab) -> None:
    height = "document.querySelector('#extent').style.height"
    fitted = await page.evaluate(height)
    await page.press("+")
    await page.until(f"parseFloat({height}) > parseFloat($0)", fitted)
    await page.press("0")
    await page.until(f"{height} === $0", fitted)


async def test_whatever_can_be_used_has_a_role_and_a_name(page: Tab) -> None:
    for address in ("", "node=enflame/node-03", "pod=enflame/default/w", "list=sick", "view=table"):
        await page.open(address)
        tree = (await page.devtools.send("Accessibility.getFullAXTree"))["nodes"]
        usable = {"button", "textbox", "searchbox", "combobox", "slider", "listbox", "link", "option", "img"}
        found = [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree
            if not node["ignored"] and node["role"]["value"] in usable
        ]
        assert {"button", "searchbox", "combobox", "slider"} <= {role for role, _ in found}
        assert [role for role, name in found if not name.strip()] == [], address


async def test_headings_and_landmarks_lead_through_the_page(page: Tab) -> None:
    tree = (await page.devtools.send("Accessibility.getFullAXTree"))["nodes"]
    roles = [node["role"]["value"] for node in tree if not node["ignored"]]
    assert {"banner", "main", "search", "status"} <= set(roles)
    seen = "[...document.querySelectorAll('h1, h2')].filter((each) => each.checkVisibility())"
    assert await page.evaluate(f"{seen}.map((each) => each.innerText)") == [
        "GCUShare",
        "Granted",
        "Largest request that fits",
        "Free memory by size of piece",
        "Needs a look",
    ]


async def test_where_motion_is_reduced_nothing_moves(rig: PageRig, page: Tab) -> None:
    await page.page.emulate_media(reduced_motion="reduce")
    await page.until("document.querySelector('#state').dataset.state === 'live'")
    rig.see(a_pod("q", 4, node="node-05", record=on_card(0, 4)))
    await page.until_text("#granted-words", "8 GB")
    assert await page.evaluate("document.getAnimations().length") == 0
