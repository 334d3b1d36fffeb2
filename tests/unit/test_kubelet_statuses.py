"""What the kubelet double writes of its node's resources: what changed, and nothing where only the spelling differs."""

from __future__ import annotations

from gcushare_playground.kubelet.books import ResourceCount
from gcushare_playground.kubelet.statuses import resource_status

UNITS = "enflame.com/gcu-memory"
MACHINE = {"memory": "1024Mi"}


def test_what_the_server_keeps_in_another_spelling_is_not_written_again() -> None:
    kept = {"memory": "1Gi", UNITS: "128k"}
    node = {"status": {"capacity": kept, "allocatable": kept}}

    assert resource_status(node, MACHINE, {UNITS: ResourceCount(128_000, 128_000)}) == {}
    assert resource_status(node, MACHINE, {UNITS: ResourceCount(128_000, 127_999)}) == {
        "allocatable": {UNITS: "127999"}
    }
