"""The kubelet's calls as the plugin's socket answers them, where something goes wrong inside."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gcushare.device_plugin.kubelet.device_list import MemoryDeviceList
from gcushare.device_plugin.kubelet.server import CALLS, DevicePluginService


class Broken:
    """An allocator with a defect."""

    async def prefer(self, _container: object) -> list[str]:
        raise ZeroDivisionError

    async def allocate(self, _ids: object) -> object:
        raise ZeroDivisionError


@pytest.mark.parametrize("call", CALLS)
async def test_a_defect_is_counted_and_not_hidden(call: str) -> None:
    seen: list[tuple[str, str]] = []
    service = DevicePluginService(
        MemoryDeviceList(),
        cast(Any, Broken()),
        clock=lambda: 0.0,
        observe=lambda name, _seconds, error: seen.append((name, error)),
        pre_start=cast(Any, Broken().allocate),
    )
    details = SimpleNamespace(method=f"/v1beta1.DevicePlugin/{call}")
    method = cast(Any, service.handler().service(cast(Any, details))).unary_unary
    with pytest.raises(ZeroDivisionError):
        await method(b"\x0a\x02\x0a\x00" if call == "GetPreferredAllocation" else b"\x0a\x00", None)
    assert seen == [(call, "defect")]
