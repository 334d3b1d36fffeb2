"""What is written on Nodes for Cluster Autoscaler, and why its sums need it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY, SERVES_WHOLE
from gcushare.scheduler_extender.autoscaling import SeenNode, is_held
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import KEPT_MARK, SCALE_DOWN_DISABLED
from tests.extender_objects import a_node, a_pod, on_card, state_of

RESOURCES = (ENFLAME.memory_resource, ENFLAME.whole_card_resource)


def seen(annotations: Mapping[str, str], *, is_ready: bool = True) -> SeenNode:
    return SeenNode(
        is_ready=is_ready,
        disabled=annotations.get(SCALE_DOWN_DISABLED),
        mark=annotations.get(KEPT_MARK),
        taint=None,
        counted=frozenset(),
    )


def written(annotations: Mapping[str, str], *, is_ready: bool = True, **held: bool) -> dict[str, str]:
    """The annotations once an extender of these vendors has written what it plans."""
    changes = seen(annotations, is_ready=is_ready).plan_annotations(held)
    return {key: value for key, value in {**annotations, **changes}.items() if value is not None}


@given(
    st.fixed_dictionaries(
        {},
        optional={
            SCALE_DOWN_DISABLED: st.sampled_from(("true", "false", "")),
            KEPT_MARK: st.sampled_from(("enflame", "aliyun,enflame", "aliyun", "other", "")),
        },
    ),
    st.booleans(),
    st.booleans(),
)
def test_one_write_is_enough_and_only_what_is_ours_changes(
    before: dict[str, str], is_held: bool, is_ready: bool
) -> None:
    after = written(before, enflame=is_held, is_ready=is_ready)
    assert written(after, enflame=is_held, is_ready=is_ready) == after
    if SCALE_DOWN_DISABLED in before and (KEPT_MARK not in before or before[SCALE_DOWN_DISABLED] != "true"):
        assert after == {SCALE_DOWN_DISABLED: before[SCALE_DOWN_DISABLED]}
    else:
        is_kept = (is_held and is_ready) or "aliyun" in before.get(KEPT_MARK, "")
        assert (after.get(SCALE_DOWN_DISABLED) == "true") == is_kept
        assert (KEPT_MARK in after) == (SCALE_DOWN_DISABLED in after)


@given(st.lists(st.tuples(st.sampled_from(("enflame", "aliyun")), st.booleans(), st.booleans())))
def test_two_extenders_with_a_vendor_each_agree_on_a_node(steps: list[tuple[str, bool, bool]]) -> None:
    """Each writes when what it knows changes; what the other one keeps stays, in whatever order they write."""
    annotations: dict[str, str] = {}
    known = {"enflame": False, "aliyun": False}
    for name, holds, is_ready in steps:
        known[name] = holds and is_ready
        annotations = written(annotations, is_ready=is_ready, **{name: holds})
        keeping = sorted(each for each, keeps in known.items() if keeps)
        ours = {SCALE_DOWN_DISABLED: "true", KEPT_MARK: ",".join(keeping)}
        assert annotations == (ours if keeping else {})
        assert written(annotations, **{name: known[name]}) == annotations, "it has nothing more to write"


@pytest.mark.parametrize(
    ("modes", "counted", "offers"),
    [
        ((SERVES_MEMORY,), {ENFLAME.memory_resource}, True),
        ((SERVES_MEMORY,), {ENFLAME.whole_card_resource}, False),
        ((SERVES_WHOLE,), {ENFLAME.whole_card_resource}, True),
        ((SERVES_MEMORY, SERVES_WHOLE), set(), False),
        ((SERVES_CLAIMS,), set(), True),
    ],
)
def test_cards_are_offered_when_the_kubelet_counts_them_or_as_claims(
    modes: tuple[str, ...], counted: set[str], offers: bool
) -> None:
    state = state_of(a_node("a", 16, modes=modes))
    found = SeenNode(is_ready=True, disabled=None, mark=None, taint=0, counted=frozenset(counted))
    assert found.offers(state.ledger.nodes["a"], ENFLAME) is offers


def test_a_node_is_held_by_its_pods_alone_and_no_longer_once_its_cards_are_unknown() -> None:
    state = state_of(a_node("a", 16), a_node("b", 16))
    state.pod_applied(a_pod("one", 10, node="a", record=on_card(0, 10)))
    assert [is_held(state.ledger.nodes.get(name)) for name in ("a", "b", "gone")] == [True, False, False]
    state.node_deleted("a")
    assert not is_held(state.ledger.nodes.get("a"))


def removable(nodes: Mapping[str, Mapping[str, str]], held: Mapping[str, list[int]], units: int) -> list[str]:
    """The nodes that Cluster Autoscaler would empty, as it decides: by sums. ``units`` is what each node has.

    A node with the annotation is left out. Another one goes if its pods fit, one after the other, into the sums of what
    the others have free; cards do not count.
    """

    def can_move(name: str) -> bool:
        free = {other: units - sum(held.get(other, ())) for other in nodes if other != name}
        for asked in held.get(name, ()):
            place = next((other for other, left in free.items() if left >= asked), None)
            if place is None:
                return False
            free[place] -= asked
        return True

    return [
        name for name, annotations in nodes.items() if annotations.get(SCALE_DOWN_DISABLED) != "true" and can_move(name)
    ]


def test_a_pod_that_fits_elsewhere_by_sum_and_on_no_card_keeps_its_node_and_idle_nodes_go() -> None:
    """Three nodes of two cards of 16, five pods of 10: the fifth fits the 12 that another node has free, as 6 + 6."""
    held = {"first": [10, 10], "second": [10, 10], "third": [10]}
    pods = [
        a_pod(f"{name}-{index}", units, node=name, record=on_card(index, units))
        for name, of in held.items()
        for index, units in enumerate(of)
    ]
    names = [*held, "idle"]
    state = state_of(*(a_node(name, 16, 16) for name in names))
    for each in pods:
        state.pod_applied(each)
    bare: dict[str, dict[str, str]] = {name: {} for name in names}
    assert removable(bare, held, 32) == names
    assert removable({name: {} for name in held}, held, 32) == [*held], "each pod fits by sum, and no card has 10 free"
    noted = {name: written({}, enflame=is_held(state.ledger.nodes.get(name))) for name in names}
    assert removable(noted, held, 32) == ["idle"]
