"""``--cards``: which source is taken and what is said of the others, and simulated cards that follow their file."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcushare.cards.selection import AutoSource, SourceOptions, open_source
from gcushare.cards.simulated.source import SimulatedSource
from gcushare.core.errors import ConfigError, DeviceError
from tests.native.libraries import FakeLibrary, install_fake


def auto_of(folder: Path, prefer: str = "efml") -> tuple[AutoSource, FakeLibrary, FakeLibrary]:
    """An auto source over both fakes."""
    efml, nvml = install_fake("efml_native", folder), install_fake("nvml", folder)
    source = open_source(
        SourceOptions(libraries=(f"efml={efml.path}", f"nvml={nvml.path}"), prefer=prefer, pci_devices="/nonexistent")
    )
    assert isinstance(source, AutoSource)
    return source, efml, nvml


@pytest.mark.parametrize("cards", ["", "cuda", "simulated", "simulated:", "EFML", "auto,nvml"])
def test_another_word_is_refused_with_the_four_forms(cards: str) -> None:
    with pytest.raises(ConfigError, match="accepted: auto, efml, nvml, simulated:FILE"):
        open_source(SourceOptions(cards=cards))


# Several worker processes.
@pytest.mark.slow
@pytest.mark.parametrize(("prefer", "other"), [("efml", "nvml"), ("nvml", "efml")])
async def test_where_both_have_cards_the_preferred_is_taken_and_the_other_reported(
    tmp_path: Path, prefer: str, other: str
) -> None:
    source, _, _ = auto_of(tmp_path, prefer)
    report = await source.list_cards()
    assert report.cards[0].uuid.startswith({"efml": "GCU", "nvml": "GPU"}[prefer])
    assert source.selection.startswith(f"{prefer} (")
    assert re.search(rf" \({other} \(.*\): it has 2 cards too; choose it with --cards\)$", source.selection)
    await source.close()


async def test_what_was_passed_over_is_reported_with_its_reason(tmp_path: Path) -> None:
    source, efml, nvml = auto_of(tmp_path)
    efml.control("fail EfmlInit * 6")
    await source.list_cards()
    assert source.name == f"nvml ({nvml.path})"
    reason = "EfmlInit failed with code 6: the library's words for 6"
    assert source.selection == f"nvml ({nvml.path}) (efml ({efml.path}): {reason})"
    await source.close()


@pytest.mark.slow
async def test_without_any_cards_every_reason_is_reported_and_a_later_driver_found(tmp_path: Path) -> None:
    source, efml, nvml = auto_of(tmp_path)
    efml.control("cards 0")
    nvml.control("cards 0")
    with pytest.raises(DeviceError) as caught:
        await source.list_cards()
    assert str(caught.value).startswith("no cards (efml ")
    assert str(caught.value).count("it lists no cards") == 2
    nvml.control("cards 1")
    assert [card.uuid for card in (await source.list_cards()).cards] == ["GPU-00000000"]
    await source.close()


def write(path: Path, text: str) -> None:
    """Replace the file in one step, as an editor or a ConfigMap does."""
    half = path.with_name(path.name + ".half")
    half.write_text(text)
    half.replace(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "cards.yaml"
    write(path, "{count: 2, memory: 16GiB}")
    return path


@pytest.fixture
async def simulated(path: Path) -> AsyncIterator[SimulatedSource]:
    source = SimulatedSource(path)
    await source.list_cards()
    yield source
    await source.close()


@pytest.mark.parametrize("text", ["cards: [", "{count: 2}", "\xff"])
def test_a_file_that_is_wrong_from_the_start_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cards.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=str(path)):
        SimulatedSource(path)


def test_a_file_that_describes_no_cards_but_fills_the_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cards.yaml"
    path.write_text("#" * (5 << 20))
    with pytest.raises(ConfigError, match="larger than"):
        SimulatedSource(path)


@pytest.mark.parametrize("broken", ["{count: 2, mem", "{count: two, memory: 1GiB}", None])
async def test_a_half_written_or_removed_file_keeps_the_last_good_state_and_is_reported_once(
    path: Path, simulated: SimulatedSource, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    before = await simulated.list_cards()
    path.unlink()
    if broken is not None:
        path.write_text(broken)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await simulated.list_cards() == before
    warnings = [record.getMessage() for record in caplog.records if "last good state" in record.getMessage()]
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    write(path, "{count: 1, memory: 8GiB}")
    assert len((await simulated.list_cards()).cards) == 1
