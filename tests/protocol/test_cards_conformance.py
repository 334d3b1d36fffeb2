"""What every source of cards must do, on each of them; on a real NVIDIA driver too, where there is one."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gcushare.cards.ports import CardSource
from gcushare.cards.selection import SourceOptions, open_source
from tests.native.libraries import install_fake

# One group: a source is opened once, in one worker.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("conformance")]

SOURCES = ("efml_native", "efml_shaped", "nvml", "simulated", "real nvml")


def options_of(kind: str, folder: Path) -> SourceOptions:
    match kind:
        case "efml_native" | "efml_shaped" | "nvml":
            library = kind.partition("_")[0]
            path = install_fake(kind, folder).path
            return SourceOptions(cards=library, libraries=(f"{library}={path}",), pci_devices="/nonexistent")
        case "simulated":
            (folder / "cards.yaml").write_text("{count: 2, memory: 16GiB}")
            return SourceOptions(cards=f"simulated:{folder}/cards.yaml")
        case _:
            require_nvidia_driver()
            return SourceOptions(cards="nvml")


def require_nvidia_driver() -> None:
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        pytest.skip("no NVIDIA driver (libnvidia-ml.so.1): run on a machine with an NVIDIA GPU to check the real NVML")


@pytest_asyncio.fixture(params=SOURCES, scope="module", loop_scope="module")
async def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[CardSource]:
    """One of each for all tests, which leave it as it was: most of what a test takes is the start of its process."""
    source = open_source(options_of(request.param, tmp_path_factory.mktemp("cards")))
    yield source
    await source.close()
    await source.close()  # once more does no harm


async def test_cards_are_listed_by_index_each_with_an_identity_and_memory(source: CardSource) -> None:
    report = await source.list_cards()
    assert source.name.split()[0] in {"efml", "nvml", "simulated"}
    assert report.cards
    assert report.driver
    indexes = [card.index for card in report.cards]
    assert indexes == sorted(set(indexes))
    assert len({card.uuid for card in report.cards}) == len(indexes)
    assert all(card.uuid and card.memory_bytes > 1 << 30 for card in report.cards)
    assert (await source.list_cards()).cards == report.cards


async def test_every_listed_card_reports_its_health_and_use(source: CardSource) -> None:
    report = await source.list_cards()
    for card in report.cards:
        assert report.readings[card.uuid].healthy
        used = report.uses[card.uuid].memory_used_bytes
        assert used is None or 0 <= used <= card.memory_bytes


async def test_waiting_for_an_event_ends_by_itself(source: CardSource) -> None:
    await source.list_cards()
    assert await source.wait_event(0.05) is None


async def test_links_are_reported_the_same_from_both_sides(source: CardSource) -> None:
    for card_a, card_b in itertools.combinations((await source.list_cards()).cards[:2], 2):
        assert await source.are_linked(card_a, card_b) == await source.are_linked(card_b, card_a)
