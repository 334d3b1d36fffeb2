"""What ``gcushare doctor`` prints, repairs and returns."""

from __future__ import annotations

import pytest

from gcushare.vendors import ENFLAME
from gcushare_playground.apiserver.objects import JsonObject
from tests.builders import cards
from tests.protocol.doctor_rig import NODE, DoctorRig, node_object, record

OTHER = "n2"
INVENTORY, CORDON = ENFLAME.inventory_annotation, ENFLAME.cordon_annotation


def leave_things_behind(rig: DoctorRig) -> None:
    """A node that is no longer shared, and a cordon that names one card that is there."""
    rig.put(node_object(OTHER, cards(16), zone="a"))
    rig.change_node(lambda node: node["status"]["capacity"].update({ENFLAME.memory_resource: "0"}), OTHER)
    rig.change_node(lambda node: node["metadata"]["annotations"].update({CORDON: "1, GCU-of-last-year"}))


def leftovers(rig: DoctorRig) -> JsonObject:
    node, shared = rig.found("nodes", OTHER), rig.found("nodes", NODE)
    return {
        "inventory": INVENTORY in node["metadata"].get("annotations", {}),
        "capacity": sorted(node["status"]["capacity"]),
        "cordon": shared["metadata"]["annotations"].get(CORDON),
    }


BEHIND = {
    "inventory": True,
    "capacity": ["cpu", ENFLAME.count_resource, ENFLAME.memory_resource],
    "cordon": "1, GCU-of-last-year",
}
TIDY = {"inventory": False, "capacity": ["cpu"], "cordon": "1"}


@pytest.mark.parametrize(
    ("typed", "after", "code"),
    [
        pytest.param("y\n", TIDY, 0, id="yes"),
        pytest.param("n\n", BEHIND, 3, id="no"),
    ],
)
async def test_changes_are_shown_and_made_when_somebody_says_yes(
    rig: DoctorRig, typed: str, after: JsonObject, code: int
) -> None:
    leave_things_behind(rig)
    answer = await rig.run("--fix", stdin=typed)
    assert (answer.code, leftovers(rig)) == (code, after)
    for line in (
        f"1. node {NODE}: change the annotation {CORDON} from '1, GCU-of-last-year' to '1'",
        f"2. node {OTHER}: remove {ENFLAME.count_resource} (1) from the capacity",
        f"4. node {OTHER}: remove the annotation {INVENTORY}",
    ):
        assert line in answer.err
    assert answer.out.count("done: ") == (4 if code == 0 else 0)
    assert answer.out.endswith(")\n")


async def test_no_variable_asks_for_changes_or_agrees_to_them(rig: DoctorRig) -> None:
    leave_things_behind(rig)
    answer = await rig.run(GCUSHARE_FIX="true", GCUSHARE_YES="true")
    assert (answer.code, leftovers(rig)) == (3, BEHIND)
    asked = await rig.run("--fix", GCUSHARE_YES="true")
    assert (asked.code, leftovers(rig)) == (1, BEHIND)


async def test_what_pods_still_hold_is_not_offered_for_repair(rig: DoctorRig) -> None:
    leave_things_behind(rig)
    rig.put_asking("holder", 4, node=OTHER, record=record(0, 4))
    answer = await rig.examine("--fix", "--yes")
    assert answer.code == 3
    assert leftovers(rig) == {**BEHIND, "cordon": "1"}
    assert "records of 1 pod are still here, such as default/holder" in answer.finding("stale-inventory")["problem"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        pytest.param(("--yes",), "yes has a meaning only with fix", id="yes to nothing"),
        pytest.param(("-o", "json", "--fix"), "cannot ask", id="a question in a document"),
        pytest.param(("--extender-service", "extender"), "NAMESPACE/NAME", id="half a Service"),
        pytest.param(("--scheduler-config", "/nowhere/config.yaml"), "/nowhere/config.yaml", id="no such file"),
        pytest.param(("--nodes", "n1"), "--node", id="a flag misspelt"),
    ],
)
async def test_wrong_settings_are_refused_by_name(rig: DoctorRig, argv: tuple[str, ...], words: str) -> None:
    answer = await rig.run(*argv)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err
