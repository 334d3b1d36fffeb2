"""What every source of cards must do, on each of them; on a real NVIDIA driver too, where there is one."""

from __future__ import annotations

import ctypes
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from gcushare.cards.ports import CardSource
from gcushare.cards.selection import SourceOptions, open_source
from gcushare.core.errors import DeviceError
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
    assert (await source.list_cards()) == report


async def test_every_listed_card_reports_its_health_and_use(source: CardSource) -> None:
    for card in (await source.list_cards()).cards:
        assert (await source.health(card)).healthy
        use = await source.use(card)
        assert use.memory_used_bytes is None or 0 <= use.memory_used_bytes <= card.memory_bytes


async def test_a_card_that_no_one_lists_is_sick_and_has_no_use(source: CardSource) -> None:
    stranger = msgspec.structs.replace((await source.list_cards()).cards[0], index=99, uuid="stranger")
    reading = await source.health(stranger)
    assert (reading.healthy, reading.lost) == (False, True)
    assert reading.reason
    with pytest.raises(DeviceError, match="stranger"):
        await source.use(stranger)


async def test_waiting_for_an_event_ends_by_itself(source: CardSource) -> None:
    await source.list_cards()
    assert await source.wait_event(0.05) is None


async def test_links_are_reported_or_not_but_never_fail(source: CardSource) -> None:
    cards = (await source.list_cards()).cards
    for card_a in cards[:2]:
        for card_b in cards[:2]:
            if card_a != card_b:
                assert await source.link_level(card_a, card_b) == await source.link_level(card_b, card_a)
