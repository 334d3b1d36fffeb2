"""The page while the cluster changes: what is shown and drawn again, and what is seen of a lost extender."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable

import pytest

from gcushare.scheduler_extender.dashboard.feed_documents import ReplicaDocument
from gcushare.scheduler_extender.explain.service import ExplainService
from gcushare.wire.documents.explain import ExplainDocument
from tests.browser.page_rig import PageRig, holding
from tests.browser.pictures import Shape, make_cluster
from tests.browser.tab import Tab
from tests.extender_objects import a_node, a_pod, on_card

DRAWN_LAST = "Number(document.querySelector('#canvas').dataset.last)"


async def show_live(tab: Tab, url: str) -> None:
    await tab.show(url)
    await tab.until("document.querySelector('#state').dataset.state === 'live'")


async def test_a_pod_that_comes_is_there_at_once_and_only_its_node_is_drawn(rig: PageRig, tab: Tab) -> None:
    rig.see(*(a_node(f"node-{number}", 16, 16) for number in range(1, 10)))
    await show_live(tab, rig.url)
    assert await tab.evaluate(DRAWN_LAST) == 9

    rig.see(holding("p", "node-3", 8))
    await tab.until_text("#granted-words", "8 GB of 288 GB")
    await tab.until_text("#shown", "9 nodes · 18 cards · 1 pod")
    await tab.until(f"{DRAWN_LAST} === 1")


async def test_a_waiting_pod_comes_and_goes(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16))
    await show_live(tab, f"{rig.url}#list=waiting")
    await tab.until_text("#panel-body", "No pod waits for a card.")

    rig.see(a_pod("p", 12))
    await tab.until_text("#panel-body", "default/p")
    assert "1\nwaiting pod" in await tab.text("#attention")
    rig.see(holding("p", "node-1", 12))
    await tab.until_text("#panel-body", "No pod waits for a card.")
    await tab.until_text("#attention", "Nothing needs a look")


async def test_the_open_pod_follows_what_happens_to_it(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16), a_pod("p", 4))
    await show_live(tab, f"{rig.url}#pod=enflame/default/p")
    await tab.until_text("#panel-body", "It fits now on 1 node")

    rig.see(a_pod("p", 4, node="node-1", record=on_card(0, 4)))
    await tab.until_text("#panel-body", "bound, not started by the kubelet yet")
    rig.see(holding("p", "node-1", 4))
    await tab.until_text("#panel-body", "running on its card")
    rig.lose(holding("p", "node-1", 4))
    await tab.until_text("#panel-body", "This pod is gone.")


async def test_a_node_that_leaves_is_not_shown_any_more(rig: PageRig, tab: Tab) -> None:
    node = a_node("node-2", 16)
    rig.see(a_node("node-1", 16), node)
    await show_live(tab, f"{rig.url}#node=enflame/node-2")

    rig.lose(node)
    await tab.until_text("#shown", "1 node · 1 card · 0 pods")
    await tab.until_text("#panel-body", "This node is gone")


async def test_what_a_reader_is_doing_survives_changes(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16), holding("p", "node-1", 4))
    await show_live(tab, f"{rig.url}#node=enflame/node-1")
    await tab.evaluate("document.querySelector('.strip button').focus()")

    rig.see(holding("q", "node-1", 2))
    await tab.until_text("#panel-body", "default/q")
    assert await tab.evaluate("document.activeElement.closest('.strip') !== null")
    assert "node-1 changed: 6 GB of 16 GB granted" in await tab.text("#spoken")


async def test_a_click_is_not_lost_when_things_change_under_it(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16), holding("p", "node-1", 4))
    await show_live(tab, f"{rig.url}#node=enflame/node-1")
    await tab.page.locator("#spaces button").first.hover()
    await tab.page.mouse.down()
    drawn = await tab.evaluate("document.querySelector('#canvas').dataset.drawn")
    rig.see(holding("q", "node-1", 2))
    # The tile is drawn again, so the change has come; what is pressed stays.
    await tab.until("document.querySelector('#canvas').dataset.drawn !== $0", drawn)
    await tab.page.mouse.up()

    await tab.until("location.hash.includes('ns=default')")
    await tab.until_text("#panel-body", "default/q")


async def test_a_replica_that_stands_by_says_who_serves(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16))
    rig.leadership.is_leader, rig.leadership.holder = False, "extender-1_77_ab"
    await show_live(tab, rig.url)

    assert await tab.text("#notice") == "This replica stands by; extender-1 serves the scheduler."
    rig.leadership.is_leader = True
    rig.see(holding("p", "node-1", 1))
    await tab.until("document.querySelector('#notice').hidden")


async def test_a_picture_that_grows_old_says_so(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16))
    rig.watch_age_s = 600.0
    await tab.show(rig.url)

    await tab.until_text("#state-text", "Data not updated for 10 min")


@pytest.mark.parametrize("tab_may_complain", [True], indirect=True)
async def test_an_extender_that_comes_back_is_found_again(tab: Tab) -> None:
    with socket.socket() as holder:
        # Silent, so that no one else on this machine gets the port while the first extender is gone.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        async with PageRig(port=port) as first:
            first.see(a_node("node-1", 16))
            await show_live(tab, first.url)
        await tab.until("document.querySelector('#state').dataset.state === 'reconnecting'")
        assert await tab.text("#shown") == "1 node · 1 card · 0 pods"

        async with PageRig(port=port) as second:
            second.see(a_node("node-1", 16), a_node("node-2", 16))
            await tab.until_text("#shown", "2 nodes · 2 cards · 0 pods")
            await tab.until("document.querySelector('#state').dataset.state === 'live'")


async def test_a_pod_that_is_opened_before_the_list_asked_about_it_is_explained(
    rig: PageRig, tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    explain, may_answer = ExplainService.explain, asyncio.Event()

    async def explain_later(service: ExplainService, namespace: str, name: str) -> ExplainDocument:
        await may_answer.wait()
        return await explain(service, namespace, name)

    monkeypatch.setattr(ExplainService, "explain", explain_later)
    rig.see(a_node("node-1", 16), *(a_pod(f"p-{number}", 20) for number in range(5)))
    await show_live(tab, f"{rig.url}#list=waiting")
    await tab.until_text("#panel-body", "default/p-4")
    await tab.open("pod=enflame/default/p-4")
    may_answer.set()

    await tab.until_text(".why", "It can never fit")


@pytest.mark.parametrize("tab_may_complain", [True], indirect=True)
async def test_explanations_of_pods_that_came_and_went_are_dropped(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16))
    await show_live(tab, rig.url)
    kept = await tab.evaluate("""(async () => {
      const { Explanations } = await import(document.querySelector("script").src.replace("main.js", "explaining.js"));
      const explanations = new Explanations(() => {});
      for (let n = 0; n < 1000; n += 1) {
        explanations.get({ uid: `uid-${n}`, vendor: "enflame", ns: "gone", name: `p-${n}` });
      }
      const { known, queue } = explanations;
      return { known: known.size, queued: queue.length, last: known.has("uid-999") };
    })()""")
    assert kept["known"] <= 100
    assert kept["queued"] <= 100
    assert kept["last"]


async def test_namespaces_that_are_gone_leave_their_colours_to_others(rig: PageRig, tab: Tab) -> None:
    rig.see(a_node("node-1", 16))
    await show_live(tab, rig.url)
    colours = await tab.evaluate("""(async () => {
      const palette = document.querySelector("script").src.replace("main.js", "palette.js");
      const { assignHues, colourOfSpace } = await import(palette);
      for (let n = 0; n < 100; n += 1) assignHues(new Map([[`old-${n}`, 1]]));
      const names = Array.from({ length: 12 }, (_, n) => `new-${n}`);
      assignHues(new Map(names.map((name) => [name, 1])));
      return names.map((name) => Number(colourOfSpace(name).match(/\\d+/)[0]));
    })()""")
    assert sorted(colours) == list(range(12))


async def cut(rig: PageRig) -> None:
    raise ConnectionResetError


async def fall_silent(rig: PageRig) -> None:
    await rig.serving.stopping.wait()


@pytest.mark.parametrize("tab_may_complain", [True], indirect=True)
@pytest.mark.parametrize("end", [cut, fall_silent])
async def test_a_snapshot_that_breaks_off_is_asked_for_again(
    rig: PageRig, tab: Tab, monkeypatch: pytest.MonkeyPatch, end: Callable[[PageRig], Awaitable[None]]
) -> None:
    whole = rig.feed.snapshot

    async def broken(replica: ReplicaDocument) -> AsyncGenerator[bytes, None]:
        monkeypatch.undo()
        async for piece in whole(replica):
            yield piece[:100]
            await end(rig)

    monkeypatch.setattr(rig.feed, "snapshot", broken)
    # The page shows a silent stream as live for 45 s.
    hurry = "const wait = setTimeout; setTimeout = (then, ms) => wait(then, ms === 45_000 ? 500 : ms);"
    await tab.page.add_init_script(hurry)
    rig.see(a_node("node-1", 16))

    await tab.show(rig.url)
    assert len([each for each in tab.responses if each.url.endswith("api/cluster")]) == 2


async def test_a_thousand_nodes_are_drawn_once_and_then_only_what_changed(rig: PageRig, tab: Tab) -> None:
    """Counts of work, because a busy machine's times say nothing: tiles drawn, frames, elements."""
    rig.see(*make_cluster(Shape(nodes=1000, cards=8, fill=0.1)))
    await show_live(tab, rig.url)
    assert "1,000 nodes · 8,000 cards" in await tab.text("#shown")
    # Most of them: the tiles with names take some of the room.
    assert await tab.evaluate(DRAWN_LAST) >= 800
    elements = await tab.evaluate("document.querySelectorAll('*').length")
    assert elements < 1000

    before = await tab.evaluate("({...document.querySelector('#canvas').dataset})")
    for number in range(20):
        rig.see(holding(f"late-{number}", f"gcu-{number + 1:04d}", 1))
    await tab.until("Number(document.querySelector('#canvas').dataset.drawn) >= $0", int(before["drawn"]) + 20)
    after = await tab.evaluate("({...document.querySelector('#canvas').dataset})")
    assert int(after["drawn"]) - int(before["drawn"]) <= 40
    assert int(after["frames"]) - int(before["frames"]) <= 20
    assert await tab.evaluate("document.querySelectorAll('*').length") < elements + 100
