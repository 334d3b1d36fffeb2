"""Pods over their grant and idle ones, through the real plugin: Event, annotation, metrics, status, and evictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gcushare.core.over_use.eviction import When
from gcushare.core.units import GIB
from gcushare.node.over_use.idle_settings import IdleAction
from gcushare.node.over_use.over_use_settings import Action
from gcushare.wire.annotations import IDLE_SINCE, MEMORY_LIMIT, OVER_USE, WHEN_IDLE
from gcushare_playground.apiserver.faults import FailBefore, Fault
from tests.builders import present
from tests.protocol.over_use_rig import OverUseRig


def evicting(proc: Path, **plugin: Any) -> OverUseRig:
    return OverUseRig(proc, **{"over_use": Action.EVICT, "over_use_pause": 1.0, **plugin})


async def start_pods(rig: OverUseRig) -> None:
    """One that will use too much, and a neighbour with most of the card."""
    rig.bind("greedy", 4)
    rig.bind("modest", 12)
    await rig.until_recorded("greedy", "modest")


async def test_an_over_use_is_reported_everywhere_while_it_lasts(tmp_path: Path) -> None:
    async with OverUseRig(tmp_path / "proc") as rig:
        await start_pods(rig)
        rig.use(greedy=5, modest=2)
        await rig.event("OverUse")
        assert rig.events("OverUse") == [
            "5.00 GiB of card 0 in use, 4.00 GiB granted: other pods of this card may lack what they were granted"
        ]
        await rig.until_noted("greedy")
        assert present(rig.note("greedy"))["cards"] == {"0": {"used": 5 * GIB, "granted": 4 * GIB}}
        figures = await rig.figures()
        assert figures.sum("gcushare_pod_over_use_bytes", pod_name="greedy", card="0") == GIB
        assert figures.sum("gcushare_pod_over_use_bytes") == GIB
        assert figures.sum("gcushare_plugin_over_uses_total") == 1
        status = await rig.status()
        pods = {pod["pod"]: pod["overUse"] for pod in status["pods"]}
        assert pods["default/greedy"]["0"]["usedBytes"] == 5 * GIB
        assert pods["default/modest"] == {}
        assert status["overUse"]["action"] == "report"

        rig.use(greedy=4, modest=2)
        await rig.until_noted("greedy", noted=False)
        assert [word.split(":")[0] for word in rig.events("OverUseEnded")] == ["within its grant again"]
        figures = await rig.figures()
        assert figures.sum("gcushare_pod_over_use_bytes") == 0
        assert rig.is_here("greedy")
        assert rig.annotation("modest", OVER_USE) is None


@pytest.mark.slow
async def test_a_pod_that_bursts_is_reported_and_evicted_once_a_neighbour_needs_the_memory(tmp_path: Path) -> None:
    async with evicting(tmp_path / "proc") as rig:
        rig.bind("burst", 4, annotations={MEMORY_LIMIT: "12"})
        rig.bind("modest", 4)
        await rig.until_recorded("burst", "modest")
        rig.use(burst=10, modest=1)  # 5 of 16 GiB are free, 3 may still be needed
        await rig.polls(4)
        assert rig.events("OverUse") == []
        assert rig.is_here("burst")
        figures = await rig.figures()
        assert figures.sum("gcushare_pod_memory_limit_bytes", pod_name="burst", card="0") == 12 * GIB
        assert figures.sum("gcushare_pod_memory_limit_bytes") == 12 * GIB
        assert figures.sum("gcushare_pod_memory_granted_bytes", pod_name="burst") == 4 * GIB

        rig.bind("third", 6)  # its grant is in danger before it uses any of it
        await rig.until(lambda: not rig.is_here("burst"), "the eviction")
        assert "limit 12.00 GiB" in rig.events("OverUse")[0]
        assert "short of" in await rig.event("OverUseEvicted")
        assert rig.is_here("modest")
        assert (await rig.figures()).sum("gcushare_plugin_over_use_evictions_total", outcome="evicted") == 1


@pytest.mark.slow
async def test_the_mps_daemons_own_memory_is_no_pods_use_and_its_label_elsewhere_hides_nothing(tmp_path: Path) -> None:
    async with OverUseRig(tmp_path / "proc") as rig:
        rig.run_mps_daemon("default", 2)  # the plugin's own namespace here
        await rig.polls(4)
        figures = await rig.figures()
        assert rig.events("OverUse") == []
        assert figures.sum("gcushare_card_memory_unattributed_bytes", card="0") == 2 * GIB
    async with OverUseRig(tmp_path / "other") as rig:
        rig.run_mps_daemon("kube-system", 2)
        await rig.event("OverUse")


@pytest.mark.slow
async def test_a_plugin_that_starts_again_keeps_the_time_and_posts_no_second_event(tmp_path: Path) -> None:
    async with OverUseRig(tmp_path / "proc") as rig:
        await start_pods(rig)
        rig.use(greedy=5, modest=2)
        await rig.until_noted("greedy")
        note = rig.note("greedy")
        await rig.stop_plugin()
        await rig.start_plugin()
        await rig.until_units(16)
        await rig.polls(4)
        status = await rig.status()
        (over,) = [pod["overUse"]["0"] for pod in status["pods"] if pod["overUse"]]
        assert note is not None
        assert over["since"] == note["since"]
        assert (len(rig.events("OverUse")), rig.note("greedy")) == (1, note)


@pytest.mark.slow
async def test_an_author_who_writes_the_annotation_is_corrected_and_reported_all_the_same(tmp_path: Path) -> None:
    forged = '{"since":"2020-01-01T00:00:00Z","cards":{"0":{"used":1,"granted":9}}}'
    async with OverUseRig(tmp_path / "proc") as rig:
        await rig.polls(3)
        await rig.run("liar", 4, annotations={OVER_USE: forged})
        await rig.until_noted("liar", noted=False)
        rig.use(liar=5)
        await rig.event("OverUse")
        await rig.until_noted("liar")


async def test_what_a_plugin_noted_that_looked_at_processes_is_taken_away_by_one_that_does_not(tmp_path: Path) -> None:
    async with OverUseRig(tmp_path / "proc", pod_use=False) as rig:
        await rig.run("pod", 4, annotations={OVER_USE: "left behind"})
        await rig.until_noted("pod", noted=False)


@pytest.mark.slow
async def test_a_dry_run_evicts_no_pod_and_names_those_it_would_evict(tmp_path: Path) -> None:
    async with evicting(tmp_path / "proc", dry_run=True) as rig:
        await start_pods(rig)
        rig.use(greedy=5, modest=2)
        await rig.event("OverUseWouldEvict")
        status = await rig.status()
        assert status["overUse"]["dryRun"]
        assert status["overUse"]["last"].startswith("would be evicted: it uses 5.00 GiB of card 0")
        await rig.polls(3)
        assert rig.is_here("greedy")
        assert not rig.events("OverUseEvicted")


@pytest.mark.slow
async def test_a_refused_eviction_is_respected_shown_and_not_repeated_at_every_look(tmp_path: Path) -> None:
    async with evicting(tmp_path / "proc") as rig:
        await start_pods(rig)
        rig.put_budget()
        rig.use(greedy=5, modest=2)
        assert "disruption budget" in await rig.event("OverUseEvictionRefused")
        await rig.polls(8)
        assert rig.is_here("greedy")
        status = await rig.status()
        assert "refused a moment ago" in status["overUse"]["passedOver"]["default/greedy"]
        figures = await rig.figures()
        assert figures.sum("gcushare_plugin_over_use_evictions_total", outcome="refused") == 1


async def test_without_the_right_to_evict_the_problem_is_shown(tmp_path: Path) -> None:
    async with evicting(tmp_path / "proc", over_use_when=When.ALWAYS) as rig:
        rig.api.faults.on(Fault(FailBefore(403, "Forbidden", "pods is forbidden"), path="/eviction$"))
        await start_pods(rig)
        rig.use(greedy=5, modest=2)
        await rig.until(lambda: "pods/eviction" in rig.problem("overUse"), "the problem")
        assert rig.is_here("greedy")


# Idle pods


def idle_rig(proc: Path, action: IdleAction = IdleAction.EVICT, **plugin: Any) -> OverUseRig:
    """Pods are idle after a second, and are evicted a second after the annotation."""
    times = {"idle_after": 1.0, "idle_least_age": 0.0, "over_use_pause": 0.5}
    return OverUseRig(proc, **{"idle": action, **times, **plugin})


async def start_idle(rig: OverUseRig) -> None:
    """One pod, on a card whose library lists processes and has none."""
    await rig.run("idle", 4, controller="ReplicaSet web-1")
    rig.use()


async def start_idle_pods(rig: OverUseRig) -> None:
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
        await start_idle_pods(rig)
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
