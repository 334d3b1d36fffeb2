"""Memory limited by MPS: the daemon's container, what pods get, and what becomes of cards without a limit."""

from __future__ import annotations

import logging
import time
from typing import Any, cast

import pytest

from gcushare.core.errors import DeviceError
from gcushare.core.units import GIB
from gcushare.device_plugin.plugin_settings import Bursts, GrantMode
from gcushare.node.container_environment import CONTAINER_BYTES
from gcushare.node.mps.daemon import MpsControl
from gcushare.node.mps.state import MpsStateReader
from gcushare.node.node_settings import Fallback, MemoryLimit
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import COMPUTE_SHARE, MEMORY_LIMIT
from tests.protocol.mps_rig import MpsRig, mps_rig
from tests.protocol.plugin_rig import PluginRig, until

LIMIT, PIPE, THREADS = (
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
)


async def test_the_container_runs_the_daemon_says_that_it_is_well_and_ends_it() -> None:
    async with mps_rig() as rig:
        assert "no MPS daemon has started" in rig.problem
        await rig.start_well()
        log = (rig.folders.log / "control.log").read_text()
        assert "-multiuser-server" in log, "pods run under any user"
        assert (rig.folders.shm.stat().st_mode & 0o7777, rig.folders.pipe.stat().st_mode & 0o777) == (0o1777, 0o777)
        assert await rig.stop() == 0
        assert not (rig.folders.pipe / "control").exists()
        assert rig.problem == "the MPS daemon was ended"


async def test_a_daemon_that_dies_ends_its_container_and_the_next_is_another_instance() -> None:
    async with mps_rig() as rig:
        await rig.start_well()
        first = MpsStateReader(rig.folders).read().instance
        rig.kill_daemon()
        assert await rig.ended() == 1
        assert "ended by itself" in rig.problem
        await rig.start_well()  # whatever the first left behind
        assert MpsStateReader(rig.folders).read().instance != first


async def test_what_a_pod_left_among_the_pipes_does_not_keep_the_daemon_from_starting() -> None:
    async with mps_rig() as rig:
        (rig.folders.pipe / "folder" / "deep").mkdir(parents=True)
        outside = rig.folders.root / "kept"
        outside.mkdir()
        (rig.folders.pipe / "link").symlink_to(outside)
        await rig.start_well()
        assert outside.is_dir(), "no link is followed"
        assert not (rig.folders.pipe / "folder").exists()


async def test_another_daemon_of_the_machine_is_left_alone_and_reported() -> None:
    async with mps_rig() as rig:
        rig.start_other_daemon(4711)
        await rig.start()
        with pytest.raises(DeviceError, match="process 4711"):
            await rig.ended()
        assert "another MPS control daemon" in rig.problem


# The stand-in of the daemon is a process of each test; test_plugin_allocator.py has the same limits without it.
@pytest.mark.slow
async def test_a_state_that_cannot_be_written_costs_no_daemon_and_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def said(words: str) -> int:
        return sum(words in record.message for record in caplog.records)

    caplog.set_level(logging.INFO)
    async with mps_rig() as rig:
        await rig.start_well()
        in_the_way = rig.folders.root / ".state.json"
        in_the_way.mkdir()
        await until(lambda: said("state cannot be written"), "the log says so")
        in_the_way.rmdir()
        await until(lambda: said("state can be written again"), "the log says so")
        assert said("state cannot be written") == 1
        assert rig.problem == ""
        in_the_way.mkdir()
        assert await rig.stop() == 0
        assert said("can be written again") == 1


async def test_polls_that_end_by_themselves_are_no_shutdown(caplog: pytest.LogCaptureFixture) -> None:
    async with mps_rig() as rig:
        await rig.start(poll_s=cast(float, "a fault of ours"))
        assert await rig.ended() == 1
        assert "health check of the MPS control daemon failed" in caplog.text
        assert "TypeError" in caplog.text


async def test_a_state_that_no_one_renews_is_none() -> None:
    async with mps_rig() as rig:
        await rig.start_well()
        later = MpsStateReader(rig.folders, wall_clock_s=lambda: time.time() + 60)
        assert "has reported nothing" in later.read().problem
        await rig.stop()
        rig.folders.state.write_text("{")
        assert "cannot be read" in rig.problem


async def test_commands_reach_the_daemon_and_its_silence_is_an_error() -> None:
    async with mps_rig() as rig:
        control = MpsControl(rig.program, rig.folders)
        with pytest.raises(DeviceError, match="Cannot find MPS control daemon"):
            await control.ask("get_server_list")
        await rig.start_well()
        await control.ask("set_default_device_pinned_mem_limit GPU-0 4096M")
        assert await control.ask("get_default_device_pinned_mem_limit GPU-0") == "4096M"
        hang = rig.folders.root / "hang"
        hang.touch()
        with pytest.raises(DeviceError, match="did not answer"):
            await MpsControl(rig.program, rig.folders, timeout_s=0.1).ask("get_server_list")
        hang.unlink()


class LimitedRig(PluginRig):
    """A plugin that limits memory. Its cards are Enflame's in name, whose words the doubles know; MPS does not ask."""

    def __init__(self, rig: MpsRig, **plugin: Any) -> None:
        settings = {"memory_limit": MemoryLimit.MPS, "mps_root": rig.folders.root, **plugin}
        super().__init__(cards=(16, 16), plugin=settings, plugin_first=False)

    async def start(self) -> None:
        await self.start_plugin()
        await self.until_units(32)
        await self.until(self.is_registered, "every resource is registered and listed")

    def variables(self, name: str) -> dict[str, str]:
        return self.view(name).environment


async def test_a_container_gets_the_limit_of_its_grant_on_the_card_that_it_really_has() -> None:
    async with mps_rig() as mps, LimitedRig(mps) as rig:
        await mps.start_well()
        await rig.start()
        rig.bind("pod", 4, card=1)
        await rig.until_recorded("pod")
        given = rig.variables("pod")
        assert (given[LIMIT], given[PIPE]) == ("GCU-1=4096M", str(mps.folders.pipe))
        assert THREADS not in given


@pytest.mark.slow
async def test_the_limit_follows_a_card_that_was_corrected() -> None:
    async with mps_rig() as mps, LimitedRig(mps) as rig:
        await mps.start_well()
        await rig.start()
        rig.bind("first", 14, card=0)
        await rig.until_recorded("first")
        rig.bind("moved", 4, card=0)  # recorded on a card without the room
        await rig.until_recorded("moved")
        assert rig.record("moved")[0] == "1"
        assert rig.variables("moved")[LIMIT] == "GCU-1=4096M"


@pytest.mark.slow
async def test_compute_is_shared_in_proportion_if_the_pod_asks_for_it() -> None:
    async with mps_rig() as mps, LimitedRig(mps) as rig:
        await mps.start_well()
        await rig.start()
        rig.bind("pod", 4, annotations={COMPUTE_SHARE: "proportional"})
        await rig.until_recorded("pod")
        assert rig.variables("pod")[THREADS] == "25"


@pytest.mark.slow
async def test_a_container_may_burst_to_its_pods_limit_and_no_further() -> None:
    async with mps_rig() as mps, LimitedRig(mps, bursts=Bursts.ALLOW) as rig:
        await mps.start_well()
        await rig.start()
        rig.bind("burst", 4, annotations={MEMORY_LIMIT: "12", COMPUTE_SHARE: "proportional"})
        await rig.until_recorded("burst")
        given = rig.variables("burst")
        assert given[LIMIT] == f"GCU-0={12 * 1024}M"
        assert given[THREADS] == "25", "compute follows the request"
        names = ENFLAME.environment
        assert (given[names.container_units], given[CONTAINER_BYTES]) == ("4", str(12 * GIB))
        rig.bind("plain", 3, annotations={MEMORY_LIMIT: "2"})
        await rig.until_recorded("plain")
        assert rig.variables("plain")[CONTAINER_BYTES] == str(3 * GIB), "a limit below the request is none"


@pytest.mark.slow
@pytest.mark.parametrize("bursts", [Bursts.AUTO, Bursts.IGNORE])
async def test_no_author_raises_the_limit_that_an_admin_set_if_nothing_evicts(bursts: Bursts) -> None:
    async with mps_rig() as mps, LimitedRig(mps, bursts=bursts) as rig:
        await mps.start_well()
        await rig.start()
        rig.bind("burst", 4, annotations={MEMORY_LIMIT: "12"})
        await rig.until_recorded("burst")
        assert rig.variables("burst")[LIMIT] == "GCU-0=4096M"


async def test_without_a_daemon_cards_take_no_new_pods_and_open_when_it_answers() -> None:
    async with mps_rig() as mps, LimitedRig(mps) as rig:
        await rig.start_plugin()
        await rig.until_units(32, allocatable=0)
        assert "no MPS daemon has started" in rig.problem("memoryLimit")
        await rig.until(lambda: rig.events("MpsUnavailable"), "the Event")
        assert "cards take no new pods" in rig.events("MpsUnavailable")[0]
        await mps.start()
        await rig.until_units(32)
        await rig.until(lambda: rig.events("MpsAvailable"), "the Event")
        assert rig.problem("memoryLimit") == ""


async def test_where_the_admin_chose_pods_come_without_a_limit() -> None:
    async with mps_rig() as mps, LimitedRig(mps, limit_fallback=Fallback.UNLIMITED) as rig:
        await rig.start()
        rig.bind("pod", 4)
        await rig.until_recorded("pod")
        assert not {LIMIT, PIPE} & rig.variables("pod").keys()
        await rig.until(lambda: rig.events("MpsUnavailable"), "the Event")
        assert "pods start without a limit" in rig.events("MpsUnavailable")[0]


@pytest.mark.slow
async def test_a_card_that_is_too_old_for_mps_takes_no_new_pods_and_the_others_do() -> None:
    async with mps_rig() as mps, LimitedRig(mps) as rig:
        await mps.start_well()
        rig.write_cards({0: {"limit_problem": "too old"}})
        await rig.start_plugin()
        await rig.until_units(32, allocatable=16)
        rig.bind("pod", 4, card=1)
        await rig.until_recorded("pod")
        assert rig.variables("pod")[LIMIT] == f"GCU-1={4 * GIB >> 20}M"


@pytest.mark.slow
async def test_a_whole_card_has_no_neighbour_and_gets_no_limit() -> None:
    async with mps_rig() as mps, LimitedRig(mps, mode=GrantMode.BOTH) as rig:
        await mps.start_well()
        await rig.start()
        rig.bind_whole("whole", 1, "0")
        await rig.until_recorded("whole")
        assert not {LIMIT, PIPE} & rig.variables("whole").keys()


@pytest.mark.slow
async def test_pods_hear_that_their_daemon_was_started_again() -> None:
    async with mps_rig() as mps, LimitedRig(mps) as rig:
        await mps.start_well()
        await rig.start()
        rig.bind("pod", 4)
        await rig.until_recorded("pod")
        watch = rig.app.observed.mps
        assert watch is not None
        watch.poll()
        mps.kill_daemon()
        await mps.ended()
        await mps.start()
        await rig.until(lambda: rig.events("MpsDaemonRestarted"), "the Event on the pod")
        assert watch.restarts == 1
