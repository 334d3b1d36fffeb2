from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare_playground.apiserver.controllers.node_matching import fits
from gcushare_playground.apiserver.controllers.rollouts import ReplicaSetState, Strategy, plan_rollout, read_strategy
from gcushare_playground.apiserver.objects import JsonObject
from tests.unit.apiserver_objects import deployment


def _set(name: str, wanted: int, available: int | None = None) -> ReplicaSetState:
    return ReplicaSetState(name, wanted, wanted if available is None else available, wanted)


@pytest.mark.parametrize(
    ("rolling", "replicas", "expected"),
    [
        ({"maxSurge": "25%", "maxUnavailable": "25%"}, 4, (1, 1)),
        ({"maxSurge": "25%", "maxUnavailable": "25%"}, 1, (1, 0)),
        ({"maxSurge": "25%", "maxUnavailable": "25%"}, 10, (3, 2)),
        ({"maxSurge": 0, "maxUnavailable": "10%"}, 3, (0, 1)),
        ({"maxSurge": 2, "maxUnavailable": 0}, 3, (2, 0)),
    ],
)
def test_percentages_become_pods_surge_up_unavailable_down(
    rolling: JsonObject, replicas: int, expected: tuple[int, int]
) -> None:
    strategy = read_strategy(deployment("web", replicas, strategy={"type": "RollingUpdate", "rollingUpdate": rolling}))
    assert (strategy.surge, strategy.unavailable) == expected


def test_a_first_rollout_creates_all_replicas_at_once() -> None:
    assert plan_rollout(Strategy(3, 1, 0), _set("new", 0), []) == {"new": 3}


def test_recreate_waits_until_every_old_pod_is_gone() -> None:
    strategy = Strategy(2, 0, 2, recreate=True)
    assert plan_rollout(strategy, _set("new", 0), [_set("old", 2)]) == {"new": 0, "old": 0}
    leaving = replace(_set("old", 0), pods=1)
    assert plan_rollout(strategy, _set("new", 0), [leaving]) == {"new": 0, "old": 0}
    assert plan_rollout(strategy, _set("new", 0), [_set("old", 0)]) == {"new": 2, "old": 0}


def test_an_old_set_that_never_worked_is_taken_down_first() -> None:
    plan = plan_rollout(Strategy(2, 1, 1), _set("new", 1, 0), [_set("broken", 1, 0), _set("good", 1)])
    assert plan["broken"] == 0
    assert plan["good"] == 1


@given(
    replicas=st.integers(0, 12),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
    old=st.lists(st.integers(0, 12), max_size=3),
)
def test_a_rollout_of_working_pods_ends_at_the_new_set_and_never_breaks_its_bounds(
    replicas: int, surge: int, unavailable: int, old: list[int]
) -> None:
    strategy = Strategy(replicas, surge, unavailable or (0 if surge else 1))
    wanted = {"new": 0} | {f"old{i}": count for i, count in enumerate(old)}
    started_with = sum(wanted.values())
    for _ in range(200):
        # Every pod that is wanted becomes available before the next step.
        states = {name: _set(name, count) for name, count in wanted.items()}
        plan = plan_rollout(strategy, states["new"], [state for name, state in states.items() if name != "new"])
        available_after = sum(min(wanted[name], plan[name]) for name in plan)
        assert sum(plan.values()) <= max(strategy.replicas + strategy.surge, started_with)
        assert available_after >= min(strategy.replicas - strategy.unavailable, started_with)
        if plan == wanted:
            break
        wanted, started_with = plan, sum(plan.values())
    assert wanted == {"new": replicas} | {f"old{i}": 0 for i in range(len(old))}


NODE: JsonObject = {
    "metadata": {"name": "n1", "labels": {"gpushare": "true"}},
    "spec": {
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"}]
    },
}


def _affinity(**term: object) -> JsonObject:
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


TOLERANT = [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, False, id="taint not tolerated"),
        pytest.param({"tolerations": TOLERANT}, True, id="taint tolerated by value"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, True, id="everything tolerated"),
        pytest.param({"tolerations": [{"key": "k", "value": "other"}]}, False, id="another value"),
        pytest.param(
            {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]}, False, id="other effect"
        ),
        pytest.param({"tolerations": TOLERANT, "nodeSelector": {"gpushare": "true"}}, True, id="selected"),
        pytest.param({"tolerations": TOLERANT, "nodeSelector": {"gpushare": "false"}}, False, id="not selected"),
        pytest.param(
            {
                "tolerations": TOLERANT,
                "affinity": _affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n1"]}]),
            },
            True,
            id="chosen by name",
        ),
        pytest.param(
            {
                "tolerations": TOLERANT,
                "affinity": _affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n2"]}]),
            },
            False,
            id="another one chosen by name",
        ),
        pytest.param({"tolerations": TOLERANT, "affinity": _affinity()}, False, id="an empty term chooses nothing"),
    ],
)
def test_a_pod_fits_where_selector_affinity_and_taints_allow(spec: JsonObject, expected: bool) -> None:
    assert fits(spec, NODE) is expected
