"""The CDI specification: its content, its replacement in one step, and when it goes."""

import json
from pathlib import Path

import pytest

from gcushare.core.cards import Card, Inventory, InventoryCard
from gcushare.core.errors import DeviceError
from gcushare.core.units import parse_memory_unit
from gcushare.device_plugin.allocation.cdi import CdiSpecFile, CdiSpecPublisher, cdi_spec
from gcushare.vendors import ALIYUN, ENFLAME


def inventory(*indexes: int) -> Inventory:
    cards = tuple(
        InventoryCard(card=Card(index=index, uuid=f"u{index}", memory_bytes=1 << 34), units=16) for index in indexes
    )
    return Inventory(unit=parse_memory_unit("1"), cards=cards)


def names(path: Path) -> list[str]:
    return [device["name"] for device in json.loads(path.read_text())["devices"]]


def test_each_card_is_a_device_and_every_container_gets_the_control_nodes() -> None:
    spec = cdi_spec(ENFLAME, inventory(0, 5))
    assert (spec["cdiVersion"], spec["kind"]) == ("0.6.0", "enflame.com/gcu")
    assert spec["devices"][1] == {
        "name": "5",
        "containerEdits": {"deviceNodes": [{"path": "/dev/gcu5", "permissions": "rw"}]},
    }
    assert spec["containerEdits"] == {"deviceNodes": [{"path": "/dev/gcuctl", "permissions": "rw"}]}


def test_the_file_follows_the_cards_and_leaves_no_temporary_one(tmp_path: Path) -> None:
    reconciler = CdiSpecPublisher(file := CdiSpecFile(tmp_path / "cdi", ENFLAME), is_wanted=True)
    reconciler.offer(inventory(0, 1))
    assert names(file.path) == ["0", "1"]
    reconciler.offer(inventory(0, 1, 2))
    assert names(file.path) == ["0", "1", "2"]
    assert [path.name for path in file.path.parent.iterdir()] == ["gcushare-enflame.json"]


def test_a_file_that_somebody_removed_is_written_again(tmp_path: Path) -> None:
    reconciler = CdiSpecPublisher(file := CdiSpecFile(tmp_path, ENFLAME), is_wanted=True)
    reconciler.offer(inventory(0))
    file.path.unlink()
    reconciler.offer(inventory(0))
    assert names(file.path) == ["0"]


def test_a_file_that_somebody_overwrote_is_written_again(tmp_path: Path) -> None:
    reconciler = CdiSpecPublisher(file := CdiSpecFile(tmp_path, ENFLAME), is_wanted=True)
    reconciler.offer(inventory(0))
    file.path.write_text('{"devices": []}')
    reconciler.offer(inventory(0))
    assert names(file.path) == ["0"]


def test_no_file_is_read_again_while_nothing_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    reconciler = CdiSpecPublisher(CdiSpecFile(tmp_path, ENFLAME), is_wanted=True)
    (tmp_path / "a-directory.json").mkdir()
    for _ in range(3):
        reconciler.offer(inventory(0))
    reconciler.offer(inventory(0, 1))
    reads = [record for record in caplog.records if "a-directory.json" in record.getMessage()]
    assert len(reads) == 2, "once for each list of cards"


@pytest.mark.parametrize(
    ("holders", "is_kept"),
    [
        pytest.param(None, True, id="not known who holds cards"),
        pytest.param(1, True, id="a pod holds one"),
        pytest.param(0, False, id="nobody does"),
    ],
)
def test_without_the_strategy_the_file_goes_when_nobody_can_need_it(
    tmp_path: Path, holders: int | None, is_kept: bool
) -> None:
    (file := CdiSpecFile(tmp_path, ENFLAME)).write(inventory(0))
    reconciler = CdiSpecPublisher(file, is_wanted=False)
    if holders is not None:
        reconciler.note_holders(holders)
    reconciler.offer(inventory(0))
    assert file.path.exists() is is_kept


@pytest.mark.parametrize(
    "conflicting",
    [
        pytest.param('{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": []}', id="json"),
        pytest.param("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: []\n", id="yaml"),
        pytest.param('kind: "nvidia.com/gpu"\n', id="yaml with quotes"),
    ],
)
def test_ours_stays_away_while_a_toolkit_defines_the_same_devices(tmp_path: Path, conflicting: str) -> None:
    reconciler = CdiSpecPublisher(file := CdiSpecFile(tmp_path, ALIYUN), is_wanted=True)
    reconciler.offer(inventory(0))
    other = tmp_path / "nvidia.yaml"
    other.write_text(conflicting)
    reconciler.offer(inventory(0))
    assert (file.path.exists(), reconciler.problem) == (False, "")
    other.write_text("kind: nvidia.com/gpu-other\n")
    reconciler.offer(inventory(0))
    assert names(file.path) == ["0"]


def test_a_directory_that_cannot_be_written_is_a_problem_told_once_and_gone_when_it_can(tmp_path: Path) -> None:
    (tmp_path / "cdi").write_text("a file where the directory should be")
    reconciler = CdiSpecPublisher(CdiSpecFile(tmp_path / "cdi", ENFLAME), is_wanted=True)
    assert [reconciler.offer(inventory(0)), reconciler.offer(inventory(0))] == [True, False]
    assert "gcushare-enflame.json cannot be written" in reconciler.problem
    (tmp_path / "cdi").unlink()
    assert not reconciler.offer(inventory(0))
    assert reconciler.problem == ""


def test_removal_says_whether_there_was_a_file_and_fails_in_words(tmp_path: Path) -> None:
    file = CdiSpecFile(tmp_path, ENFLAME)
    file.write(inventory(0))
    assert [file.remove(), file.remove()] == [True, False]
    file.path.mkdir()
    with pytest.raises(DeviceError, match="cannot be removed"):
        file.remove()


def test_nothing_is_written_where_others_could_plant_a_link(tmp_path: Path) -> None:
    file = CdiSpecFile(tmp_path / "cdi", ENFLAME)
    file.path.parent.mkdir()
    file.path.parent.chmod(0o777)
    (tmp_path / "victim").write_text("precious")
    file.path.with_suffix(".tmp").symlink_to(tmp_path / "victim")
    with pytest.raises(DeviceError, match="can be written by others"):
        file.write(inventory(0))
    file.path.parent.chmod(0o755)
    file.write(inventory(0))
    assert ((tmp_path / "victim").read_text(), names(file.path)) == ("precious", ["0"])
