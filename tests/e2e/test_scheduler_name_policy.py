"""The policy of docs/install.md that names the second scheduler, on a real API server."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

from gcushare_playground.picture import POD_OBJECTS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installing import kubectl
from tests.e2e.objects import pod
from tests.e2e.waiting import until
from tests.pages import page_text


async def test_a_pod_that_asks_for_memory_and_names_no_scheduler_gets_the_second_one(
    control_plane: ControlPlane,
) -> None:
    path = control_plane.root / "policy.yaml"
    path.write_text(page_text("install.md", "# Set the scheduler of pods"))
    await asyncio.to_thread(kubectl, control_plane, "apply", "-f", str(path))

    async def scheduler_of(name: str, units: int, **spec: Any) -> str:
        made = await control_plane.client.create(POD_OBJECTS, pod(name, units, **spec), namespace="default")
        return str(made["spec"]["schedulerName"])

    tries = count()

    async def missing() -> str:
        found = await scheduler_of(f"try-{next(tries)}", 4)
        return "" if found == "gcushare-scheduler" else f"a pod for {found}"

    await until(missing, "the policy holds")
    assert await scheduler_of("named", 4, schedulerName="other") == "other"
    assert await scheduler_of("asks-for-nothing", 0) == "default-scheduler"
