"""``gcushare inspect``, ``explain``, ``top`` and ``nodes-needed``: kubectl's commands, for any vendor's cards."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcushare.cli.subcommands import main
from gcushare.runtime.exit_codes import DONE, MISUSED
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from tests.extender_objects import Document, node_document, pod_document
from tests.protocol.commands import Ran, run_command
from tests.protocol.inspect_rig import Cluster, cluster


def labelled(name: str, vendor: Vendor) -> Document:
    """A node of 16 units on which the vendor's plugin runs."""
    node = node_document(name, 16, vendor=vendor)
    key, _, value = vendor.node_label.partition("=")
    node["metadata"]["labels"] = {key: value}
    return node


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as found:
        yield found


async def run(found: Cluster, *argv: str) -> Ran:
    return await run_command(main, *argv, environ=found.environ(NO_COLOR="1"), columns=300)


async def test_the_cards_are_those_of_the_vendor_whose_label_the_nodes_have(seen: Cluster) -> None:
    seen.put(labelled("node-1", ALIYUN), pod_document("waits", 4, vendor=ALIYUN))
    shown, explained, needed = [
        await run(seen, *words) for words in (["inspect"], ["explain", "waits"], ["nodes-needed"])
    ]
    assert (shown.code, explained.code, needed.code) == (DONE, DONE, DONE)
    assert "GPU" in shown.out
    assert "GCU" not in shown.out
    assert "it fits now" in explained.out
    assert "GPU" in (await run(seen, "top")).out


async def test_a_pod_is_explained_for_the_cards_that_it_asks_for_and_a_table_names_the_other_cards(
    seen: Cluster,
) -> None:
    seen.put(labelled("node-1", ENFLAME), labelled("node-2", ALIYUN), pod_document("waits", 4, vendor=ALIYUN))
    assert "it fits now" in (await run(seen, "explain", "default/waits")).out
    shown = await run(seen, "inspect")
    assert "GCU" in shown.out
    assert "note: 1 node has GPU cards: 'kubectl inspect gpushare' shows them" in shown.err


async def test_what_is_wrong_is_said_in_the_words_that_were_typed(seen: Cluster) -> None:
    unknown = await run(seen, "explain", "absent")
    assert "there is no pod 'absent' in namespace 'default'" in unknown.err
    seen.put(labelled("node-1", ENFLAME))
    assert "did you mean the command 'gcushare explain'?" in (await run(seen, "inspect", "explain")).err
    wrong = await run(seen, "top", "--watch")
    assert wrong.code == MISUSED
    assert "--watch" in wrong.err
