"""Memory limits of control groups through NVML: a fake library with both ways of keeping them."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulation.control_groups import ControlGroups, Keeping, read_set_calls

from gcushare.cards.errors import LibraryCallError
from gcushare.cards.ports import GroupMemory, LimitSource
from gcushare.core.cards import Card
from gcushare.core.errors import DeviceError
from tests.native.libraries import DirectSource, FakeLibrary, install_fake, isolated, nvml_here

GIB = 1 << 30
BOTH: tuple[Keeping, ...] = ("dmem", "misc")


def direct(*rules: str) -> tuple[FakeLibrary, DirectSource]:
    """The library in this process, for what needs no worker."""
    fake, library = nvml_here()
    fake.control(*rules)
    return fake, DirectSource(library)


async def cards_of(source: LimitSource) -> tuple[Card, ...]:
    return (await source.list_cards()).cards


@pytest.mark.parametrize("keeping", BOTH)
async def test_a_limit_is_set_read_back_and_kept(tmp_path: Path, keeping: Keeping) -> None:
    groups = ControlGroups(tmp_path / "cgroup", keeping)
    pod = groups.make("kubepods/pod1")
    container = groups.make("kubepods/pod1/c1")
    fake = install_fake("nvml", tmp_path, f"set keeping * {keeping}")
    async with isolated(fake, reads=False) as source:
        card, other = await cards_of(source)
        assert await source.limit_group(card, str(pod), 4 * GIB) == GroupMemory(hard_bytes=4 * GIB, used_bytes=0)
        assert groups.allocate(container, 0, 3 * GIB)
        assert not groups.allocate(container, 0, 2 * GIB)
        assert groups.allocate(container, 1, 60 * GIB), "a limit is one of one card"
        assert await source.group_memory(card, str(pod)) == GroupMemory(hard_bytes=4 * GIB, used_bytes=3 * GIB)
        without = GroupMemory(hard_bytes=None, used_bytes=3 * GIB)
        assert await source.limit_group(card, str(pod), None) in (without, None)
        assert groups.allocate(container, 0, 60 * GIB)
        assert (await source.group_memory(other, str(pod)) or without).hard_bytes is None
        # What is in use is not taken back.
        await source.limit_group(other, str(pod), 80 * GIB)
        assert groups.allocate(container, 1, 15 * GIB)
        with pytest.raises(LibraryCallError, match="nvmlDeviceSetMemoryLimits_v1"):
            await source.limit_group(other, str(pod), 10 * GIB)
        assert groups.limit_of(pod, 1) == 80 * GIB
    calls = [(call.card, call.soft, call.code) for call in read_set_calls(fake.path)]
    assert calls[:3] == [(0, 0, 0), (0, 0, 0), (1, 0, 0)]


async def test_what_cannot_be_limited_says_so(tmp_path: Path) -> None:
    groups = ControlGroups(tmp_path / "cgroup", "dmem")
    pod = groups.make("kubepods/pod1")
    fake, source = direct("set keeping * dmem")
    card = (await cards_of(source))[0]
    for group in (groups.root, tmp_path / "gone"):
        with pytest.raises(LibraryCallError):
            await source.limit_group(card, str(group), GIB)
    fake.control("set keeping * dmem", "set not_root * 1")
    with pytest.raises(LibraryCallError, match="NO_PERMISSION"):
        await source.limit_group(card, str(pod), GIB)
    assert await source.group_memory(card, str(groups.root / "gone")) is None


async def test_an_older_driver_has_no_such_call(tmp_path: Path) -> None:
    groups = ControlGroups(tmp_path / "cgroup")
    pod = groups.make("kubepods/pod1")
    _, source = direct()
    card = (await cards_of(source))[0]
    with pytest.raises(LibraryCallError, match="FUNCTION_NOT_FOUND") as raised:
        await source.group_memory(card, str(pod))
    assert raised.value.failure.is_unsupported


async def test_another_vendors_library_keeps_none(tmp_path: Path) -> None:
    async with isolated(install_fake("efml", tmp_path), reads=False) as source:
        card = (await cards_of(source))[0]
        with pytest.raises(DeviceError, match="keeps no memory limits"):
            await source.limit_group(card, str(tmp_path), GIB)


async def test_a_call_that_hangs_costs_the_worker_and_is_an_error(tmp_path: Path) -> None:
    groups = ControlGroups(tmp_path / "cgroup")
    pod = groups.make("kubepods/pod1")
    fake = install_fake("nvml", tmp_path, "set keeping * dmem", "crash nvmlDeviceSetMemoryLimits_v1 0")
    async with isolated(fake, reads=False) as source:
        first, second = await cards_of(source)
        with pytest.raises(DeviceError, match="nvmlDeviceSetMemoryLimits_v1"):
            await source.limit_group(first, str(pod), GIB)
        assert await cards_of(source) == (first, second)
        with pytest.raises(DeviceError, match="nvmlDeviceSetMemoryLimits_v1"):
            await source.limit_group(first, str(pod), GIB)  # it rests: the library is not asked
        assert await source.limit_group(second, str(pod), GIB) == GroupMemory(hard_bytes=GIB, used_bytes=0)
