"""What can go wrong in the doctor's cluster: each makes it so. Files of findings use it as ``when``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.protocol.doctor_rig import EXTENDER, SERVICE, SYSTEM, DoctorRig, metrics

Scenario = Callable[[DoctorRig], object]


def troubles(*rows: tuple[Scenario, str, str]) -> pytest.MarkDecorator:
    """Cases of a scenario, the severity and the id (``kind``) of what is found, and words of it."""
    return pytest.mark.parametrize(("scenario", "kind", "words"), [pytest.param(*row, id=row[1]) for row in rows])


def labelled(key: str, value: str) -> Scenario:
    return lambda rig: rig.change_node(lambda node: node["metadata"]["labels"].update({key: value}))


def annotated(key: str, value: str) -> Scenario:
    return lambda rig: rig.change_node(lambda node: node["metadata"]["annotations"].update({key: value}))


def saying(**problems: str) -> Scenario:
    """The plugin has these problems."""
    return lambda rig: rig.set_status(problems=problems)


def answering(**figures: int) -> Scenario:
    """The extender has these figures."""
    return lambda rig: rig.extender.pages.update({"/metrics": metrics(**figures)})


def counting(capacity: str | None, allocatable: str = "32") -> Scenario:
    """The kubelet counts so many units."""

    def change(rig: DoctorRig) -> None:
        rig.set_units(capacity)
        rig.set_units(allocatable, "allocatable")

    return change


def without(kind: str, name: str, namespace: str = "") -> Scenario:
    return lambda rig: rig.delete(kind, name, namespace)


def at_once(*scenarios: Scenario) -> Scenario:
    return lambda rig: [scenario(rig) for scenario in scenarios]


def having(pem: bytes) -> Scenario:
    """The extender has this certificate."""
    return lambda rig: rig.mount_certificate(pem)


NO_EXTENDER = at_once(without("pods", EXTENDER, SYSTEM), without("services", SERVICE, SYSTEM))
