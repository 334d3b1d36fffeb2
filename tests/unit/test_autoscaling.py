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
    noted = [written({}, enflame=is_held(state.ledger.nodes.get(name))) for name in ("a", "b")]
    assert noted == [{SCALE_DOWN_DISABLED: "true", KEPT_MARK: "enflame"}, {}], "the idle node may go, this one never"
    state.node_deleted("a")
    assert not is_held(state.ledger.nodes.get("a"))
