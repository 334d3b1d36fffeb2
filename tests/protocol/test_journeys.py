"""The journeys of docs/architecture.md, played: each module that a journey names is called, in the journey's order.

Only the worker of a vendor's library is not followed: it is another process.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import gcushare
from tests.extender_objects import node_document, pod_document
from tests.protocol.extender_rig import ExtenderRig
from tests.protocol.inspect_rig import a_node, cluster
from tests.protocol.plugin_rig import PluginRig

DOCUMENT = Path(__file__).parents[2] / "docs/architecture.md"
HOUSE = str(Path(gcushare.__file__).parent) + "/"
MOST_MODULES = 90
"""Modules that a journey may pass in all, with those that everything passes (logs, clocks, metrics)."""


def journey(title: str) -> list[str]:
    """The modules that a journey names, in its order, as paths below the package."""
    text = DOCUMENT.read_text()
    start = text.index(f"**{title}")
    paragraph = text[start:].split("\n\n")[0]
    return re.findall(r"`([a-z_]+(?:/[a-z_]+)+)`", paragraph)


@contextmanager
def followed() -> Iterator[list[str]]:
    """Record the modules of ours whose functions are called, in this thread and those that it starts."""
    calls: list[str] = []

    def on_event(frame: FrameType, event: str, _argument: object) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(HOUSE):
            module = name[len(HOUSE) : -len(".py")]
            if not calls or calls[-1] != module:
                calls.append(module)

    threading.setprofile(on_event)
    sys.setprofile(on_event)
    try:
        yield calls
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def check(named: Sequence[str], calls: Sequence[str]) -> None:
    """Find the named modules in the calls, one behind the other."""
    assert named
    assert len(set(calls)) <= MOST_MODULES
    rest = iter(calls)
    for position, name in enumerate(named):
        assert any(each == name for each in rest), f"{name} is not called after {named[:position]}"


async def test_a_request_passes_the_modules_that_the_document_names() -> None:
    async with ExtenderRig() as rig:
        await rig.add_nodes(node_document("n1", 16), node_document("n2", 16))
        (pod,) = await rig.add_pods(pod_document("a", 4))
        with followed() as calls:
            names = (await rig.filter(pod, ["n1", "n2"]))["NodeNames"]
        check(journey("filter."), calls)
        with followed() as calls:
            await rig.bind(pod, names[0], is_filtered=True)
        check(journey("bind."), calls)


async def test_an_allocation_passes_the_modules_that_the_document_names() -> None:
    async with PluginRig() as rig:
        with followed() as calls:
            await rig.run("a", 4, card=2)
    check(journey("Allocate."), calls)


async def test_a_sick_card_passes_the_modules_that_the_document_names() -> None:
    async with PluginRig() as rig:
        with followed() as calls:
            rig.write_cards({0: {"health": "unhealthy", "reason": "fell off the bus"}})
            await rig.until_units(8 * 16, allocatable=7 * 16)
    named = journey("A sick card.")
    check(named[named.index("cards/monitor") :], calls)


async def test_inspect_passes_the_modules_that_the_document_names(tmp_path: Path) -> None:
    async with cluster(tmp_path) as found:
        found.put(a_node("n1", 16))
        with followed() as calls:
            ran = await found.show("-d")
    assert ran.code == 0, ran.err
    check(journey("inspect -d"), calls)
