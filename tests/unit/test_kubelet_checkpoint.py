"""The checkpoint file of the kubelet double: the stock kubelet's layout, and what counts as corrupt."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.errors import RemoteContractError
from gcushare_playground.kubelet.checkpoint import (
    CHECKPOINT_NAME,
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


def test_no_entries_are_written_as_null() -> None:
    raw = encode_checkpoint(Checkpoint((), {RESOURCE: ()}))

    assert json.loads(raw)["Data"]["PodDeviceEntries"] is None
    assert decode_checkpoint(raw) == Checkpoint((), {RESOURCE: ()})


_IDS = st.lists(st.text(min_size=1, max_size=3), unique=True, max_size=8).map(tuple)
_ENTRIES = st.builds(
    PodDevices,
    st.text(min_size=1),
    st.text(min_size=1),
    st.text(min_size=1),
    st.dictionaries(st.integers(-1, 7), _IDS, max_size=3),
    st.binary(max_size=64),
)


@given(st.lists(_ENTRIES, max_size=4).map(tuple), st.dictionaries(st.text(), _IDS, max_size=3))
def test_what_is_written_is_read_back(entries: tuple[PodDevices, ...], registered: dict[str, tuple[str, ...]]) -> None:
    checkpoint = Checkpoint(entries, registered)

    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


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


def test_writing_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path)
    file.write(Checkpoint((), {}))
    file.write(CHECKPOINT)

    assert file.read() == CHECKPOINT
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT_NAME]


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path)
    file.write(CHECKPOINT)

    ids: Any = (object(),)
    unwritable = Checkpoint((PodDevices("uid", "c", RESOURCE, {-1: ids}, b""),), {})
    with pytest.raises(TypeError):
        file.write(unwritable)

    assert file.read() == CHECKPOINT
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT_NAME]
