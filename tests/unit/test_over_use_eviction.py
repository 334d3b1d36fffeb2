"""Which pods are evicted for over-use, and which are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gcushare.core.assignments import PodRef
from gcushare.core.over_use.eviction import CardReading, Offender, When, decide
from gcushare.core.over_use.tracking import PolledUse
from gcushare.core.units import GIB
from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ENFLAME
from tests.extender_objects import a_pod, on_card


def offender(name: str = "greedy", used: int = 8, priority: int = 0, card: int = 0) -> Offender:
    figures = PolledUse(used * GIB, 4 * GIB)
    return Offender(PodRef(f"uid-{name}", "default", name, priority=priority), card, figures)


def card_of(*offenders: Offender, memory: int = 16, neighbour: tuple[int, int] = (2, 8), index: int = 0) -> CardReading:
    """A card with these pods and one neighbour that uses some of its grant."""
    used, granted = neighbour
    figures = {each.pod.uid: each.figures for each in offenders} | {"n": PolledUse(used * GIB, granted * GIB)}
    in_use = sum(each.used for each in figures.values())
    return CardReading(index=index, memory=memory * GIB, in_use=in_use, unknown=0, figures=figures)


def test_a_pod_over_its_grant_is_evicted_if_a_neighbours_grant_is_in_danger() -> None:
    greedy = offender(used=9)
    found = decide([greedy], {0: card_of(greedy)}, When.DANGER)  # 11 of 16 in use, 6 granted and unused
    assert found.victim == greedy
    assert "9.00 GiB" in found.reason
    assert "short of 1.00 GiB" in found.reason


def test_without_danger_no_one_is_evicted_unless_the_admin_says_always() -> None:
    greedy = offender(used=8)
    cards = {0: card_of(greedy)}  # 10 of 16 in use, 6 granted and unused: it is just enough
    found = decide([greedy], cards, When.DANGER)
    assert found.victim is None
    assert "still has what its pods were granted" in found.passed_over["default/greedy"]
    assert decide([greedy], cards, When.ALWAYS).victim == greedy


def test_what_is_promised_to_a_pod_that_comes_counts_as_a_neighbours_grant() -> None:
    greedy = offender(used=8)
    card = replace(card_of(greedy), promised=GIB)
    assert decide([greedy], {0: card}, When.DANGER).victim == greedy


def test_the_worst_of_the_lowest_priority_is_first_and_alone() -> None:
    low, worse, high = offender("low", 6), offender("worse", 7), offender("high", 12, priority=1000)
    cards = {0: card_of(low, worse, high, memory=32, neighbour=(0, 16))}
    found = decide([high, low, worse], cards, When.DANGER)
    assert found.victim == worse
    assert set(found.passed_over) == {"default/low", "default/high"}
    assert all("one at a time" in why for why in found.passed_over.values())


@pytest.mark.parametrize(
    ("pattern", "is_exempt"),
    [("default", True), ("def*", True), ("default/greedy", True), ("default/g*", True), ("default/x*", False),
     ("kube-system", False)],
)  # fmt: skip
def test_namespaces_and_pods_can_be_exempt(pattern: str, is_exempt: bool) -> None:
    greedy = offender(used=9)
    found = decide([greedy], {0: card_of(greedy)}, When.DANGER, (pattern,))
    assert (found.victim is None) == is_exempt
    assert ("exempt" in found.passed_over.get("default/greedy", "")) == is_exempt


@pytest.mark.parametrize("when", When)
@pytest.mark.parametrize(
    ("doubtful", "words"),
    [
        pytest.param({"unknown": GIB}, "no known pod", id="unknown processes"),
        pytest.param({"unknown": None}, "not known", id="processes that are not listed"),
        pytest.param({"in_use": None}, "not known", id="no figure of the card"),
        pytest.param({"doubt": "the last poll could not read it"}, "in doubt", id="a stale poll"),
    ],
)
def test_no_one_is_evicted_on_doubtful_figures(doubtful: Any, words: str, when: When) -> None:
    greedy = offender(used=9)
    card = replace(card_of(greedy), **doubtful)
    found = decide([greedy], {0: card}, when)
    assert found.victim is None
    assert words in found.passed_over["default/greedy"]


def test_of_a_card_that_was_not_seen_no_one_is_evicted() -> None:
    assert decide([offender(card=3)], {}, When.ALWAYS).victim is None


def test_while_an_offender_is_ending_whose_memory_suffices_no_one_else_of_the_card_is_evicted() -> None:
    ending, other = replace(offender("ending", 9), ending=True), offender("other", 9)
    elsewhere = offender("elsewhere", 12, card=1)
    cards = {0: card_of(ending, other, memory=20), 1: card_of(elsewhere, index=1)}
    found = decide([ending, other], cards, When.DANGER)
    assert found.victim is None
    assert "being deleted" in found.passed_over["default/other"]
    assert decide([ending, other, elsewhere], cards, When.DANGER).victim == elsewhere


def test_an_offender_that_never_ends_keeps_no_one() -> None:
    stuck, other = replace(offender("stuck", 12), ending=True, is_overdue=True), offender("other", 9)
    assert decide([stuck, other], {0: card_of(stuck, other)}, When.DANGER).victim == other


@pytest.mark.parametrize(
    ("own_s", "given_s", "since_s"),
    [
        pytest.param(3600, 30, 1000.0, id="deleted with less than its own time"),
        pytest.param(0, 3600, 1000.0 - 3600 + 600, id="deleted with more, up to the limit"),
        pytest.param(30, 30, 1000.0, id="deleted with its own"),
    ],
)
def test_when_an_offender_should_have_ended_follows_from_its_deletion(own_s: int, given_s: int, since_s: float) -> None:
    plain = a_pod("a", 4, node="n", record=on_card(0, 4), uid="u")
    metadata = msgspec.structs.replace(
        plain.metadata, deletion_timestamp="1970-01-01T00:16:40Z", deletion_grace_period_seconds=given_s
    )
    spec = msgspec.structs.replace(plain.spec, termination_grace_period_seconds=own_s)
    store = PodStore(ENFLAME)
    store.pod_applied(msgspec.structs.replace(plain, metadata=metadata, spec=spec))
    assert store.entries["u"].overdue_since_s(600.0) == since_s
    store.pod_applied(plain)
    assert store.entries["u"].overdue_since_s(600.0) is None


def test_a_static_pod_and_one_that_was_refused_are_passed_over_for_the_next_worst() -> None:
    static, refused, next_worst = (offender(name, used) for name, used in (("s", 12), ("r", 11), ("n", 9)))
    found = decide(
        [replace(static, is_static=True), replace(refused, refused_lately="refused a moment ago"), next_worst],
        {0: card_of(static, refused, next_worst, memory=32)},
        When.DANGER,
    )
    assert found.victim == next_worst
    assert set(found.passed_over) == {"default/s", "default/r"}


def test_in_a_pause_no_one_is_evicted() -> None:
    greedy = offender(used=9)
    found = decide([greedy], {0: card_of(greedy)}, When.DANGER, pausing="the next in 5s")
    assert (found.victim, dict(found.passed_over)) == (None, {"default/greedy": "the next in 5s"})
