"""Fine units on kubelets that are slow with many: ``auto`` takes coarser ones, and an upgrade refuses no one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcushare.vendors import ALIYUN
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from tests.unit.node_agent_rig import Rig, make_rig

EIGHT = (16,) * 8


def unit_of(rig: Rig) -> str:
    assert rig.agent.inventory is not None
    return rig.agent.inventory.unit.name


def is_warned(rig: Rig) -> bool:
    return "ManyUnits" in rig.heard.reasons()


@pytest.mark.parametrize(
    ("kubelet", "unit"),
    [
        pytest.param("v1.35.4", "0.001", id="quick"),
        pytest.param("v1.36.0-rc.1", "0.1", id="slow above 10,000"),
        pytest.param("v1.40.0", "0.1", id="later"),
        pytest.param("", "0.001", id="unknown"),
    ],
)
def test_auto_chooses_by_the_kubelets_version(tmp_path: Path, kubelet: str, unit: str) -> None:
    rig = make_rig(tmp_path, "auto")
    rig.node(kubelet)
    rig.see(*EIGHT)
    assert (unit_of(rig), is_warned(rig)) == (unit, False)


def test_a_node_with_many_units_of_every_size_gets_the_coarsest(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, "auto", vendor=ALIYUN)
    rig.node("v1.36.2")
    rig.see(*(1024,) * 16)
    assert (unit_of(rig), is_warned(rig)) == ("GiB", True)


def test_a_unit_that_pods_hold_stays_until_the_node_is_empty(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, "auto")
    rig.node("v1.35.4")
    rig.see(*EIGHT)
    rig.hold(a=device_ids_of_card(0, 4))
    rig.node("v1.36.2")
    assert (unit_of(rig), rig.agent.problem) == ("0.001", ""), "an upgrade of the kubelet refuses no one"
    assert is_warned(rig)
    rig.hold()
    assert unit_of(rig) == "0.1"


def test_a_unit_that_the_admin_chose_stays_and_is_reported(tmp_path: Path) -> None:
    rig = make_rig(tmp_path, "0.001")
    rig.node("v1.36.2")
    rig.see(*EIGHT)
    assert (unit_of(rig), is_warned(rig)) == ("0.001", True)
