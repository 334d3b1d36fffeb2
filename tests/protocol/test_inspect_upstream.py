"""``kubectl inspect gpushare`` on a pipe prints what upstream gpushare's command prints for the same cluster.

Each file of ``upstream_inspect`` describes a cluster, then has what upstream's program printed for it, byte for byte.
Upstream lists nodes and cards in any order; the files have them in order. A ``.documents`` file has, for the same
cluster, what upstream's extender answers at each path.

``node NAME ADDRESS UNIT CARDS...``: the memory of each card. ``pod NAMESPACE/NAME NODE CARD:UNITS,... [PHASE]``: what
it holds; without ``CARD:`` what it asks for, and with ``!`` its record is damaged. ``-`` is none.
"""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest

from gcushare.cli.inspect.command_line import NAMES
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.annotations import PodRecord
from tests.api_objects import an_object
from tests.builders import card
from tests.extender_objects import Document, inventory_text, node_document, pod_document
from tests.protocol.inspect_rig import Cluster, a_node, cluster, extender_of, in_namespace

FOLDER = Path(__file__).parent / "upstream_inspect"
FILES = sorted(FOLDER.glob("*.txt"))
COMMAND = "$ kubectl inspect gpushare"


def outputs_of(path: Path) -> dict[tuple[str, ...], str]:
    """What upstream printed, by the arguments."""
    parts = re.split(rf"^{re.escape(COMMAND)}(.*)\n", path.read_text(), flags=re.MULTILINE)
    return {tuple(argv.split()): output for argv, output in zip(parts[1::2], parts[2::2], strict=True)}


def cluster_of(path: Path, vendor: Vendor = ALIYUN) -> list[Document]:
    """The namespaces, Nodes and Pods that a file describes."""
    lines = [line.split() for line in path.read_text().partition(COMMAND)[0].splitlines()]
    pods = [pod_of(vendor, *rest) for word, *rest in lines if word == "pod"]
    namespaces = {pod["metadata"]["namespace"] for pod in pods} - {"default"}
    nodes = [node_of(vendor, *rest) for word, *rest in lines if word == "node"]
    return [*(an_object("Namespace", name) for name in namespaces), *nodes, *pods]


def node_of(vendor: Vendor, name: str, address: str, unit: str, *sizes: str) -> Document:
    offered = [card(index, int(size)) for index, size in enumerate(sizes)]
    inventory = inventory_text(offered, "1" if (vendor, unit) == (ENFLAME, "GiB") else unit)
    document = a_node(
        name, vendor=vendor, address=address, offered=offered, annotations={vendor.inventory_annotation: inventory}
    )
    if not offered:
        document["metadata"]["annotations"] = {}
        document["status"] |= {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
    if address == "-":
        document["status"]["addresses"] = [{"type": "Hostname", "address": name}]
    return document


def pod_of(vendor: Vendor, name: str, node: str, amounts: str, phase: str = "Running") -> Document:
    namespace, _, name = name.partition("/")
    held = {int(card): int(units) for card, units in re.findall(r"(\d+):(\d+)", amounts)}
    total = sum(held.values()) or int(amounts.rstrip("!"))
    damaged = {vendor.record.card_index: "one"} if amounts.endswith("!") else {}
    record = PodRecord(
        card_indexes=tuple(held), card_units=16, pod_units=total, assigned=True, card_shares=tuple(held.values())
    )
    document = pod_document(
        name,
        total,
        vendor=vendor,
        node="" if node == "-" else node,
        record=record if held else None,
        annotations=damaged,
        phase=phase,
    )
    return in_namespace(document, namespace)


async def printed(found: Cluster, path: Path, *options: str) -> dict[tuple[str, ...], str]:
    """What ours prints for a file's commands; each succeeds, and stderr has nothing but what is missing."""
    shown = {}
    for argv in outputs_of(path):
        ran = await found.call(*argv, *options)
        assert ran.code == 0, ran.err
        assert all("has no G" in line for line in ran.err.splitlines()), ran.err
        shown[argv] = ran.out
    return shown


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
async def test_the_output_on_a_pipe_is_upstreams_byte_for_byte(path: Path, tmp_path: Path) -> None:
    async with cluster(tmp_path, names=NAMES["gpushare"]) as found:
        found.put(*cluster_of(path))
        assert await printed(found, path) == outputs_of(path)


@pytest.mark.parametrize("path", FILES[::4], ids=lambda path: path.stem)
async def test_enflames_table_is_the_same_with_its_own_words(path: Path, tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        found.put(*cluster_of(path, ENFLAME))
        assert await printed(found, path) == {
            argv: text.replace("GPU", "GCU").replace("(GiB)", "(GB)") for argv, text in outputs_of(path).items()
        }


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.documents")), ids=lambda path: path.stem)
async def test_the_extenders_document_is_upstreams_byte_for_byte(path: Path, tmp_path: Path) -> None:
    expected = dict(line.split(" ", 1) for line in path.read_text().splitlines(keepends=True))
    async with cluster(tmp_path, names=NAMES["gpushare"]) as found:
        found.put(*cluster_of(path.with_suffix(".txt")))
        async with extender_of(found) as replica, aiohttp.ClientSession(replica.url) as http:
            for url in expected:
                async with http.get(url) as answer:
                    assert (answer.status, answer.content_type) == (200, "application/json")
                    assert await answer.text() == expected[url]


async def test_a_cluster_of_another_vendors_cards_names_the_command_that_shows_them(tmp_path: Path) -> None:
    async with cluster(tmp_path, names=NAMES["gcushare"]) as found:
        found.put(*(node_document(f"gpu-{number}", 16, vendor=ALIYUN) for number in range(2)))
        piped, shown = await found.call(), await found.show()
    for ran in (piped, shown):
        assert (
            "note: no node has GCU cards, and 2 nodes have GPU cards: 'kubectl inspect gpushare' shows them" in ran.err
        )
