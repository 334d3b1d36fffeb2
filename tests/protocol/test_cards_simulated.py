"""Simulated cards follow their file while a program runs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcushare.cards.simulated.source import SimulatedSource
from gcushare.core.errors import ConfigError

EVENT_TIMEOUT_S = 60.0


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
async def source(path: Path) -> AsyncIterator[SimulatedSource]:
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


async def test_a_card_falls_sick_recovers_and_goes_with_its_file(path: Path, source: SimulatedSource) -> None:
    write(path, "cards: [{memory: 16GiB}, {memory: 16GiB, health: unhealthy, reason: too hot}]")
    assert await source.wait_event(EVENT_TIMEOUT_S)
    readings = (await source.list_cards()).readings
    assert [each.reason for each in readings.values()] == ["", "too hot"]
    write(path, "{count: 1, memory: 16GiB}")
    assert await source.wait_event(EVENT_TIMEOUT_S)
    report = await source.list_cards()
    assert (len(report.cards), [each.healthy for each in report.readings.values()]) == (1, [True])


@pytest.mark.parametrize("broken", ["{count: 2, mem", "{count: two, memory: 1GiB}", ""])
async def test_a_half_written_file_keeps_the_last_good_state_and_is_reported_once(
    path: Path, source: SimulatedSource, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = await source.list_cards()
    path.write_text(broken)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert await source.list_cards() == before
    warnings = [record.getMessage() for record in caplog.records if "last good state" in record.getMessage()]
    assert len(warnings) == 1
    assert str(path) in warnings[0]
    write(path, "{count: 1, memory: 8GiB}")
    assert len((await source.list_cards()).cards) == 1


async def test_a_removed_file_keeps_the_last_good_state(path: Path, source: SimulatedSource) -> None:
    before = await source.list_cards()
    path.unlink()
    assert await source.list_cards() == before


async def test_a_configmap_swapped_behind_a_link_is_followed(tmp_path: Path) -> None:
    for version, count in (("..1", 1), ("..2", 2)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "cards.yaml").write_text(f"{{count: {count}, memory: 1GiB}}")
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "cards.yaml").symlink_to("..data/cards.yaml")
    source = SimulatedSource(tmp_path / "cards.yaml")
    assert len((await source.list_cards()).cards) == 1
    swapped = tmp_path / "..data_tmp"
    swapped.symlink_to("..2")
    swapped.replace(tmp_path / "..data")
    assert await source.wait_event(EVENT_TIMEOUT_S)
    assert len((await source.list_cards()).cards) == 2
    await source.close()
