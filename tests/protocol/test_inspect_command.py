"""``kubectl inspect`` and ``gcushare inspect`` over real HTTP: sources, outputs, and how reading fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # a reader of YAML 1.1, as kubectl's is

from gcushare.cli.subcommands import main
from gcushare.core.cards import UnrecordedHolder
from gcushare.runtime.exit_codes import DONE, MISUSED
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.nodes import encode_inventory
from gcushare_playground.apiserver import FailBefore, Fault
from tests.builders import inventory
from tests.extender_objects import Document, node_document, pod_document
from tests.protocol.commands import Ran, run_command
from tests.protocol.inspect_rig import SERVICE, Cluster, a_node, bound_pod, cluster, extender_of


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two nodes with cards and one without, two pods on cards and one that waits."""
    async with cluster(tmp_path) as found:
        found.put(a_node("node-1", 16, 16, address="10.0.0.1"), a_node("node-2", 16, address="10.0.0.2"))
        plain = a_node("plain", address="10.0.0.3")
        del plain["metadata"]["annotations"]
        plain["status"]["capacity"] = {"cpu": "4"}
        found.put(plain)
        found.put(bound_pod("a", "node-1", 0, 4), bound_pod("b", "node-2", 0, 8), pod_document("wait", 20))
        yield found


def body(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


async def test_without_the_extender_the_figures_are_counted_from_the_api_server_and_that_is_said(seen: Cluster) -> None:
    ran = await seen.show()
    assert ran.code == 0
    assert body(ran.lines)[1:3] == [
        ["node-1", "10.0.0.1", "4/16", "0/16", "4/32"],
        ["node-2", "10.0.0.2", "8/16", "8/16"],
    ]
    assert ran.lines[-2:] == ["Allocated/Total GCU Memory In Cluster:", "12/48 (25%) "]
    assert "pending: 1 pod waits for 20 GB: default/wait (20)" in ran.lines
    assert "plain" not in ran.out
    note, source = ran.err.splitlines()
    assert note.startswith("note: the scheduler extender (kube-system/gcushare-scheduler-extender:32766) was not used")
    assert source == "source: the API server alone"


async def test_the_extenders_figures_are_used_if_it_answers_and_are_the_same(seen: Cluster) -> None:
    namesake = (UnrecordedHolder(pod="default/a", units={0: 2}),)
    holding = encode_inventory(replace(inventory(16), unrecorded=namesake))
    seen.put(a_node("node-3", 16, address="10.0.0.3", annotations={ENFLAME.inventory_annotation: holding}))
    alone = await seen.show("--source", "api")
    async with extender_of(seen) as replica:
        through, direct = await seen.show(), await seen.show("--extender-url", replica.url)
        details = await seen.show("-d"), await seen.show("-d", "--source=api")
    assert through.out == direct.out == alone.out
    assert details[0].out == details[1].out
    assert through.err == "source: the scheduler extender (kube-system/gcushare-scheduler-extender:32766)\n"
    assert direct.err == f"source: the scheduler extender at {replica.url}\n"
    assert alone.err == "source: the API server\n"


async def test_a_pod_whose_record_cannot_be_read_is_marked_in_every_report(seen: Cluster) -> None:
    key = ENFLAME.record.card_index
    seen.put(pod_document("broken", 4, node="node-1", annotations={key: "one"}, phase="Running"))
    async with extender_of(seen):
        for source in ("api", "extender"):
            ran, named = await seen.show("--source", source), await seen.show("-d", "--source", source)
            assert ran.code == named.code == 0
            assert ran.lines[1].split()[-1] == "4/32+"
            assert "1 pod holds cards that are not known, on node-1; -d names them" in ran.lines
            assert any(
                line.startswith("default/broken (node-1) holds cards that are not known: ") for line in named.lines
            )
            document = (await seen.show("-o", "json", "--source", source)).document
            assert [(pod["name"], pod["node"], pod["units"]) for pod in document["unplaced"]] == [
                ("broken", "node-1", 4)
            ]
            assert [pod["name"] for pod in document["pending"]] == ["wait"]


async def test_a_reservation_under_way_is_the_extenders_figure_and_not_yet_the_api_servers(seen: Cluster) -> None:
    def card(index: int, used: int, *pods: str) -> Document:
        amounts = {"id": index, "totalGCU": 16, "usedGCU": used, "availableGCU": 16 - used}
        held = {"namespace": "default", "createTime": "", "usedGCU": used}
        return {**amounts, "pods": [{"name": name, "uid": f"u-{name}", **held} for name in pods]}

    cards = {"node-1": [card(0, 4, "a"), card(1, 12, "new")], "node-2": [card(0, 0)]}
    document = {"nodes": [{"name": name, "devices": devices} for name, devices in cards.items()]}
    seen.front.backends[SERVICE] = json.dumps(document)
    ran = await seen.show()
    assert ran.lines[1].split()[2:4] == ["4/16", "12/16"]
    assert ran.lines[-1] == "16/48 (33%) "


async def test_an_extender_that_was_asked_for_by_name_and_is_away_is_an_error(seen: Cluster) -> None:
    ran = await seen.call("--source", "extender")
    assert (ran.code, ran.out) == (1, "")
    assert "not found" in ran.err


async def test_json_and_yaml_say_the_same_also_to_readers_of_yaml_1_1(seen: Cluster) -> None:
    seen.put(pod_document("no", 20))
    ran = await seen.call("-o", "json", "--source=api")
    document = ran.document
    held = {"total": 48, "allocated": 12, "percent": 25}
    assert document["cluster"] == {"nodes": 2, "cards": 3, **held, "free": 36, "freeIfTolerated": 0}
    assert document["nodes"][0]["cards"][0]["pods"][0]["name"] == "a"
    assert document["nodes"][0]["unitBytes"] == 1 << 30
    assert [each["name"] for each in document["pending"]] == ["no", "wait"]
    as_yaml = await seen.call("-o", "yaml", "--source=api")
    assert yaml.safe_load(as_yaml.out) == document


async def test_nodes_that_cannot_be_read_are_reported_and_the_rest_is_shown(seen: Cluster) -> None:
    seen.put(a_node("node-3", 16, annotations={ENFLAME.inventory_annotation: '{"version": 99}'}))
    ran = await seen.show("--source=api")
    assert ran.code == 0, "the table has every other node"
    assert ran.lines[-1] == "12/48 (25%) "
    assert "warning: node node-3: the inventory annotation cannot be read" in ran.err
    one = await seen.show("node-3", "--source=api")
    assert one.code == 1, "nothing of what was asked for is shown"
    assert "the cards of node 'node-3' cannot be read" in one.err


async def test_a_node_without_cards_is_an_error_that_says_what_is_missing(seen: Cluster) -> None:
    ran = await seen.show("plain")
    assert ran.code == 1
    assert "has no GCU cards" in ran.err
    assert "enflame.com/gcushare=true" in ran.err


async def test_who_may_only_ask_the_extender_sees_its_figures_and_what_is_missing(seen: Cluster) -> None:
    async with extender_of(seen):
        # The extender's own watches are not affected: they are open already.
        seen.api.faults.on(Fault(FailBefore(403, "Forbidden", "nodes is forbidden"), path=r"^/api/v1/(nodes|pods)"))
        ran, one = await seen.show(), await seen.show("node-1")
        seen.api.faults.clear()
    assert "nodes is forbidden" in one.err
    assert ran.code == 1
    assert ran.lines[-1] == "12/48 (25%) "
    assert "GCU Memory(units)" in ran.lines[0]
    assert "warning: addresses and units are missing" in ran.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--context", "nowhere"), "context 'nowhere' is not in"),
        (("-o", "jsn"), "did you mean 'json'?"),
        (("node-1", "-l", "a=b"), "exclude each other"),
        (("top", "node-1", "-l", "a=b"), "exclude each other"),
        (("--extender-service", "x"), "must be NAMESPACE/NAME:PORT"),
        (("--extender-url", "h:1"), "'h:1' must be http://HOST:PORT or https://HOST:PORT"),
        (("--nmespace", "x"), "--namespace"),
    ],
)
async def test_wrong_arguments_exit_with_2_and_say_what_is_accepted(
    seen: Cluster, argv: tuple[str, ...], said: str
) -> None:
    ran = await seen.call(*argv)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


@pytest.mark.slow
async def test_a_silent_extender_is_asked_once_while_the_api_server_is_read(seen: Cluster) -> None:
    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the other side gives up
        writer.close()

    silent = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with silent:
        url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        seen.front.backends |= {SERVICE: url, SERVICE.replace("http:", "https:"): url}
        for command in ((), ("explain", "wait")):
            ran = await seen.show(*command)
            assert ran.code == 0
            assert "was not used" in ran.err
    assert [path.partition("/services/")[2].partition(":")[0] for path in seen.front.proxied] == ["http", "http"]


def labelled(name: str, vendor: Vendor) -> Document:
    """A node of 16 units on which the vendor's plugin runs."""
    node = node_document(name, 16, vendor=vendor)
    key, _, value = vendor.node_label.partition("=")
    node["metadata"]["labels"] = {key: value}
    return node


@pytest.fixture
async def empty(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as found:
        yield found


async def run(found: Cluster, *argv: str) -> Ran:
    return await run_command(main, *argv, environ=found.environ(NO_COLOR="1"), columns=300)


@pytest.mark.parametrize("make", [labelled, lambda name, vendor: node_document(name, 16, vendor=vendor)])
async def test_the_cards_are_those_of_the_vendor_whose_label_or_plugin_the_nodes_have(
    empty: Cluster, make: Callable[[str, Vendor], Document]
) -> None:
    empty.put(make("node-1", ALIYUN), pod_document("waits", 4, vendor=ALIYUN))
    shown, explained, needed = [
        await run(empty, *words) for words in (["inspect"], ["explain", "waits"], ["nodes-needed"])
    ]
    assert (shown.code, explained.code, needed.code) == (DONE, DONE, DONE)
    assert "GPU" in shown.out
    assert "GCU" not in shown.out
    assert "it fits now" in explained.out
    assert "GPU" in (await run(empty, "top")).out
    assert "There is room now" in (await run(empty, "defragment", "--for", "4")).out


async def test_a_pod_is_explained_for_the_cards_that_it_asks_for_and_a_table_names_the_other_cards(
    empty: Cluster,
) -> None:
    empty.put(labelled("node-1", ENFLAME), labelled("node-2", ALIYUN), pod_document("waits", 4, vendor=ALIYUN))
    assert "it fits now" in (await run(empty, "explain", "default/waits")).out
    shown = await run(empty, "inspect")
    assert "GCU" in shown.out
    assert "note: 1 node has GPU cards: 'kubectl inspect gpushare' shows them" in shown.err
    assert "'kubectl inspect gpushare' shows them" in (await run(empty, "nodes-needed")).err
    assert "1 pod waits" in (await run(empty, "nodes-needed", "node-2")).out
    assert "GPU" in (await run(empty, "inspect", "node-2")).out


async def test_what_is_wrong_is_said_in_the_words_that_were_typed(empty: Cluster) -> None:
    unknown = await run(empty, "explain", "absent")
    assert "there is no pod 'absent' in namespace 'default'" in unknown.err
    empty.put(labelled("node-1", ENFLAME))
    assert "did you mean the command 'gcushare explain'?" in (await run(empty, "inspect", "explain")).err
    wrong = await run(empty, "top", "--watch")
    assert wrong.code == MISUSED
    assert "--watch" in wrong.err
