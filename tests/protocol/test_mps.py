"""Memory limited by MPS: the daemon, what pods get, and what becomes of cards without a limit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gcushare.core.units import GIB
from gcushare.device_plugin.plugin_settings import Bursts, GrantMode
from gcushare.node.container_environment import CONTAINER_BYTES
from gcushare.node.mps.limits import SHM
from gcushare.node.mps.state import MpsDaemon
from gcushare.node.node_settings import MemoryLimit
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import COMPUTE_SHARE, MEMORY_LIMIT
from tests.charts import PLUGIN_CHART, needs_helm, of_kind, pod_specs, rendered
from tests.e2e.waiting import until
from tests.protocol.mps_rig import MpsRig, mps_rig
from tests.protocol.plugin_rig import PluginRig

LIMIT, PIPE = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_PIPE_DIRECTORY"
THREADS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


async def test_a_daemon_that_answers_has_no_problem_and_any_other_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async with mps_rig() as rig:
        assert await rig.daemon.find_problem() == (
            "the MPS daemon does not answer: Cannot find MPS control daemon process"
        )
        await rig.start()
        assert await rig.daemon.find_problem() == ""
        rig.hang()
        hanging = MpsDaemon(rig.folders, timeout_s=0.2)
        assert await hanging.find_problem() == "the MPS daemon did not answer in 0.2s"
        monkeypatch.setenv("PATH", str(rig.log))
        assert "cannot be asked: [Errno 2] No such file" in await rig.daemon.find_problem()


async def test_a_daemon_that_is_started_again_has_another_start_and_shares_memory_with_every_user() -> None:
    async with mps_rig() as rig:
        assert rig.daemon.started_ns is None
        await rig.start()
        first = rig.daemon.started_ns
        await rig.kill()
        assert rig.daemon.started_ns == first, "it left the file"
        rig.folders.shm.chmod(0o700)
        await rig.start()
        assert rig.daemon.started_ns not in {None, first}
        assert rig.folders.shm.stat().st_mode & 0o7777 == 0o1777


@needs_helm
async def test_the_charts_container_runs_the_daemon_and_its_probe_asks_it() -> None:
    async with mps_rig() as rig:
        values = ("vendor=aliyun", "memoryLimit=mps", f"mps.root={rig.folders.root}")
        daemon_sets = of_kind(rendered(PLUGIN_CHART, *values), "DaemonSet")
        of_plugin, spec = pod_specs(daemon_sets).values()
        (plugin,), (container,) = of_plugin["containers"], spec["containers"]
        variables = {**os.environ, **{each["name"]: each["value"] for each in container["env"]}}
        folders = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        own = {name: mounts[name] for name in ("pipe", "log")}
        assert own == {name: folders[name] for name in own} == {"pipe": str(rig.folders.pipe), "log": str(rig.log)}
        assert (mounts["shm"], folders["shm"]) == (SHM, str(rig.folders.shm))
        shared = {each["name"]: each["mountPath"] for each in plugin["volumeMounts"]}
        assert (shared["mps"], shared["mps-shm"]) == (str(rig.folders.root), SHM)
        assert {"name": "mps-shm", "hostPath": {"path": folders["shm"], "type": "DirectoryOrCreate"}} in of_plugin[
            "volumes"
        ]

        async def probe() -> str:
            assert container["startupProbe"]["exec"] == container["livenessProbe"]["exec"]
            words = container["livenessProbe"]["exec"]["command"]
            asking = await asyncio.create_subprocess_exec(*words, env=variables, stdin=asyncio.subprocess.DEVNULL)
            return f"exit {code}" if (code := await asking.wait()) else ""

        assert await probe() == "exit 1"
        daemon = await asyncio.create_subprocess_exec(*container["command"], env=variables)
        try:
            await until(probe, "the probe succeeds", deadline_s=30)
            assert "-multiuser-server" in (rig.log / "control.log").read_text(), "pods run under any user"
        finally:
            daemon.kill()
            await daemon.wait()
        assert await probe() == "exit 1"


class LimitedRig(PluginRig):
    """A plugin that limits memory. Its cards are Enflame's in name, whose words the doubles know; MPS does not ask."""

    def __init__(self, mps: MpsRig, **plugin: Any) -> None:
        self.mps = mps
        settings = {"memory_limit": MemoryLimit.MPS, "mps_root": mps.folders.root, **plugin}
        super().__init__(cards=(16, 16), plugin=settings, plugin_first=False)


@asynccontextmanager
async def limited(**plugin: Any) -> AsyncIterator[LimitedRig]:
    """A daemon that answers, and a plugin that is served by it."""
    async with mps_rig() as mps, LimitedRig(mps, **plugin) as rig:
        await mps.start()
        await rig.start()
        yield rig


async def test_a_container_gets_the_limit_of_its_grant_and_hears_nothing_of_a_plugin_that_is_replaced() -> None:
    async with limited() as rig:
        await rig.run("pod", 4, card=1)
        given = rig.variables("pod")
        assert (given[LIMIT], given[PIPE]) == ("GCU-1=4096M", str(rig.mps.folders.pipe))
        assert THREADS not in given
        started = rig.mps.daemon.started_ns
        await rig.stop_plugin()
        await rig.start_plugin()
        await rig.until_units(32)
        assert (rig.mps.daemon.started_ns, rig.events("MpsDaemonRestarted")) == (started, [])


@pytest.mark.slow
async def test_the_limit_follows_a_card_that_was_corrected() -> None:
    async with limited() as rig:
        await rig.run("first", 14, card=0)
        await rig.run("moved", 4, card=0)  # recorded on a card without the room
        assert rig.record("moved")[0] == "1"
        assert rig.variables("moved")[LIMIT] == "GCU-1=4096M"


@pytest.mark.slow
async def test_a_container_may_burst_to_its_pods_limit_and_no_further() -> None:
    async with limited(bursts=Bursts.ALLOW) as rig:
        await rig.run("burst", 4, annotations={MEMORY_LIMIT: "12", COMPUTE_SHARE: "proportional"})
        given = rig.variables("burst")
        assert given[LIMIT] == f"GCU-0={12 * 1024}M"
        assert given[THREADS] == "25", "compute follows the request"
        names = ENFLAME.environment
        assert (given[names.container_units], given[CONTAINER_BYTES]) == ("4", str(12 * GIB))
        await rig.run("plain", 3, annotations={MEMORY_LIMIT: "2"})
        assert rig.variables("plain")[CONTAINER_BYTES] == str(3 * GIB), "a limit below the request is none"


@pytest.mark.slow
@pytest.mark.parametrize("bursts", [Bursts.AUTO, Bursts.IGNORE])
async def test_no_author_raises_the_limit_that_an_admin_set_if_nothing_evicts(bursts: Bursts) -> None:
    async with limited(bursts=bursts) as rig:
        await rig.run("burst", 4, annotations={MEMORY_LIMIT: "12"})
        assert rig.variables("burst")[LIMIT] == "GCU-0=4096M"


@pytest.mark.slow
async def test_without_a_daemon_cards_take_no_new_pods_and_open_when_it_answers() -> None:
    async with mps_rig() as mps, LimitedRig(mps) as rig:
        await rig.start_plugin()
        await rig.until_units(32, allocatable=0)
        assert "Cannot find MPS control daemon" in rig.problem("memoryLimit")
        assert "cards that need it take no new pods until it answers" in await rig.event("MpsAwaited")
        await mps.start()
        await rig.until_units(32)
        await rig.event("MpsAvailable")
        assert rig.problem("memoryLimit") == ""
        await mps.kill()
        await rig.until_units(32, allocatable=0)
        assert "component=mps-daemon" in await rig.event("MpsUnavailable")
        await mps.start()
        await rig.until_units(32)


@pytest.mark.slow
async def test_a_card_that_is_too_old_for_mps_takes_no_new_pods_and_the_others_do() -> None:
    async with mps_rig() as mps, LimitedRig(mps) as rig:
        await mps.start()
        rig.write_cards({0: {"limit_problem": "too old"}})
        await rig.start_plugin()
        await rig.until_units(32, allocatable=16)
        await rig.run("pod", 4, card=1)
        assert rig.variables("pod")[LIMIT] == f"GCU-1={4 * GIB >> 20}M"


@pytest.mark.slow
async def test_a_whole_card_has_no_neighbour_and_gets_no_limit() -> None:
    async with limited(mode=GrantMode.BOTH) as rig:
        await rig.run_whole("whole", 1, "0")
        assert not {LIMIT, PIPE} & rig.variables("whole").keys()
