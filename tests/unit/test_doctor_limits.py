"""Doctor's finding about nodes on which memory cannot be limited as an admin wants it."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest

from gcushare.cluster.diagnosis.checks.plugins import check_limits
from gcushare.cluster.diagnosis.facts import Facts, PluginFacts
from gcushare.cluster.programs import SeenPod
from gcushare.vendors import ALIYUN
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS
from tests.protocol.doctor_rig import status

OLDER = "nvmlDeviceGetMemoryLimits_v1 failed: the driver keeps no memory limits of control groups"


def plugin(node: str, driver: str, problem: str, *flags: str) -> PluginFacts:
    container = {"name": "c", "image": "i", "command": ["gcushare-device-plugin"], "args": list(flags)}
    document = {"metadata": {"name": node}, "spec": {"containers": [container], "nodeName": node}}
    said = json.loads(status(driver=driver, problems={"memoryLimit": problem} if problem else {}))
    return PluginFacts(
        pod=msgspec.convert(document, SeenPod), vendor=ALIYUN, status=PLUGIN_STATUS.read(json.dumps(said).encode())
    )


DRIVER = "--memory-limit=driver"


@pytest.mark.parametrize(
    ("plugins", "found"),
    [
        pytest.param([plugin("a", "615.71", "", DRIVER)], [], id="all is well"),
        pytest.param([plugin("a", "550.54", OLDER, DRIVER)], [("node a", "error")], id="it refuses"),
        pytest.param(
            [plugin("a", "550.54", OLDER, DRIVER, "--limit-fallback=unlimited")], [("node a", "warning")], id="open"
        ),
        pytest.param([plugin("a", "550.54", "no daemon", "--memory-limit=mps")], [("node a", "error")], id="mps"),
    ],
)
def test_a_node_that_cannot_limit_memory_is_named(plugins: list[PluginFacts], found: list[tuple[str, str]]) -> None:
    facts = Facts(now=datetime(2026, 1, 2, tzinfo=UTC), plugins=tuple(plugins))
    findings = list(check_limits(facts))
    assert [(each.subject, each.severity.value) for each in findings] == found
    assert all(each.id == "memory-not-limited" and "limitFallback" in each.remedy for each in findings)
    by_mps = "--memory-limit=mps" in plugins[0].pod.spec.containers[0].args
    assert all(("component=mps-daemon --field-selector spec.nodeName=a" in each.remedy) == by_mps for each in findings)
