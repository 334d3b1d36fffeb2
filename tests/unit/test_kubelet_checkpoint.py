"""The checkpoint file of the kubelet double: the stock kubelet's layout, and what counts as corrupt."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from gcushare.core.errors import RemoteContractError
from gcushare_playground.kubelet.checkpoint import (
    Checkpoint,
    CheckpointFile,
    PodDevices,
    decode_checkpoint,
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


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda raw: raw[:-20], id="cut short"),
        pytest.param(lambda raw: raw.replace(b'"001"', b'"009"'), id="an id changed under the checksum"),
        pytest.param(lambda raw: b"", id="empty file"),
        pytest.param(lambda raw: b"\x00" * len(raw), id="zeros after a crash"),
        pytest.param(lambda raw: b'{"Data":{},"Checksum":1}', id="another layout"),
        pytest.param(lambda raw: b"[]", id="not an object"),
    ],
)
def test_a_damaged_checkpoint_is_refused_as_corrupt(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(RemoteContractError, match="checkpoint is corrupt"):
        decode_checkpoint(damage(encode_checkpoint(CHECKPOINT)))


def test_a_missing_file_is_no_checkpoint(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path)

    assert not file.exists()
    assert file.read() is None
