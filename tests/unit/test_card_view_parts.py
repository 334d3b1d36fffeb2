"""The picture of a status, of this and of older plugins, and whose a process is."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import msgspec
import pytest

from gcushare.card_view.picture import HolderState, view_status
from gcushare.card_view.processes import find_owners
from gcushare.core.errors import RemoteContractError
from gcushare.core.nodes import CardMode
from gcushare.wire.node_status import parse_node_status
from tests.unit.card_pictures import NO_OWNERS, busy, card, make_proc, picture, pod, status

UID = str(uuid.UUID(int=7))


def test_a_status_survives_the_wire_with_everything() -> None:
    assert parse_node_status(msgspec.json.encode(busy())) == busy()


def test_an_older_plugins_status_is_read_and_its_modes_are_derived() -> None:
    document = json.loads(msgspec.json.encode(status(card(0), card(1), pods=(pod("d/a", {0: 4}),))))
    for each in document["cards"]:
        del each["mode"], each["holders"], each["use"]
    for each in document["pods"]:
        del each["cards"], each["whole"]
    view = view_status(parse_node_status(json.dumps(document).encode()), "old", NO_OWNERS)
    assert [each.mode for each in view.cards] == [CardMode.SHARED, CardMode.FREE]
    assert [holder.pod for holder in view.cards[0].holders] == ["d/a"]
    assert view.cards[0].used_bytes is None


def test_a_newer_plugins_fields_are_no_obstacle_and_an_unknown_mode_is_derived() -> None:
    document = json.loads(msgspec.json.encode(status(card(0, mode="of the future"), pods=(pod("d/a", {0: 4}),))))
    document["later"] = {"more": True}
    view = view_status(parse_node_status(json.dumps(document).encode()), "new", NO_OWNERS)
    assert view.cards[0].mode is CardMode.SHARED


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b'{"version": 1}', b"[]"])
def test_what_is_no_status_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteContractError, match="no document of gcushare-device-plugin"):
        parse_node_status(body)


def test_how_far_a_pod_is_decides_what_counts_as_granted() -> None:
    pods = (
        pod("d/holds", {0: 4}),
        pod("d/unconfirmed", {0: 3}, unconfirmed=("main",)),
        pod("d/waits", units=5, cards=(0,), recorded_cards=(0,)),
    )
    found = view_status(status(card(0), pods=pods), "x", NO_OWNERS).cards[0]
    assert [(holder.state, holder.units) for holder in found.holders] == [
        (HolderState.HOLDS, 4),
        (HolderState.UNCONFIRMED, 3),
        (HolderState.WAITS, 5),
    ]
    assert found.granted_units == 7


def test_a_waiting_pod_of_two_cards_has_its_share_of_each() -> None:
    pods = (pod("d/waits", units=5, cards=(0, 1), recorded_cards=(0, 1)),)
    cards = view_status(status(card(0), card(1), pods=pods), "x", NO_OWNERS).cards
    assert [each.holders[0].units for each in cards] == [3, 2]


def test_the_document_for_programs_has_the_same_in_numbers() -> None:
    document = json.loads(msgspec.json.encode(picture(busy(), owners={4242: "uid-of-train-7"})))
    assert document["version"] == 1
    (node,) = document["nodes"]
    assert (node["source"], node["podsKnown"], node["unit"]) == ("plugin", True, "1")
    shared, whole, sick, cordoned = node["cards"]
    assert [each["mode"] for each in node["cards"]] == ["shared", "whole", "shared", "free"]
    assert shared["holders"][0]["containers"] == {"main": 4, "side": 2}
    assert shared["holders"][0]["processes"] == [{"pid": 4242, "bytes": 11 << 29}]
    assert {each["pid"] for each in shared["processes"]} == {99, 4243}
    assert (whole["holders"][0]["whole"], whole["grantedUnits"]) == (True, 16)
    assert (sick["healthy"], sick["usedBytes"]) == (False, None)
    assert cordoned["cordoned"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"0::/kubepods/burstable/pod{UID}/8c1f\n", id="cgroupfs"),
        pytest.param(
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID.replace('-', '_')}.slice/"
            "cri-containerd-8c1f.scope\n",
            id="systemd",
        ),
        pytest.param(f"12:devices:/kubepods/besteffort/pod{UID}/8c1f\n11:cpu:/kubepods/besteffort\n", id="version 1"),
        pytest.param(f"0::/kubelet/kubepods/pod{UID}/8c1f/nested/deeper\n", id="nested"),
    ],
)
def test_a_process_belongs_to_the_pod_whose_uid_its_control_group_carries(tmp_path: Path, text: str) -> None:
    assert find_owners([42], {UID, "another"}, make_proc(tmp_path, {42: text})) == {42: UID}


def test_nothing_is_said_of_processes_of_no_pod_of_two_pods_and_of_none(tmp_path: Path) -> None:
    other = str(uuid.UUID(int=8))
    groups = {1: "0::/system.slice/sshd.service\n", 2: f"0::/pod{UID}/pod{other}\n", 3: "", 4: f"0::/{UID}\n"}
    assert find_owners([1, 2, 3, 4, 5], {UID, other, ""}, make_proc(tmp_path, groups)) == {}


def test_within_a_container_nothing_is_said_for_its_process_ids_mean_others(tmp_path: Path) -> None:
    proc = make_proc(tmp_path, {42: f"0::/kubepods/pod{UID}/8c1f\n"}, "pid:[4026532000]")
    assert find_owners([42], {UID}, proc) == {}
    assert find_owners([42], {UID}, tmp_path / "nowhere") == {}
