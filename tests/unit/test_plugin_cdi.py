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
    publisher = CdiSpecPublisher(file := CdiSpecFile(tmp_path / "cdi", ENFLAME), is_wanted=True)
    publisher.offer(inventory(0, 1))
    assert names(file.path) == ["0", "1"]
    publisher.offer(inventory(0, 1, 2))
    assert names(file.path) == ["0", "1", "2"]
    assert [path.name for path in file.path.parent.iterdir()] == ["gcushare-enflame.json"]


@pytest.mark.parametrize("text", [None, '{"devices": []}'], ids=["removed", "overwritten"])
def test_a_file_that_another_program_changed_is_written_again(tmp_path: Path, text: str | None) -> None:
    publisher = CdiSpecPublisher(file := CdiSpecFile(tmp_path, ENFLAME), is_wanted=True)
    publisher.offer(inventory(0))
    file.path.unlink() if text is None else file.path.write_text(text)
    publisher.offer(inventory(0))
    assert names(file.path) == ["0"]


def test_no_file_is_read_again_while_nothing_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    publisher = CdiSpecPublisher(CdiSpecFile(tmp_path, ENFLAME), is_wanted=True)
    (tmp_path / "a-directory.json").mkdir()
    for _ in range(3):
        publisher.offer(inventory(0))
    publisher.offer(inventory(0, 1))
    reads = [record for record in caplog.records if "a-directory.json" in record.getMessage()]
    assert len(reads) == 2, "once for each list of cards"


@pytest.mark.parametrize(
    ("holders", "is_kept"),
    [
        pytest.param(None, True, id="not known who holds cards"),
        pytest.param(1, True, id="a pod holds one"),
        pytest.param(0, False, id="no one does"),
    ],
)
def test_without_the_strategy_the_file_goes_when_no_one_can_need_it(
    tmp_path: Path, holders: int | None, is_kept: bool
) -> None:
    (file := CdiSpecFile(tmp_path, ENFLAME)).write(inventory(0))
    publisher = CdiSpecPublisher(file, is_wanted=False)
    if holders is not None:
        publisher.note_holders(holders)
    publisher.offer(inventory(0))
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
    publisher = CdiSpecPublisher(file := CdiSpecFile(tmp_path, ALIYUN), is_wanted=True)
    publisher.offer(inventory(0))
    other = tmp_path / "nvidia.yaml"
    other.write_text(conflicting)
    publisher.offer(inventory(0))
    assert (file.path.exists(), publisher.problem) == (False, "")
    other.write_text("kind: nvidia.com/gpu-other\n")
    publisher.offer(inventory(0))
    assert names(file.path) == ["0"]


def test_a_directory_that_cannot_be_written_is_a_problem_reported_once_and_gone_when_it_can(tmp_path: Path) -> None:
    (tmp_path / "cdi").write_text("a file where the directory should be")
    publisher = CdiSpecPublisher(CdiSpecFile(tmp_path / "cdi", ENFLAME), is_wanted=True)
    assert [publisher.offer(inventory(0)), publisher.offer(inventory(0))] == [True, False]
    assert "gcushare-enflame.json cannot be written" in publisher.problem
    (tmp_path / "cdi").unlink()
    assert not publisher.offer(inventory(0))
    assert publisher.problem == ""


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
