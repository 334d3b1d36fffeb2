"""What claims, templates and files say that an attacker wrote: it is refused, or changes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gcushare.core.errors import DeviceError, GcushareError, Refused
from gcushare.device_plugin.claims.claim_files import CheckpointFile
from gcushare.scheduler_extender.claims.template_plan import DueStep, Step, TemplateKey, trimmed
from gcushare.wire.dra.checkpoint import ContainerEdits, PreparedClaim, PreparedDevice
from gcushare.wire.dra.claims import (
    RESOURCE_CLAIM_TEMPLATE,
    CapacityRequests,
    ClaimSpec,
    DeviceClaim,
    DeviceRequest,
    ExactRequest,
    ResourceClaimTemplate,
    TemplateSpec,
)
from gcushare.wire.objects import ObjectMeta
from tests.unit.claims_driver_values import a_claim, a_result, an_inventory, prepared_claims
from tests.unit.test_claims_templates import FIVE, make_plan, template, waiting

CARDS = an_inventory(16, 16)
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


@pytest.mark.parametrize("amount", ["0", "-4Gi", "1500m", "0.5", "1e30", "10E", str(2**63), "", "4 Gi", "nan"])
def test_an_amount_that_no_scheduler_writes_gives_nothing(tmp_path: Path, amount: str) -> None:
    result = msgspec.structs.replace(a_result("card-0", 4), consumed_capacity={"memory": amount})
    prepared = prepared_claims(tmp_path)
    with pytest.raises(GcushareError):
        prepared.prepare(a_claim("c", result), "c", CARDS)
    assert prepared.claims == {}


def test_many_results_on_one_card_are_counted_together(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="16 of 16 units free, and the claim holds 20 units"):
        prepared_claims(tmp_path).prepare(a_claim("c", *[a_result("card-0", 10)] * 2), "c", CARDS)


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


def with_a_second_name(folder: Path) -> None:
    (folder.parent / "mine").hardlink_to(forged(folder))


@pytest.mark.parametrize(
    "make",
    [
        linked,
        in_a_folder_of_others,
        pytest.param(of_another_user, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file")),
        writable_by_others,
        with_a_second_name,
    ],
    ids=lambda make: make.__name__,
)
def test_a_checkpoint_that_others_may_have_written_is_not_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "plugin")
    prepared = prepared_claims(tmp_path)
    with pytest.raises(DeviceError, match="cannot be read"):
        prepared.load()
    assert prepared.claims == {}
    assert not (tmp_path / "cdi").exists()


def test_a_cdi_file_that_others_can_write_or_name_is_replaced(tmp_path: Path) -> None:
    forged(tmp_path / "plugin")
    prepared_claims(tmp_path).load()
    (path,) = (tmp_path / "cdi").iterdir()
    (tmp_path / "mine").hardlink_to(path)
    prepared_claims(tmp_path).load()
    assert path.stat().st_nlink == 1
    path.chmod(0o666)
    prepared_claims(tmp_path).load()
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_pipe_in_place_of_the_checkpoint_does_not_hold_the_driver_up(tmp_path: Path) -> None:
    (tmp_path / "plugin").mkdir(mode=0o755)
    os.mkfifo(tmp_path / "plugin" / "checkpoint.json")
    with pytest.raises(GcushareError, match="checkpoint"):
        prepared_claims(tmp_path).load()


def test_a_checkpoint_that_is_read_is_the_drivers_own(tmp_path: Path) -> None:
    """The tests above fail for their own reason: the same file is read where only root can write it."""
    forged(tmp_path / "plugin")
    prepared = prepared_claims(tmp_path)
    prepared.load()
    assert prepared.claims == {HOST.uid: HOST}


def deleted(found: ResourceClaimTemplate) -> ResourceClaimTemplate:
    metadata = msgspec.structs.replace(found.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(found, metadata=metadata)


def test_a_forged_template_that_a_finalizer_holds_is_waited_for_and_not_deleted_again() -> None:
    plan = make_plan()
    nine = plan.spec_of(TemplateKey("team", "gcu-memory-9"))
    big = msgspec.structs.replace(template(plan, FIVE), spec=nine)
    plan.templates.applied(deleted(big))
    assert plan.next_step(FIVE, 0) is None
    plan.pod_applied(waiting("p", FIVE.name))
    assert plan.next_step(FIVE, 0) is None
    plan.templates.deleted(deleted(big))
    assert plan.next_step(FIVE, 0) == DueStep(Step.CREATE)


def test_a_template_that_marks_its_claims_is_not_ours() -> None:
    plan = make_plan()
    plan.pod_applied(waiting("p", FIVE.name))
    own = template(plan, FIVE)
    metadata = ObjectMeta(annotations={"a": "b"})
    plan.templates.applied(msgspec.structs.replace(own, spec=msgspec.structs.replace(own.spec, metadata=metadata)))
    assert plan.next_step(FIVE, 0) == DueStep(Step.DELETE)


FORGED = [
    b'{"requests":[{"name":"card","firstAvailable":[{"name":"a","deviceClassName":"gcu-memory.gcushare.io"}]}]}',
    b'{"requests":[{"name":"card","exactly":{"deviceClassName":"gcu-memory.gcushare.io","count":1,"adminAccess":true,'
    b'"capacity":{"requests":{"memory":"5Gi"}}}}]}',
    b'{"requests":[{"name":"card","exactly":{"deviceClassName":"gcu-memory.gcushare.io","count":1,'
    b'"tolerations":[{"operator":"Exists"}],"capacity":{"requests":{"memory":"5Gi"}}}}]}',
    b'{"requests":[{"name":"card","exactly":{"deviceClassName":"gcu-memory.gcushare.io","count":1,'
    b'"capacity":{"requests":{"memory":"5Gi","other":"1"}}}}]}',
]


@pytest.mark.parametrize("devices", FORGED, ids=["alternatives", "admin access", "tolerations", "amounts"])
def test_a_forged_template_differs_from_ours(devices: bytes) -> None:
    plan = make_plan()
    body = b'{"metadata":{"name":"gcu-memory-5","namespace":"team","uid":"t"},"spec":{"spec":{"devices":%s}}}' % devices
    plan.templates.applied(RESOURCE_CLAIM_TEMPLATE.read(body))
    plan.pod_applied(waiting("p", FIVE.name))
    assert plan.next_step(FIVE, 0) == DueStep(Step.DELETE)


@pytest.mark.parametrize("is_spec", [True, False], ids=["spec", "labels"])
def test_little_is_kept_of_a_template_as_large_as_an_object_may_be(is_spec: bool) -> None:
    """With our label it is followed; a finalizer keeps it as long as its author likes."""
    plan = make_plan()
    plan.pod_applied(waiting("p", FIVE.name))
    large = dict.fromkeys((f"k{number}" for number in range(50_000)), "1")
    own = template(plan, FIVE)
    if is_spec:
        exactly = ExactRequest(capacity=CapacityRequests(requests=large))
        spec = ClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(exactly=exactly),)))
        found = trimmed(msgspec.structs.replace(own, spec=TemplateSpec(spec=spec)))
    else:
        found = trimmed(msgspec.structs.replace(own, metadata=msgspec.structs.replace(own.metadata, labels=large)))
    plan.templates.applied(found)
    assert len(msgspec.json.encode(found)) < 4096
    assert plan.next_step(FIVE, 0) == (DueStep(Step.DELETE) if is_spec else None)
