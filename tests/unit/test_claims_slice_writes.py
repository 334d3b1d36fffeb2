"""Which slices are written: only what differs, all of one generation."""

from __future__ import annotations

import msgspec

from gcushare.device_plugin.claims.slice_plan import SlicePlan
from gcushare.device_plugin.claims.slice_publisher import SliceWrites, plan_writes, slice_name
from gcushare.vendors import ENFLAME
from gcushare.wire.dra.slices import MAX_DEVICES, ResourceSlice, SliceSpec
from gcushare.wire.objects import ObjectMeta
from tests.unit.claims_driver_values import NODE, an_inventory

CARDS = an_inventory(*[16] * (MAX_DEVICES + 1))
"""One card more than a slice takes, so that there are two slices."""
ORDER = tuple(range(MAX_DEVICES + 1))
PLAN = SlicePlan(ENFLAME, NODE)
WANTED = {f"s-{number}": spec for number, spec in enumerate(PLAN.build(CARDS, ORDER))}
REORDERED = {f"s-{number}": spec for number, spec in enumerate(PLAN.build(CARDS, ORDER[::-1]))}


def standing(specs: dict[str, SliceSpec], *generations: int) -> dict[str, ResourceSlice]:
    """Slices as the API server has them."""
    found = {}
    for (name, spec), generation in zip(specs.items(), generations, strict=True):
        pool = msgspec.structs.replace(spec.pool, generation=generation)
        metadata = ObjectMeta(name=name, uid=name)
        found[name] = ResourceSlice(metadata=metadata, spec=msgspec.structs.replace(spec, pool=pool))
    return found


def test_slices_that_say_what_they_should_are_left_alone() -> None:
    assert plan_writes(WANTED, standing(WANTED, 3, 3)) == SliceWrites(3)
    assert not plan_writes(WANTED, standing(WANTED, 3, 3))


def test_a_change_of_one_slice_gives_all_of_them_the_next_generation() -> None:
    assert plan_writes(REORDERED, standing(WANTED, 3, 3)) == SliceWrites(4, updates=("s-0", "s-1"))


def test_a_round_of_writes_that_was_cut_off_is_written_again_as_a_newer_one() -> None:
    assert plan_writes(WANTED, standing(WANTED, 4, 3)) == SliceWrites(5, updates=("s-0", "s-1"))


def test_missing_slices_are_created_and_others_deleted() -> None:
    known = standing({"s-0": WANTED["s-0"], "old": WANTED["s-1"]}, 2, 2)
    assert plan_writes(WANTED, known) == SliceWrites(3, creates=("s-1",), updates=("s-0",), deletes=("old",))
    assert plan_writes({}, standing(WANTED, 1, 1)).deletes == ("s-0", "s-1")


def test_after_the_largest_generation_that_there_is_comes_the_first() -> None:
    """Another program wrote it; the API server refuses a larger one, and then nothing could be written any more."""
    known = standing({"foreign": WANTED["s-0"]}, 2**63 - 1)
    assert plan_writes(WANTED, known) == SliceWrites(1, creates=("s-0", "s-1"), deletes=("foreign",))
    assert plan_writes(REORDERED, standing(WANTED, 2**63 - 1, 3)) == SliceWrites(1, updates=("s-0", "s-1"))


def test_names_sort_by_number_and_never_pass_the_limit() -> None:
    names = [slice_name("n" * 253, "enflame.gcushare.io", number) for number in range(12)]
    assert names == sorted(names)
    assert max(map(len, names)) <= 253
    assert slice_name("a" * 200, "d", 0) != slice_name("a" * 201, "d", 0)
    assert slice_name("node-1", "d", 0) == "node-1-d-00"
