"""Pods that do not use their cards, through the real plugin: Event, annotation, status, metrics, and evictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gcushare.node.over_use.idle_settings import IdleAction
from gcushare.wire.annotations import IDLE_SINCE, WHEN_IDLE
from tests.protocol.over_use_rig import OverUseRig


def idle_rig(proc: Path, action: IdleAction = IdleAction.EVICT, **plugin: Any) -> OverUseRig:
    """Pods are idle after a second, and are evicted a second after the annotation."""
    times = {"idle_after": 1.0, "idle_least_age": 0.0, "over_use_pause": 0.5}
    return OverUseRig(proc, **{"idle": action, **times, **plugin})


async def start_idle(rig: OverUseRig) -> None:
    """One pod, on a card whose library lists processes and has none."""
    await rig.run("idle", 4, controller="ReplicaSet web-1")
    rig.use()


async def start_pods(rig: OverUseRig) -> None:
    """One that computes, an idle one of a Deployment, an idle one that nothing creates again, and one that stays."""
    rig.bind("busy", 4, controller="ReplicaSet web-1")
    rig.bind("idle", 4, controller="ReplicaSet web-1")
    rig.bind("bare", 4)
    rig.bind("kept", 4, controller="ReplicaSet web-1", annotations={WHEN_IDLE: "keep"})
    await rig.until_recorded("busy", "idle", "bare", "kept")
    rig.use(busy=1)


def annotated(rig: OverUseRig, name: str) -> bool:
    return rig.annotation(name, IDLE_SINCE) is not None


@pytest.mark.slow
@pytest.mark.parametrize("action", [IdleAction.REPORT, IdleAction.EVICT])
async def test_an_idle_pod_is_reported_and_with_evict_ended_after_its_notice(
    tmp_path: Path, action: IdleAction
) -> None:
    async with idle_rig(tmp_path / "proc", action) as rig:
        await start_pods(rig)
        await rig.until(lambda: annotated(rig, "bare") and annotated(rig, "kept"), "the annotations")
        if action is IdleAction.EVICT:
            await rig.until(lambda: not rig.is_here("idle"), "the eviction")
            assert (await rig.event("IdleEvicted")).startswith("evicted: no process of it was on a card")
        await rig.polls(10)
        assert rig.is_here("busy")
        assert rig.annotation("busy", IDLE_SINCE) is None
        status = await rig.status()
        since = {pod["pod"]: pod["idleSince"] for pod in status["pods"]}
        assert since["default/busy"] == ""
        assert since["default/bare"] == rig.annotation("bare", IDLE_SINCE)
        outlook = status["idle"]["outlook"]
        assert "no controller" in outlook["default/bare"]
        assert "its author keeps it" in outlook["default/kept"]
        figures = await rig.figures()
        assert figures.sum("gcushare_pod_idle_seconds", pod_name="bare") >= 1
        assert figures.sum("gcushare_pod_idle_seconds", pod_name="busy") == 0
        if action is IdleAction.REPORT:
            assert outlook["default/idle"] == "nothing follows; --idle evict would evict it"
            assert len(rig.events("Idle")) == 3
            assert all(rig.is_here(name) for name in ("idle", "bare", "kept"))
        else:
            assert figures.sum("gcushare_plugin_idle_evictions_total", outcome="evicted") == 1
            assert rig.is_here("bare")
            assert rig.is_here("kept")


@pytest.mark.slow
async def test_a_disruption_budget_keeps_an_idle_pod_and_the_status_says_so(tmp_path: Path) -> None:
    async with idle_rig(tmp_path / "proc") as rig:
        rig.put_budget()
        await start_idle(rig)
        await rig.event("IdleEvictionRefused")
        assert rig.is_here("idle")
        await rig.polls(2)
        assert "refused a moment ago" in (await rig.status())["idle"]["outlook"]["default/idle"]


@pytest.mark.slow
async def test_a_dry_run_evicts_no_idle_pod_and_says_that_it_would(tmp_path: Path) -> None:
    async with idle_rig(tmp_path / "proc", dry_run=True) as rig:
        await start_idle(rig)
        await rig.until(lambda: annotated(rig, "idle"), "the annotation")
        await rig.polls(10)
        assert rig.is_here("idle")
        assert (await rig.status())["idle"]["outlook"]["default/idle"].endswith("--idle evict would evict it")
