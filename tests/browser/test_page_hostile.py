"""What pods, nodes and drivers write stays text; nothing comes from elsewhere; who may not read sees nothing."""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

import msgspec
import pytest
import pytest_asyncio

from gcushare.scheduler_extender.dashboard.dashboard_settings import Access
from gcushare.wire.annotations import CORRECTED
from gcushare.wire.objects import Node, Pod
from tests.browser.page_rig import PageRig
from tests.browser.tab import Tab
from tests.builders import card
from tests.extender_objects import a_node, node_document, on_card, pod_document
from tests.protocol.page_reviews import JANE, MALLORY, extender_client, reviewing_api

MARKUP = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
BREAKING = "\"'><svg onload=window.hacked=1>"
SCHEME = "javascript:window.hacked=1"


def hostile_node() -> Node:
    offered = card(0, sick=True, model=f"model{MARKUP}", uuid=f"uuid{BREAKING}", reason=f"reason{MARKUP}")
    document = node_document("node-1", offered=[offered, card(1)])
    document["metadata"]["name"] = f"node{MARKUP}"
    document["metadata"]["labels"] = {f"key{BREAKING}": f"value{MARKUP}"}
    document["status"]["addresses"] = [{"type": "InternalIP", "address": SCHEME}]
    return msgspec.convert(document, Node)


def hostile_pod(name: str, *, node: str | None) -> Pod:
    document = pod_document(
        name,
        20 if node is None else 4,
        node=node or "",
        record=on_card(1, 4) if node else None,
        namespace=f"space{BREAKING}",
        uid=f"uid-{name}",
        labels={f"label{BREAKING}": f"value{MARKUP}"},
        annotations={CORRECTED: f"0->1{MARKUP}"[:80]},
        ownerReferences=[{"kind": SCHEME, "name": MARKUP, "uid": "u", "controller": True}],
    )
    document["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": f"message{MARKUP}"}]
    return msgspec.convert(document, Pod)


@pytest_asyncio.fixture(loop_scope="session")
async def page(rig: PageRig, tab: Tab) -> Tab:
    node = hostile_node()
    rig.see(node, hostile_pod(f"pod{MARKUP}", node=node.metadata.name), hostile_pod(f"waits{BREAKING}", node=None))
    await tab.show(rig.url)
    return tab


async def assert_text_only(tab: Tab) -> None:
    assert await tab.evaluate("window.hacked ?? null") is None
    markup = "img, script:not([type=module]), [onerror], [onload]"
    links = "[href^=javascript], [src^=javascript], form[action]"
    assert await tab.evaluate("document.querySelectorAll($0).length", f"{markup}, {links}") == 0


async def test_every_view_shows_hostile_words_as_they_are(page: Tab) -> None:
    views = {
        f"node=enflame/node{MARKUP}": (f"reason{MARKUP}", f"uuid{BREAKING}", f"key{BREAKING}=value{MARKUP}", SCHEME),
        f"pod=enflame/space{BREAKING}/pod{MARKUP}": (f"label{BREAKING}=value{MARKUP}", f"{SCHEME} {MARKUP}"),
        f"pod=enflame/space{BREAKING}/waits{BREAKING}": (f"message{MARKUP}",),
        "list=waiting": (f"space{BREAKING}/waits{BREAKING}",),
        "list=sick": (f"reason{MARKUP}",),
        "view=table": (f"node{MARKUP}",),
    }
    for address, words in views.items():
        field, _, value = address.partition("=")
        await page.open(urlencode({field: value}))
        for each in words:
            # The whole text: what is cut by a style is still what a reader would copy.
            await page.until("document.body.textContent.includes($0)", each)
        assert not await page.evaluate("document.body.textContent.includes('0->1<')")  # No correction of the plugin's.
        await assert_text_only(page)


async def test_hostile_words_under_the_pointer_and_in_the_search_stay_text(page: Tab) -> None:
    x, y = await page.evaluate("(({x, y}) => [x, y])(document.querySelector('#canvas').getBoundingClientRect())")
    await page.page.mouse.move(x + 60, y + 60)
    await page.until("!document.querySelector('#tip').hidden")
    assert MARKUP in await page.evaluate("document.querySelector('#tip').textContent")
    await page.press("/")
    await page.page.keyboard.insert_text(MARKUP)
    await page.until("decodeURIComponent(location.hash).includes('onerror')")
    await assert_text_only(page)


async def test_the_policy_stops_what_would_get_through(rig: PageRig, tab: Tab) -> None:
    """The second wall: were there a hole in the page, the browser itself would refuse."""
    rig.see(a_node("node-1", 16))
    await tab.show(rig.url)
    for hole in (
        "document.head.append(Object.assign(document.createElement('script'), { text: 'window.hacked = 1' }))",
        "document.body.innerHTML = '<p>'",
    ):
        attempt = f"(() => {{ try {{ {hole}; return 'none'; }} catch (error) {{ return error.name; }} }})()"
        assert await tab.evaluate(attempt) == "TypeError"
    assert await tab.evaluate("window.hacked ?? null") is None
    assert tab.complaints != []
    tab.complaints.clear()


async def test_nothing_is_asked_of_another_host(page: Tab, rig: PageRig) -> None:
    assert {urlsplit(each.url).netloc for each in page.responses} == {urlsplit(rig.url).netloc}
    assert {each.status for each in page.responses} == {200}
    assert all("default-src 'none'" in each.headers["content-security-policy"] for each in page.responses)


@pytest.mark.parametrize("tab_may_complain", [True], indirect=True)
async def test_the_page_asks_for_a_token_and_believes_only_those_of_the_cluster(tab: Tab) -> None:
    async with (
        reviewing_api() as api,
        extender_client(api) as client,
        PageRig(access=Access.TOKEN, client=client) as rig,
    ):
        rig.see(a_node("node-1", 16))
        token = api.add_user(JANE)
        await tab.page.goto(rig.url)
        await tab.until("!document.querySelector('#gate').hidden")
        assert await tab.focused() == "token"
        assert "node-1" not in await tab.evaluate("document.body.textContent")

        await tab.page.keyboard.insert_text("令牌")
        await tab.press("Enter")
        await tab.until_text("#gate-problem", "This is no token")
        await tab.evaluate("document.querySelector('#token').value = ''")
        await tab.page.keyboard.insert_text("no-token-of-this-cluster")
        await tab.press("Enter")
        await tab.until_text("#gate-problem", "the API server does not know this token")
        await tab.page.keyboard.insert_text(api.add_user(MALLORY))
        await tab.press("Enter")
        await tab.until_text("#gate-problem", "'mallory' may not get the non-resource URL /gcushare/dashboard")
        await tab.page.keyboard.insert_text(token)
        await tab.press("Enter")
        await tab.until_drawn()
        assert await tab.text("#shown") == "1 node · 1 card · 0 pods"
        assert await tab.evaluate("document.querySelector('#gate').hidden")
        assert token not in await tab.evaluate("location.href + document.cookie + JSON.stringify({...localStorage})")
