"""Memory limited by NVIDIA's driver: what pods get before their containers start, and what becomes of it later."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from simulation.control_groups import ControlGroups, Keeping, SetCall, read_set_calls

from gcushare.cards.ports import GroupMemory
from gcushare.core.errors import DeviceError
from gcushare.core.units import GIB
from gcushare.device_plugin.adapters import HostAdapters
from gcushare.device_plugin.claims.claim_checks import CHECK_S
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.node.driver_limits.pod_amounts import LEAST_BYTES
from gcushare.node.mps.limits import MEMORY_VARIABLE
from gcushare.node.node_settings import Fallback, MemoryLimit
from gcushare.wire.annotations import MEMORY_LIMIT, OVER_USE
from gcushare.wire.pods import MACHINE_UID, MIRROR
from tests.api_objects import delete, merge_into
from tests.fake_proc import FakeProc
from tests.native.libraries import DirectSource, FakeLibrary, install_fake, isolated, nvml_here
from tests.protocol.claims_rig import ClaimsRig, share
from tests.protocol.mps_rig import mps_rig
from tests.protocol.plugin_rig import RESOURCE, PluginRig, false_mirror

CONTAINER = "pid:[4026532842]"
VARIABLE = "NVIDIA_GPU_MEMORY_LIMIT"
CARDS = (f"set memory * {16 * GIB}", "absent nvmlDeviceGetPciInfo_v3 * 3")


def nvml_adapters() -> tuple[FakeLibrary, HostAdapters]:
    """A fake NVML, without the worker process that a real one has: no call hangs here."""
    fake, library = nvml_here()
    return fake, HostAdapters(cards=DirectSource(library), limits=DirectSource(library))


class DriverRig(PluginRig):
    """A plugin whose cards are those of a fake NVML, on a machine with control groups of version 2."""

    def __init__(self, folder: Path, keeping: Keeping = "dmem", **plugin: Any) -> None:
        self.groups = ControlGroups(folder / "cgroup", keeping)
        self.groups.make("kubepods")
        self.library, adapters = nvml_adapters()
        self.rules()
        folders = {"cgroup_dir": self.groups.root, "proc_root": FakeProc(folder / "proc", CONTAINER).root}
        settings = {"memory_limit": MemoryLimit.DRIVER, **folders, **plugin}
        super().__init__(cards=(16, 16), plugin=settings, plugin_first=False, start_retry_s=0.2)
        self.adapters = adapters

    def rules(self, *more: str, keeping: bool = True) -> None:
        """Replace the rules of the library; ``keeping``: it is of a driver that keeps limits."""
        kept = (f"set keeping * {self.groups.keeping}",) if keeping else ()
        self.library.control(*CARDS, *kept, *more)

    def pod_with_group(self, name: str, *units: int, **options: Any) -> Path:
        """Bind a pod, and make its group, as the kubelet does before anything of it runs."""
        self.bind(name, *units, **options)
        return self.make_group(name)

    async def run_limited(self, name: str, *units: int, **options: Any) -> Path:
        """The same, and wait until it runs."""
        group = self.pod_with_group(name, *units, **options)
        await self.until_running(name)
        return group

    def child(self, group: Path, name: str) -> Path:
        """Make the group of a container."""
        return self.groups.make(f"{group.relative_to(self.groups.root)}/{name}")

    def make_group(self, name: str) -> Path:
        return self.groups.make(f"kubepods/burstable/pod{self.uid(name)}")

    def is_running(self, name: str) -> bool:
        return self.kubelet.container_view(self.uid(name), "c0") is not None

    async def until_running(self, name: str) -> None:
        await self.until(lambda: self.is_running(name), f"{name} runs; {self.problem('memoryLimit')}")

    def calls_for(self, group: Path) -> list[SetCall]:
        return [call for call in read_set_calls(self.library.path) if call.group == group]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[DriverRig]:
    async with DriverRig(tmp_path) as running:
        await running.start()
        yield running


@pytest.mark.parametrize("keeping", ["dmem", "misc"])
async def test_a_pod_has_its_limit_before_its_container_starts(tmp_path: Path, keeping: Keeping) -> None:
    async with DriverRig(tmp_path, keeping) as rig:
        await rig.start()
        group = await rig.run_limited("pod", 4, card=1)
        calls = sorted((call.card, call.soft, call.hard, call.code) for call in rig.calls_for(group))
        assert calls == [(0, 0, LEAST_BYTES, 0), (1, 0, 4 * GIB, 0)], "the card that it does not hold is closed to it"
        container = rig.child(group, "c0")
        assert not rig.groups.allocate(container, 1, 5 * GIB)
        assert rig.groups.allocate(container, 1, 4 * GIB)
        assert not rig.groups.allocate(container, 0, GIB), "whatever variable shows it the other card"
        assert (rig.variables("pod").get(VARIABLE)) == ("4096" if keeping == "dmem" else None)
        assert rig.problem("memoryLimit") == ""


async def test_all_containers_of_a_pod_share_its_limit_and_each_sees_its_own(rig: DriverRig) -> None:
    init = {"name": "load", "image": "x", "resources": {"limits": {"enflame.com/gcu-memory": "6"}}}
    with_init = rig.pod_with_group("with-init", 4, init=[init], card=1)
    group = rig.pod_with_group("pod", 4, 2)
    await rig.until_running("with-init")
    await rig.until_running("pod")
    assert rig.groups.limit_of(group, 0) == 6 * GIB
    assert rig.groups.limit_of(with_init, 1) == 6 * GIB, "an init container's ids are its pod's"
    child = rig.child(group, "last")
    await rig.until(lambda: rig.groups.limit_of(child, 0) == 2 * GIB, "the container that was started last has its")


async def test_a_container_does_not_start_without_its_limit_and_its_pod_says_why(rig: DriverRig) -> None:
    rig.bind("pod", 4)
    assert "the kubelet should have made it" in await rig.event("MemoryLimitFailed")
    assert not rig.is_running("pod")
    rig.make_group("pod")
    await rig.until_running("pod")
    await rig.until(lambda: not rig.problem("memoryLimit"), "all is well")


async def test_cards_on_which_nothing_can_be_limited_take_no_new_pods(tmp_path: Path) -> None:
    async with DriverRig(tmp_path) as rig:
        rig.rules("set not_root * 1")
        await rig.start_plugin()
        await rig.until_units(32, allocatable=0)
        assert "SYS_ADMIN" in rig.problem("memoryLimit")
        await rig.event("MemoryLimitUnavailable")
        rig.rules("fail nvmlDeviceSetMemoryLimits_v1 * 3")
        await rig.until(lambda: "RmMemacctMode" in rig.problem("memoryLimit"), "the driver keeps none")
        (rig.groups.root / "cgroup.controllers").rename(tmp_path / "controllers")
        await rig.until(lambda: "version 2" in rig.problem("memoryLimit"), "groups of version 1")
        assert rig.kubelet.counts()[RESOURCE].allocatable == 0
        (tmp_path / "controllers").rename(rig.groups.root / "cgroup.controllers")
        rig.rules("fail nvmlDeviceSetMemoryLimits_v1 0 3")
        await rig.until_units(32, allocatable=16)
        group = await rig.run_limited("pod", 4, card=1)
        assert rig.groups.limit_of(group, 1) == 4 * GIB, "a card that keeps none closes alone"
        rig.rules()
        await rig.until_units(32)


async def test_where_the_admin_chose_pods_start_without_a_limit_and_are_marked(tmp_path: Path) -> None:
    async with DriverRig(tmp_path, limit_fallback=Fallback.UNLIMITED, pod_use=True) as rig:
        rig.rules(keeping=False)
        await rig.start()
        assert "615" in rig.problem("memoryLimit"), "the driver is older"
        await rig.run_limited("older", 4)
        monitor = rig.app.observed.pod_use
        assert monitor is not None
        await rig.until(lambda: "hostPID" in monitor.problem, "neither the driver nor the host says what pods use")
        assert monitor.latest is None
        rig.rules()
        await rig.until(lambda: not rig.problem("memoryLimit"), "the driver keeps limits")
        rig.bind("groupless", 4, card=1)
        await rig.until_running("groupless")
        await rig.event("MemoryNotLimited")
        assert "default/groupless has no limit" in rig.problem("memoryLimit")


@pytest.mark.slow
async def test_mps_stands_in_on_a_node_whose_driver_keeps_no_limits(tmp_path: Path) -> None:
    async with mps_rig() as mps, DriverRig(tmp_path, limit_fallback=Fallback.MPS, mps_root=mps.folders.root) as rig:
        await mps.start()
        rig.rules(keeping=False)
        await rig.start()
        assert "by MPS, where the driver does not" in await rig.event("MemoryLimitAvailable")
        rig.bind("older", 4)
        await rig.until_running("older")
        assert rig.variables("older")[MEMORY_VARIABLE].endswith("=4096M")
        assert (rig.problem("memoryLimit"), rig.events("MemoryNotLimited")) == ("", [])
        await mps.kill()
        await rig.until_units(32, allocatable=4)  # what the pod holds
        assert "MPS daemon" in rig.problem("memoryLimit")
        rig.rules()
        await rig.until_units(32)
        await rig.run_limited("newer", 2)
        assert rig.variables("newer").keys() & {VARIABLE, MEMORY_VARIABLE} == {VARIABLE}


async def test_a_whole_card_gets_no_limit_and_the_others_are_closed(tmp_path: Path) -> None:
    async with DriverRig(tmp_path, mode=GrantMode.BOTH, pod_use=True) as rig:
        await rig.start()
        rig.bind_whole("whole", 1, "0")
        group = rig.make_group("whole")
        await rig.until_running("whole")
        await rig.until(lambda: rig.groups.limit_of(group, 1) == LEAST_BYTES, "the other card is closed")
        assert rig.groups.limit_of(group, 0) is None
        assert rig.groups.allocate(group, 0, 9 * GIB)
        await rig.until(lambda: used_by(rig, rig.uid("whole")) == {0: 9 * GIB}, "the kernel's controller counts it too")


# A card counts as well only after it was so for half a minute.
@pytest.mark.slow
async def test_a_card_that_is_sick_keeps_no_pod_from_another_and_is_closed_when_it_is_well(tmp_path: Path) -> None:
    async with DriverRig(tmp_path, poll_interval=0.2) as rig:
        rig.rules("set remap_failed 1 1")
        await rig.start(allocatable=16)
        group = await rig.run_limited("pod", 4)
        assert rig.groups.limit_of(group, 1) is None
        rig.rules()
        await rig.until(lambda: rig.groups.limit_of(group, 1) == LEAST_BYTES, "it is closed now")


async def test_a_reloaded_drivers_limits_are_set_again_and_a_false_mirror_moves_none_of_them(rig: DriverRig) -> None:
    """It names what the kubelet shows of a pod until it has a record of it, and then the pod's control group."""
    group = await rig.run_limited("pod", 4)
    false = {"raises-the-authors-own": 16, "lowers-a-neighbours": 1}
    for name, units in false.items():
        rig.api.registry.put(false_mirror(name, units, "default/pod"))
    rig.pod_with_group("next", 1)
    await rig.until_recorded("pod", "next")
    for name in false:
        merge_into(rig.api, "Pod", name, {"metadata": {"annotations": {MACHINE_UID: rig.uid("pod")}}})
    store = rig.app.observed.store
    said = f"{MACHINE_UID!r}: {rig.uid('pod')!r}"
    await rig.until(
        lambda: str([each.annotations for each in store.everyone.values()]).count(said) == 2, "both are seen"
    )
    rig.groups.reload_driver()
    await rig.event("MemoryLimitsLost")
    assert rig.groups.limit_of(group, 0) == 4 * GIB
    assert {call.hard for call in rig.calls_for(group) if call.card == 0} == {4 * GIB}


async def test_a_restarted_plugin_finds_every_pod_again_and_limits_what_it_missed(tmp_path: Path) -> None:
    async with DriverRig(tmp_path, pod_use=True, poll_interval=0.2) as rig:
        await rig.start()
        group = await rig.run_limited("pod", 4)
        await rig.end_program()
        rig.groups.reload_driver()
        assert rig.groups.allocate(group, 0, 6 * GIB)
        await rig.start()
        await rig.until(lambda: rig.groups.limit_of(group, 0) == 6 * GIB, "no less than what it uses")
        assert "6.00 GiB of card 0 in use by the driver's count, 4.00 GiB granted" in await rig.event("OverUse")
        await rig.until(lambda: '"driver":true' in (rig.annotation("pod", OVER_USE) or ""), "the annotation")
        rig.groups.free(group, 0)
        await rig.until(lambda: rig.groups.limit_of(group, 0) == 4 * GIB, "its grant once it is freed")
        child = rig.child(group, "again")
        await rig.until(lambda: rig.groups.limit_of(child, 0) == 4 * GIB, "a container that came later sees it")


async def test_a_burst_takes_only_what_no_grant_needs_and_gives_it_back(rig: DriverRig) -> None:
    # The fake's cards have 1 and 2 GiB in use by something else: 15 are free on card 0.
    group = rig.pod_with_group("burst", 4, annotations={MEMORY_LIMIT: "12"})
    child = rig.child(group, "c0")
    await rig.until_running("burst")
    assert rig.variables("burst")[VARIABLE] == str(12 * 1024)
    await rig.until(lambda: rig.groups.limit_of(child, 0) == 12 * GIB, "the whole limit: no other pod is here")
    merge_into(rig.api, "Pod", "burst", {"metadata": {"annotations": {MEMORY_LIMIT: "14"}}})
    await rig.until(lambda: rig.groups.limit_of(child, 0) == 14 * GIB, "a changed annotation counts without a restart")
    await rig.run_limited("neighbour", 8)
    # 15 free, 12 of them granted and unused, 0.5 for the margin.
    await rig.until(lambda: rig.groups.limit_of(group, 0) == int(6.5 * GIB), "what is left over")


async def test_use_per_pod_is_what_the_driver_counts_where_the_hosts_processes_are_hidden(tmp_path: Path) -> None:
    async with DriverRig(tmp_path, "misc", pod_use=True, mode=GrantMode.BOTH) as rig:
        await rig.start()
        group = rig.pod_with_group("pod", 4)
        rig.bind_whole("whole", 1, "1")
        rig.make_group("whole")
        await rig.until_running("pod")
        await rig.until_running("whole")
        assert rig.groups.allocate(group, 0, 3 * GIB)
        await rig.until(lambda: used_by(rig, rig.uid("pod")) == {0: 3 * GIB}, "the driver's count")
        status = await rig.status()
        found = {pod["pod"]: (pod["usedByCard"], pod["usedByDriver"]) for pod in status["pods"]}
        # Without the kernel's controller the driver counts only where it has set a limit.
        assert found == {"default/pod": ({"0": 3 * GIB}, [0]), "default/whole": ({}, [])}
        assert status["podUse"] == ""
        metrics = (await rig.get("/metrics"))[1]
        assert len(re.findall(r"^gcushare_pod_memory_used_by_driver\{.*\} 1.0$", metrics, re.MULTILINE)) == 1
        assert len(re.findall(r"^gcushare_card_memory_unattributed_bytes\{", metrics, re.MULTILINE)) == 1


def used_by(rig: DriverRig | ClaimsRig, uid: str) -> Mapping[int, int]:
    monitor = rig.app.observed.pod_use
    found = monitor.latest if monitor is not None else None
    return {} if found is None else found.by_pod.get(uid, {})


@asynccontextmanager
async def claims_rig(folder: Path) -> AsyncIterator[tuple[ClaimsRig, ControlGroups]]:
    groups = ControlGroups(folder / "cgroup")
    groups.make("kubepods")
    library, adapters = nvml_adapters()
    library.control(*CARDS, "set keeping * dmem")
    proc = FakeProc(folder / "proc", CONTAINER)
    limits: dict[str, Any] = {"memory_limit": MemoryLimit.DRIVER, "cgroup_dir": groups.root}
    rig = ClaimsRig(pod_use=True, proc_root=proc.root, **limits)
    rig.adapters = adapters
    async with rig:
        await rig.start()
        yield rig, groups


async def test_a_claims_pod_is_limited_before_the_claim_is_prepared(tmp_path: Path) -> None:
    async with claims_rig(tmp_path) as (rig, groups):
        uid = rig.run_pod("pod", "claim")
        claim = rig.allocate("claim", share("card-0", 4))
        rig.reserve(claim, ("pod", uid))
        refused = (await rig.kubelet.prepare(claim))[claim.uid]
        assert "the kubelet should have made it" in refused.error
        group = groups.make(f"kubepods/pod{uid}")
        await rig.until(lambda: uid in rig.app.observed.pods.entries, "the driver has seen the pod")
        prepared = (await rig.kubelet.prepare(claim))[claim.uid]
        assert not prepared.error
        assert groups.limit_of(group, 0) == 4 * GIB
        assert groups.allocate(group, 0, 2 * GIB)
        await rig.until(lambda: used_by(rig, uid) == {0: 2 * GIB}, "the driver's count")
        edits = (rig.root / "cdi").glob("*.json")
        assert any(f"{VARIABLE}=4096" in file.read_text() for file in edits)


async def test_pods_of_a_shared_claim_have_together_no_more_than_the_claim(tmp_path: Path) -> None:
    async with claims_rig(tmp_path) as (rig, groups):
        first = rig.run_pod("first", "claim")
        first_group = groups.make(f"kubepods/pod{first}")
        claim = rig.allocate("claim", share("card-0", 4))
        rig.reserve(claim, ("first", first))
        assert not (await rig.kubelet.prepare(claim))[claim.uid].error
        assert groups.limit_of(first_group, 0) == 4 * GIB, "no other pod shares it"
        assert groups.allocate(first_group, 0, 3 * GIB)
        later = rig.run_pod("later", "claim")
        later_group = groups.make(f"kubepods/pod{later}")
        rig.reserve(claim, ("first", first), ("later", later))
        started = time.monotonic()
        await rig.until(lambda: groups.limit_of(later_group, 0) is not None, "the kubelet does not ask for it again")
        assert time.monotonic() - started < CHECK_S / 2, "no check of every ten seconds is needed"
        assert [groups.limit_of(each, 0) for each in (first_group, later_group)] == [3 * GIB, GIB]
        posted = {"reason": "SharedMemoryInUse", "name": "later"}
        await rig.until(
            lambda: any(
                posted == {"reason": each["reason"], "name": each["involvedObject"]["name"]}
                for each in rig.api.store.list("events")
            ),
            "the Event on the later pod",
        )
        groups.free(first_group, 0)
        await rig.until(lambda: groups.limit_of(later_group, 0) == 2 * GIB, "equal parts")
        assert groups.limit_of(first_group, 0) == 2 * GIB
        delete(rig.api, "Pod", "first")
        await rig.until(lambda: groups.limit_of(later_group, 0) == 4 * GIB, "the other one has gone")


async def test_a_false_mirror_that_shares_a_claim_moves_no_other_pods_limit(tmp_path: Path) -> None:
    """kube-controller-manager reserves a claim for every pod that names it and a node, also for one that never runs."""
    async with claims_rig(tmp_path) as (rig, groups):
        victim, author = rig.run_pod("victim", "large"), rig.run_pod("author", "small")
        false = rig.run_pod("false", "small", annotations={MIRROR: "x", MACHINE_UID: victim})
        wanted = {groups.make(f"kubepods/pod{uid}"): gib * GIB for uid, gib in ((victim, 8), (author, 1))}
        large, small = rig.allocate("large", share("card-0", 8)), rig.allocate("small", share("card-0", 1))
        rig.reserve(large, ("victim", victim))
        rig.reserve(small, ("false", false), ("author", author))
        known = rig.app.observed.pods
        await rig.until(lambda: {victim, author, false} <= set(known.everyone) | set(*known.asking().values()), "all")
        for claim in (large, small):
            assert not (await rig.kubelet.prepare(claim))[claim.uid].error
        groups.reload_driver()
        await rig.until(lambda: all(groups.limit_of(group, 0) for group in wanted), "the limits are set again")
        assert {group: groups.limit_of(group, 0) for group in wanted} == wanted


async def test_a_limit_of_a_containers_own_does_not_replace_its_pods(tmp_path: Path) -> None:
    async with DriverRig(tmp_path, "misc") as rig:
        await rig.start()
        group = await rig.run_limited("pod", 4)
        child = rig.child(group, "c0")
        # As the toolkit sets it by a pod's own variable, on every card that another variable shows.
        (child / "misc.limits").write_text("".join(f"{card} 0 {15 * GIB} 0\n" for card in (0, 1)))
        for card, size in ((0, 5 * GIB), (1, GIB)):
            await rig.until(lambda: rig.groups.limit_of(child, card) is None, "it is removed")  # noqa: B023
            assert not rig.groups.allocate(child, card, size)


# The library alone


async def test_another_vendors_library_keeps_none(tmp_path: Path) -> None:
    async with isolated(install_fake("efml", tmp_path), reads=False) as source:
        card = (await source.list_cards()).cards[0]
        with pytest.raises(DeviceError, match="keeps no memory limits"):
            await source.limit_group(card, str(tmp_path), GIB)


async def test_a_call_that_hangs_costs_the_worker_and_is_an_error(tmp_path: Path) -> None:
    groups = ControlGroups(tmp_path / "cgroup")
    pod = groups.make("kubepods/pod1")
    fake = install_fake("nvml", tmp_path, "set keeping * dmem", "crash nvmlDeviceSetMemoryLimits_v1 0")
    async with isolated(fake, reads=False) as source:
        first, second = (await source.list_cards()).cards
        with pytest.raises(DeviceError, match="nvmlDeviceSetMemoryLimits_v1"):
            await source.limit_group(first, str(pod), GIB)
        assert (await source.list_cards()).cards == (first, second)
        with pytest.raises(DeviceError, match="nvmlDeviceSetMemoryLimits_v1"):
            await source.limit_group(first, str(pod), GIB)  # it rests: the library is not asked
        assert await source.limit_group(second, str(pod), GIB) == GroupMemory(hard_bytes=GIB, used_bytes=0)
        assert groups.allocate(pod, 1, GIB)
        assert await source.group_memory(second, str(pod)) == GroupMemory(hard_bytes=GIB, used_bytes=GIB)
