"""The checkpoint file of the kubelet double: the stock kubelet's layout, and what counts as corrupt."""

from __future__ import annotations

import base64
import json

from gcushare_playground.kubelet.checkpoint import (
    Checkpoint,
    PodDevices,
    encode_checkpoint,
)

RESOURCE = "enflame.com/gcu-memory"
ENTRY = PodDevices("uid-1", "main", RESOURCE, {-1: ("000", "001"), 1: ("002",)}, b"\x0a\x01answer")
CHECKPOINT = Checkpoint((ENTRY,), {RESOURCE: ("000", "001", "002")})


def test_the_layout_is_the_stock_kubelets() -> None:
    document = json.loads(encode_checkpoint(CHECKPOINT))

    assert document.pop("Checksum") > 0
    assert document == {
        "Data": {
            "PodDeviceEntries": [
                {
                    "PodUID": "uid-1",
                    "ContainerName": "main",
                    "ResourceName": RESOURCE,
                    "DeviceIDs": {"-1": ["000", "001"], "1": ["002"]},
                    "AllocResp": base64.b64encode(b"\x0a\x01answer").decode(),
                }
            ],
            "RegisteredDevices": {RESOURCE: ["000", "001", "002"]},
        }
    }
