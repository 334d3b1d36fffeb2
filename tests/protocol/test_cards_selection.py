"""``--cards``: which source is taken, and what is said of the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gcushare.cards.selection import AutoSource, SourceOptions, open_source
from gcushare.core.errors import ConfigError, DeviceError
from tests.native.libraries import FakeLibrary, install_fake

NO_BUS = "/nonexistent"


def auto_of(folder: Path, prefer: str = "efml") -> tuple[AutoSource, FakeLibrary, FakeLibrary]:
    """An auto source over both fakes."""
    efml, nvml = install_fake("efml_native", folder), install_fake("nvml", folder)
    source = open_source(
        SourceOptions(libraries=(f"efml={efml.path}", f"nvml={nvml.path}"), prefer=prefer, pci_devices=NO_BUS)
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
