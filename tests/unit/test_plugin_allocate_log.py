"""The one line at info that explains a container's cards: which they are, who else has them, the pod's annotations."""

from __future__ import annotations

import json
import logging
import shlex

import pytest

from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import device_ids
from tests.unit.node_agent_rig import make_rig
from tests.unit.plugin_pods import pod, with_more


async def test_the_line_of_a_grant_explains_its_pod(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gcushare")
    rig = make_rig(mode=GrantMode.BOTH)
    rig.see(16, 16)
    rig.agent.pod_applied(pod("a", 4, card=0))
    rig.hold(a=device_ids_of_card(0, 4))
    rig.agent.pod_applied(with_more(pod("b", 8, card=0), {"example.com/password": "hunter2"}))
    await rig.parts.allocator.allocate(device_ids(device_ids_of_card(0, 16)[4:12]))
    *_, line = (found.getMessage() for found in caplog.records if found.getMessage().startswith("allocated "))
    facts = dict(word.split("=", 1) for word in shlex.split(line.removeprefix("allocated ")))
    old, new = json.loads(facts.pop("old_annotations")), json.loads(facts.pop("new_annotations"))
    assert facts == {
        "pod": "d/b",
        "uid": "uid-b",
        "container": "c0",
        "card": "0",
        "card_uuid": "u0",
        "units": "8",
        "whole": "False",
        "card_pods": "d/a:4",
    }
    assert (old["enflame.com/gcu-device-assigned"], new["enflame.com/gcu-device-assigned"]) == ("false", "true")
    assert "hunter2" not in caplog.text
    rig.hold(a=device_ids_of_card(0, 4), b=device_ids_of_card(0, 16)[4:12])
    (write,) = [
        write for write in rig.parts.store.writes({0: "u0", 1: "u1"}, {0: 16, 1: 16}, 7) if write.pod.name == "b"
    ]
    assert old | dict(write.annotations) == new, "the line says what is written once the kubelet shows the grant"
