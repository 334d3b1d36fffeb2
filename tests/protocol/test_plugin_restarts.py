"""The plugin when the kubelet restarts, its directory is emptied, its registration refused, or it restarts itself."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gcushare.core.cards import InventoryCard
from gcushare.device_plugin.kubelet.sockets import UnixSocket
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import services
from gcushare_playground.apiserver import Delay, Fault
from gcushare_playground.picture import poll_until
from tests.protocol.grpc_server import serving_method
from tests.protocol.plugin_rig import PluginRig

AGAIN_S = 5.0
"""Twice what a registration takes at most (the kubelet is looked at twice a second) and a busy machine's share."""


async def test_after_a_kubelet_restart_the_plugin_registers_again_and_pods_keep_their_units() -> None:
    async with PluginRig() as rig:
        await rig.run("a", 4, card=5)
        held = rig.held_cards("a")
        await rig.kubelet.restart()
        await rig.until(lambda: rig.kubelet.registrations == 1, "a registration with the new kubelet")
        await rig.until_units(128)
        assert rig.held_cards("a") == held
        await rig.run("b", 4, card=5)
        assert (rig.record("a"), rig.visible("b")) == (("5", "true"), "5")


async def test_a_socket_removed_from_the_plugins_directory_comes_back() -> None:
    async with PluginRig() as rig:
        (rig.root / "device-plugins" / "enflamegcushare.sock").unlink()
        await rig.until(lambda: rig.kubelet.registrations == 2, "a second registration")
        await rig.until_units(128)
        await rig.run("a", 4, card=1)
        assert rig.visible("a") == "1"


async def test_a_removed_folder_that_a_mount_still_shows_asks_for_a_restart() -> None:
    async with PluginRig() as rig:
        await rig.kubelet.stop()
        folder = rig.root / "device-plugins"
        opened = os.open(folder, os.O_RDONLY)
        shutil.rmtree(folder)
        folder.symlink_to(f"/proc/self/fd/{opened}")
        status, text = await rig.get("/healthz")
        os.close(opened)
        assert (status, "device-plugins was removed" in text) == (503, True), text


async def test_a_socket_that_cannot_be_removed_is_left(tmp_path: Path) -> None:
    await UnixSocket(tmp_path, grpc.aio.server()).stop(0)  # a folder here: unlink fails, as on a read-only disk


@asynccontextmanager
async def refusing_kubelet(directory: Path, accepts: asyncio.Event) -> AsyncIterator[list[str]]:
    """A kubelet that refuses registrations until it is asked to accept; yields the endpoints of all that it saw."""
    seen: list[str] = []

    async def register(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        seen.append(pb.RegisterRequest.FromString(request).endpoint)
        if not accepts.is_set():
            await context.abort(grpc.StatusCode.UNKNOWN, "not now")
        return b""

    async with serving_method(directory / "kubelet.sock", services.REGISTER, register):
        yield seen


@pytest.mark.slow
async def test_a_refused_registration_is_tried_again_and_readiness_says_why() -> None:
    accepts = asyncio.Event()
    async with PluginRig() as rig:
        await rig.kubelet.stop()
        async with refusing_kubelet(rig.root / "device-plugins", accepts) as seen:

            async def what_is_missing() -> str | None:
                code, text = await rig.get("/readyz")
                reason = "the kubelet refused the registration of enflame.com/gcu-memory: not now"
                return None if (code, reason in text) == (503, True) else text

            await poll_until(what_is_missing, "readiness says why")
            accepts.set()
            refused = len(seen)
            await rig.until(lambda: len(seen) > refused, "a registration that is accepted")
            figures = await rig.figures()
            assert figures.sum("gcushare_plugin_registered") == 0, "this kubelet reads no list"
        assert set(seen) == {"enflamegcushare.sock"}


@pytest.mark.slow
async def test_a_kubelet_that_starts_while_a_retry_waits_is_not_kept_waiting() -> None:
    async with PluginRig() as rig:
        await rig.kubelet.stop()
        async with refusing_kubelet(rig.root / "device-plugins", asyncio.Event()) as seen:
            await rig.until(lambda: len(seen) >= 4, "refusals until the waits are long")
        await rig.kubelet.start()
        await rig.until(lambda: rig.kubelet.registrations == 1, "a registration with the new kubelet", AGAIN_S)


async def test_a_plugin_does_not_take_the_socket_of_one_that_still_serves() -> None:
    async with PluginRig() as rig:
        first = _identity(rig)
        second = PluginRig()
        second.root, second.api, second.kubelet = rig.root, rig.api, rig.kubelet
        await second.start_plugin()
        try:
            await rig.until(
                lambda: "another plugin serves" in second.problem("registration"), "the second plugin stands back"
            )
            assert (_identity(rig), rig.kubelet.registrations) == (first, 1)
            await rig.end_program()
            await rig.until(lambda: rig.kubelet.registrations == 2, "the second takes over", 10.0)
        finally:
            await second.end_program()


def _identity(rig: PluginRig) -> int:
    return (rig.root / "device-plugins" / "enflamegcushare.sock").stat().st_ino


async def test_what_was_to_be_reported_before_a_stop_is_reported() -> None:
    async with PluginRig(cards=(16,) * 4) as rig:
        names = [f"p{index}" for index in range(4)]
        for index, name in enumerate(names):
            rig.bind(name, 4, card=index)
        await rig.until_recorded(*names)
        rig.api.faults.on(Fault(Delay(0.05), path=r"/events$", method="POST"))
        rig.write_cards({index: {"health": "unhealthy", "reason": "off the bus"} for index in range(4)})
        await rig.until(lambda: any(card.reason for card in _cards(rig)), "the cards are sick")
        await rig.stop_plugin()
        assert len(rig.events("CardUnhealthy")) == 8, "one of each card and one of each pod"


def _cards(rig: PluginRig) -> Sequence[InventoryCard]:
    inventory = rig.app.observed.agent.inventory
    return inventory.cards if inventory is not None else ()


async def test_a_restarted_plugin_leaves_running_pods_alone_and_knows_what_they_hold() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        await rig.run("a", 10, card=0)
        version = rig.pod("a")["metadata"]["resourceVersion"]
        await rig.stop_plugin()
        await rig.start_plugin()
        await rig.until_units(32)
        await rig.run("b", 10, card=0)
        assert rig.visible("b") == "1"
        assert rig.pod("a")["metadata"]["resourceVersion"] == version


async def test_an_assignment_that_a_dying_plugin_left_half_finished_is_completed_by_the_next() -> None:
    async with PluginRig() as rig:
        rig.kubelet.faults.podresources_delay_s = (60.0, 60.0)
        rig.bind("a", 4, card=3)
        await rig.until(lambda: rig.visible("a") == "3", "the container runs")
        assert rig.record("a") == ("3", "false")
        await rig.stop_plugin()
        await rig.kubelet.restart()
        await rig.start_plugin()
        await rig.until_recorded("a")
        assert rig.record("a") == ("3", "true")


async def test_no_socket_is_served_if_others_could_replace_it() -> None:
    async with PluginRig() as rig:
        await rig.end_program()
        directory = rig.root / "device-plugins"
        directory.chmod(0o777)
        await rig.start_plugin()
        await rig.until(
            lambda: "device-plugins' can be written by others" in rig.problem("registration"),
            "the directory is refused",
        )
        assert not (directory / "enflamegcushare.sock").exists()
        directory.chmod(0o755)
        await rig.until_units(128)
