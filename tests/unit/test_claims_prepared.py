"""What is granted to claims, what is refused, and the files that say so, also where an attacker wrote them."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gcushare.core.errors import DeviceError, GcushareError, Refused, RemoteContractError
from gcushare.core.units import GIB
from gcushare.device_plugin.claims.claim_files import CheckpointFile
from gcushare.node.node_settings import Strategy
from gcushare.wire.dra.checkpoint import ContainerEdits, PreparedClaim, PreparedDevice
from gcushare.wire.dra.claims import AllocationResult, ResourceClaim
from tests.unit.claims_driver_values import DRIVER, a_claim, a_result, an_inventory, prepared_claims, whole_result

CARDS = an_inventory(16, 16)


def cdi_file(root: Path, uid: str) -> Path:
    return root / "cdi" / f"{DRIVER}-claim-{uid}.json"


def variables(root: Path, uid: str) -> dict[str, str]:
    (device,) = json.loads(cdi_file(root, uid).read_text())["devices"]
    return dict(each.split("=", 1) for each in device["containerEdits"]["env"])


def test_a_share_gets_the_variables_of_allocates_answer(tmp_path: Path) -> None:
    prepared = prepared_claims(tmp_path)
    claim = prepared.prepare(a_claim("one", a_result("card-1", 4)), "one", CARDS)
    assert prepared.cdi_ids(claim) == (f"{DRIVER}/claim=one",)
    assert variables(tmp_path, "one") == {
        "ENFLAME_VISIBLE_DEVICES": "1",
        "ENFLAME_COM_GCU_MEM_IDX": "1",
        "ENFLAME_COM_GCU_MEM_DEV": "16",
        "ENFLAME_COM_GCU_MEM_POD": "4",
        "ENFLAME_COM_GCU_MEM_CONTAINER": "4",
        "GCUSHARE_CONTAINER_USABLE_GLOBAL_MEM": str(4 * GIB),
        "GCUSHARE_CARD_MEMORY_BYTES": str(16 * GIB),
    }
    assert stat.S_IMODE((tmp_path / "plugin" / "checkpoint.json").stat().st_mode) == 0o600


def test_the_strategies_bring_device_nodes_and_the_vendors_own_cdi_names(tmp_path: Path) -> None:
    prepared = prepared_claims(tmp_path, (Strategy.DEVICES, Strategy.CDI))
    claim = prepared.prepare(a_claim("one", a_result("card-1", 4)), "one", CARDS)
    assert prepared.cdi_ids(claim) == (f"{DRIVER}/claim=one", "enflame.com/gcu=1")
    (device,) = json.loads(cdi_file(tmp_path, "one").read_text())["devices"]
    assert [each["path"] for each in device["containerEdits"]["deviceNodes"]] == ["/dev/gcu1", "/dev/gcuctl"]


def test_a_whole_card_by_the_vendors_cdi_alone_needs_no_file_of_ours(tmp_path: Path) -> None:
    prepared = prepared_claims(tmp_path, (Strategy.CDI,))
    claim = prepared.prepare(a_claim("all", whole_result("card-0")), "all", CARDS)
    assert prepared.cdi_ids(claim) == ("enflame.com/gcu=0",)
    assert not cdi_file(tmp_path, "all").exists()


def test_amounts_between_two_units_count_as_the_scheduler_rounds_them(tmp_path: Path) -> None:
    prepared_claims(tmp_path).prepare(a_claim("odd", consuming("3500Mi")), "odd", CARDS)
    assert variables(tmp_path, "odd")["ENFLAME_COM_GCU_MEM_CONTAINER"] == "4"


@pytest.mark.parametrize(
    ("claim", "uid", "reason"),
    [
        pytest.param(a_claim("new", a_result("card-0", 4)), "old", "recreated", id="another claim of that name"),
        pytest.param(a_claim("c"), "c", "not allocated", id="no result"),
        pytest.param(ResourceClaim(), "", "not allocated", id="no allocation"),
        pytest.param(a_claim("c", a_result("card-0", 4, pool="b")), "c", "this node serves 'node-1'", id="other node"),
        pytest.param(a_claim("c", a_result("card-2", 4)), "c", "not on this node any more", id="unknown card"),
        pytest.param(a_claim("c", whole_result("card-0", 4)), "c", "leave an amount out", id="part of a whole card"),
        pytest.param(a_claim("c", a_result("card-0", 17)), "c", "16 of 16 units free", id="more than the card"),
        pytest.param(a_claim("c", *[a_result("card-0", 10)] * 2), "c", "holds 20 units", id="one card twice"),
        pytest.param(
            a_claim("c", a_result("card-0", 4), whole_result("card-1")), "c", "make a claim for each", id="both uses"
        ),
    ],
)
def test_a_claim_that_cannot_be_granted_is_refused_and_leaves_nothing(
    tmp_path: Path, claim: ResourceClaim, uid: str, reason: str
) -> None:
    prepared = prepared_claims(tmp_path)
    with pytest.raises(Refused, match=reason):
        prepared.prepare(claim, uid, CARDS)
    assert prepared.claims == {}
    assert not (tmp_path / "cdi").exists()


def consuming(amount: str) -> AllocationResult:
    return msgspec.structs.replace(a_result("card-0"), consumed_capacity={"memory": amount})


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(a_result("gpu-0", 4), id="a device of another form"),
        pytest.param(a_result("card-0"), id="no amount"),
        *map(consuming, ("0", "-4Gi", "1500m", "0.5", "1e30", "10E", str(2**63), "", "4 Gi", "nan")),
    ],
)
def test_a_result_that_no_scheduler_writes_gives_nothing(tmp_path: Path, result: AllocationResult) -> None:
    prepared = prepared_claims(tmp_path)
    with pytest.raises(GcushareError):
        prepared.prepare(a_claim("c", result), "c", CARDS)
    assert prepared.claims == {}


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        pytest.param(a_result("card-0", 13), a_result("card-0", 4), id="no room"),
        pytest.param(whole_result("card-0"), a_result("card-0", 4), id="in use as a whole"),
        pytest.param(a_result("card-0", 1), whole_result("card-0"), id="shared"),
        pytest.param(whole_result("card-0"), whole_result("card-0"), id="whole twice"),
    ],
)
def test_a_card_is_never_given_twice_whatever_the_claims_say(
    tmp_path: Path, held: AllocationResult, wanted: AllocationResult
) -> None:
    prepared = prepared_claims(tmp_path)
    prepared.prepare(a_claim("first", held), "first", CARDS)
    with pytest.raises(Refused, match=r"claims default/first hold"):
        prepared.prepare(a_claim("second", wanted), "second", CARDS)
    prepared.unprepare("first")
    prepared.prepare(a_claim("second", wanted), "second", CARDS)


@pytest.mark.parametrize("at", ["the file", "the file that is renamed"])
def test_a_start_serves_the_other_claims_if_one_files_place_is_taken(tmp_path: Path, at: str) -> None:
    prepared = prepared_claims(tmp_path)
    for name in ("one", "two"):
        prepared.prepare(a_claim(name, a_result("card-0", 4)), name, CARDS)
        cdi_file(tmp_path, name).unlink()
    place = cdi_file(tmp_path, "one")
    (place if at == "the file" else place.with_name(f"{place.name}.tmp")).mkdir()
    (tmp_path / "cdi" / f"{DRIVER}-claim-gone.json").mkdir()
    again = prepared_claims(tmp_path)
    again.load()
    assert set(again.claims) == {"one", "two"}
    assert variables(tmp_path, "two")["ENFLAME_VISIBLE_DEVICES"] == "0"
    with pytest.raises(DeviceError, match=r"claim-one\.json"):
        again.complete("one")


@pytest.mark.parametrize("uid", ["../../etc/passwd", "", "a/b", "a b", "x" * 65])
def test_a_uid_that_is_no_file_name_is_refused(tmp_path: Path, uid: str) -> None:
    with pytest.raises(RemoteContractError, match="no uid of a claim"):
        prepared_claims(tmp_path).unprepare(uid)


def test_a_start_brings_back_lost_files_and_removes_those_of_no_claim(tmp_path: Path) -> None:
    prepared_claims(tmp_path).prepare(a_claim("one", a_result("card-0", 4)), "one", CARDS)
    cdi_file(tmp_path, "one").rename(cdi_file(tmp_path, "stale"))
    (tmp_path / "cdi" / "nvidia.json").write_text("{}")
    again = prepared_claims(tmp_path)
    again.load()
    assert set(again.claims) == {"one"}
    assert sorted(each.name for each in (tmp_path / "cdi").iterdir()) == [f"{DRIVER}-claim-one.json", "nvidia.json"]


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"version": 2}', '{"version": 1, "claims": {"a": {}}}'])
def test_a_checkpoint_that_is_lost_or_unreadable_is_made_of_the_clusters_claims(
    tmp_path: Path, content: str | None
) -> None:
    prepared_claims(tmp_path).prepare(a_claim("one", a_result("card-0", 4)), "one", CARDS)
    file = CheckpointFile(tmp_path / "plugin")
    file.path.unlink() if content is None else file.path.write_text(content)
    again = prepared_claims(tmp_path)
    with pytest.raises(RemoteContractError):
        again.load()
    aside = again.rebuild(
        [a_claim("one", a_result("card-0", 4)), a_claim("elsewhere", a_result("card-0", 4, pool="b"))]
    )
    assert (None if aside is None else aside.read_text()) == content
    assert set(again.claims) == {"one"}
    assert cdi_file(tmp_path, "one").exists(), "a container that restarts needs it"
    third = prepared_claims(tmp_path)
    third.load()
    assert third.claims == again.claims
    assert third.complete("one") is None, "the kubelet's next call writes its file again"
    with pytest.raises(Refused):
        third.prepare(a_claim("two", a_result("card-0", 13)), "two", CARDS)


HOST = PreparedClaim(
    uid="evil",
    namespace="d",
    name="evil",
    devices=(PreparedDevice(request="card", device="card-0", index=0, memory_bytes=1 << 30),),
    edits=ContainerEdits(variables={"A": "B"}, mounts=("/",), device_nodes=("/dev/sda",)),
    is_complete=True,
)
"""A claim whose containers would get all of the host."""


def test_a_device_by_admin_access_is_refused_because_it_counts_for_nothing(tmp_path: Path) -> None:
    result = msgspec.structs.replace(a_result("card-0", 4), admin_access=True)
    with pytest.raises(Refused, match="leave adminAccess out"):
        prepared_claims(tmp_path).prepare(a_claim("c", result), "c", CARDS)


def forged(folder: Path) -> Path:
    """A checkpoint that an attacker wrote in a folder of its own."""
    file = CheckpointFile(folder)
    file.write({HOST.uid: HOST})
    return file.path


def linked(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    (folder / "checkpoint.json").symlink_to(forged(folder.parent / "elsewhere"))


def in_a_folder_of_others(folder: Path) -> None:
    forged(folder)
    folder.chmod(0o777)


def of_another_user(folder: Path) -> None:
    os.chown(forged(folder), 12345, 12345)


def writable_by_others(folder: Path) -> None:
    forged(folder).chmod(0o620)


def as_a_pipe(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    os.mkfifo(folder / "checkpoint.json", mode=0o600)


def with_a_second_name(folder: Path) -> None:
    (folder.parent / "mine").hardlink_to(forged(folder))


@pytest.mark.parametrize(
    "make",
    [
        linked,
        in_a_folder_of_others,
        pytest.param(of_another_user, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file")),
        writable_by_others,
        as_a_pipe,
        with_a_second_name,
    ],
    ids=lambda make: make.__name__,
)
def test_a_checkpoint_that_others_may_have_written_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    forged(tmp_path / "own")
    assert CheckpointFile(tmp_path / "own").read() == {HOST.uid: HOST}, "such a file of the driver's own is read"
    make(tmp_path / "plugin")
    prepared = prepared_claims(tmp_path)
    with pytest.raises(DeviceError, match="cannot be read"):
        prepared.load()
    assert prepared.claims == {}
    assert not (tmp_path / "cdi").exists()


def test_a_cdi_file_that_others_can_write_or_name_is_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    (tmp_path / "cdi").mkdir()
    (path := cdi_file(tmp_path, HOST.uid)).symlink_to(mine)
    forged(tmp_path / "plugin")
    prepared_claims(tmp_path).load()
    assert (path.is_symlink(), mine.read_text()) == (False, "precious")
    (tmp_path / "another").hardlink_to(path)
    prepared_claims(tmp_path).load()
    assert path.stat().st_nlink == 1
    path.chmod(0o666)
    prepared_claims(tmp_path).load()
    assert path.stat().st_mode & 0o777 == 0o644


async def test_the_node_is_waited_for_while_a_rebuilt_claim_does_not_say_which_card_it_has(tmp_path: Path) -> None:
    held, is_read = prepared_claims(tmp_path), asyncio.Event()
    held.rebuild([a_claim("c", a_result("card-0", 4))])
    await held.wait_for_numbers(is_read, 0.0, is_read.set)
    assert is_read.is_set()
