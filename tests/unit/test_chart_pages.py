"""What pages have people install, rendered: the manual's values file, one card's commands, a managed cluster's values.

The same commands are typed on a real control plane by ``e2e/test_one_card.py`` and ``e2e/test_managed_clusters.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from gcushare.vendors import ALIYUN
from tests.charts import EXTENDER_CHART, ROOT, UMBRELLA_CHART, Object, Rendering, needs_helm, of_kind, render
from tests.pages import commands, page_text

pytestmark = needs_helm

MANUAL = Rendering(values=page_text("manual.md", "# manual"))


def ports(objects: Sequence[Object]) -> list[int]:
    (service,) = of_kind(objects, "Service")
    return [port["port"] for port in service["spec"]["ports"]]


def arguments(objects: Sequence[Object], kind: str) -> list[str]:
    (found,) = of_kind(objects, kind)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return [*container.get("command", []), *container.get("args", [])]


def test_the_service_has_the_manuals_port_alone() -> None:
    assert ports(render(EXTENDER_CHART, MANUAL)) == [32766]
    assert ports(render(EXTENDER_CHART)) == [32766, 32764]


def test_the_schedulers_files_are_where_the_manual_has_them() -> None:
    # Only files that are elsewhere are printed with the manual's path in brackets.
    assert "--files-dir=/etc/kubernetes" in arguments(render(EXTENDER_CHART, MANUAL), "DaemonSet")


def test_both_programs_log_what_chapter_4_shows() -> None:
    objects = render(EXTENDER_CHART, MANUAL)
    for kind in ("Deployment", "DaemonSet"):
        assert "--log-level=debug" in arguments(objects, kind)


def installs(text: str) -> list[tuple[str, Rendering]]:
    """The charts that a block of commands installs, each with its ``--set`` values."""
    lines = text.replace("\\\n", " ").splitlines()
    found = [re.match(r"helm install \S+ +(\S+) (.*)", line) for line in lines]
    sets = [re.findall(r"--set (\S+)", each[2]) for each in found if each is not None]
    values = [dict(pair.split("=") for text in each for pair in text.split(",")) for each in sets]
    return [(each[1], Rendering(sets=given)) for each, given in zip(filter(None, found), values, strict=True)]


@pytest.mark.parametrize(("block", "kind"), [(0, "DaemonSet"), (2, "Deployment")])
def test_one_cards_commands_install_one_half_each_for_nvidia(block: int, kind: str) -> None:
    ((chart, how),) = installs(commands("one-card.md", block))
    objects = render(ROOT / chart, how)
    assert any("--vendor=aliyun" in each for each in arguments(objects, kind))
    if kind == "DaemonSet":
        (found,) = of_kind(objects, kind)
        key, _, value = ALIYUN.node_label.partition("=")
        assert found["spec"]["template"]["spec"]["nodeSelector"][key] == value
        assert f"kubectl label node node-1 {key}={value}" in commands("one-card.md", block)


def test_a_managed_clusters_values_change_no_scheduler_and_bring_the_policies() -> None:
    objects = render(UMBRELLA_CHART, Rendering(values=page_text("managed-clusters.md", "# values")))
    (plugin,) = of_kind(objects, "DaemonSet")
    assert "device-plugin" in plugin["metadata"]["name"], "no config manager"
    assert "--verbs=off" in arguments(objects, "Deployment")
    assert of_kind(objects, "MutatingAdmissionPolicy")
    names = [each["metadata"]["name"] for each in of_kind(objects, "DeviceClass")]
    assert ALIYUN.claims.memory_class in names
