"""The values file of docs/manual.md, rendered.

The commands and values of other pages are tried on a real control plane: ``e2e/test_one_card.py`` and
``e2e/test_managed_clusters.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.charts import EXTENDER_CHART, Object, Rendering, needs_helm, of_kind, render
from tests.pages import page_text

pytestmark = needs_helm

MANUAL = Rendering(values=page_text("manual.md", "# manual"))


def ports(objects: Sequence[Object]) -> list[list[int]]:
    return [[port["port"] for port in service["spec"]["ports"]] for service in of_kind(objects, "Service")]


def arguments(objects: Sequence[Object], kind: str) -> list[str]:
    (found,) = of_kind(objects, kind)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return [*container.get("command", []), *container.get("args", [])]


def test_there_is_one_service_with_the_manuals_port_alone() -> None:
    assert ports(render(EXTENDER_CHART, MANUAL)) == [[32766]]
    assert ports(render(EXTENDER_CHART)) == [[32766, 32764], [32763]]
    assert ports(render(EXTENDER_CHART, Rendering(sets={"dashboard.access": "off"}))) == [[32766, 32764]]


def test_the_schedulers_files_are_where_the_manual_has_them() -> None:
    # Only files that are elsewhere are printed with the manual's path in brackets.
    assert "--files-dir=/etc/kubernetes" in arguments(render(EXTENDER_CHART, MANUAL), "DaemonSet")


def test_both_programs_log_what_chapter_4_shows() -> None:
    objects = render(EXTENDER_CHART, MANUAL)
    for kind in ("Deployment", "DaemonSet"):
        assert "--log-level=debug" in arguments(objects, kind)
