"""When podresources is asked and when the checkpoint, against a socket that answers, refuses or is not there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gcushare.core.errors import RetryableError
from gcushare.device_plugin.kubelet.podresources import QUIET_S, PodResourcesReader
from gcushare.device_plugin.plugin_settings import KubeletSettings
from gcushare.vendors import ENFLAME
from gcushare.wire.protos import services
from tests.manual_clock import ManualClock
from tests.protocol.grpc_server import serving_method


class PodResources:
    """A kubelet's podresources with no pods; it refuses while ``is_broken``."""

    def __init__(self) -> None:
        self.is_broken = False
        self.asked = 0

    async def answer(self, _request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        self.asked += 1
        if self.is_broken:
            await context.abort(grpc.StatusCode.INTERNAL, "broken")
        return b""


@asynccontextmanager
async def serving(socket: Path) -> AsyncIterator[PodResources]:
    kubelet = PodResources()
    async with serving_method(socket, services.POD_RESOURCES_LIST, kubelet.answer):
        yield kubelet


def make_reader(folder: Path, clock: ManualClock) -> PodResourcesReader:
    settings = KubeletSettings(node_name="n", kubelet_dir=folder)
    for path in (settings.checkpoint, settings.pod_resources_socket):
        path.parent.mkdir()
    text = json.dumps({"Data": {"PodDeviceEntries": None, "RegisteredDevices": {}}, "Checksum": 1})
    settings.checkpoint.write_text(text)
    return PodResourcesReader(ENFLAME, settings, clock=clock)


async def source(reader: PodResourcesReader) -> str:
    return (await reader.fetch(timeout_s=20.0)).source


async def test_after_a_failure_podresources_is_asked_again_in_a_minute_however_often_it_is_read(tmp_path: Path) -> None:
    clock = ManualClock()
    reader = make_reader(tmp_path, clock)
    async with serving(reader.settings.pod_resources_socket) as kubelet:
        assert await source(reader) == "podresources"
        kubelet.is_broken = True
        assert await source(reader) == "checkpoint"
        kubelet.is_broken = False
        for _ in range(2):
            clock.advance(QUIET_S * 0.4)
            assert await source(reader) == "checkpoint"
        assert kubelet.asked == 2
        clock.advance(QUIET_S * 0.2)
        assert await source(reader) == "podresources"


async def test_a_socket_that_was_not_there_is_looked_for_again_in_a_minute(tmp_path: Path) -> None:
    clock = ManualClock()
    reader = make_reader(tmp_path, clock)
    assert await source(reader) == "checkpoint"
    clock.advance(QUIET_S / 2)
    assert await source(reader) == "checkpoint"
    async with serving(reader.settings.pod_resources_socket):
        clock.advance(QUIET_S / 2)
        assert await source(reader) == "podresources"


@pytest.mark.parametrize("folder", [pytest.param("gone", id="missing"), pytest.param("k" * 256, id="not readable")])
async def test_with_neither_source_both_are_named(folder: str) -> None:
    settings = KubeletSettings(node_name="n", kubelet_dir=Path(folder))
    reader = PodResourcesReader(ENFLAME, settings, clock=ManualClock())
    with pytest.raises(RetryableError, match=r"podresources at .*kubelet.sock.*checkpoint .*(not exist|cannot be)"):
        await reader.fetch()
