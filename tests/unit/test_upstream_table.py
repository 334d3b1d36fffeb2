"""The table for programs, where upstream gpushare has no like: several units, cards that are gone, a namespace."""

from __future__ import annotations

import pytest

from gcushare.cli.inspect.upstream_table import details_text, summary_text
from gcushare.cli.kubectl.summary import summarise
from gcushare.cluster.snapshot import ClusterSnapshot, PodFacts
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from tests.builders import card, cards, held, pod
from tests.unit.card_views import give, picture_of


def lines(snapshot: ClusterSnapshot, **options: object) -> list[str]:
    return summary_text(summarise(snapshot, is_finest=True, **options)).splitlines()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("vendor", "units", "label", "rows"),
    [
        (ALIYUN, ("GiB", "MiB"), "MiB", ["4096/16384", "1500/32000"]),
        (ENFLAME, ("1", "0.001"), "0.001GB", ["4000/16000", "1500/32000"]),
    ],
)
def test_nodes_of_several_units_are_counted_in_the_finest_so_that_every_figure_is_a_whole_number(
    vendor: Vendor, units: tuple[str, str], label: str, rows: list[str]
) -> None:
    snapshot = picture_of(("a", [card(0, 16)], units[0]), ("b", [card(0, 32_000)], units[1]), vendor=vendor)
    give(snapshot, held("x", "a", (0, 4)), held("y", "b", (0, 1_500)))
    heading, *shown = lines(snapshot)
    assert heading.endswith(f"Memory({label})")
    assert [line.split()[-1] for line in shown[:2]] == rows


@pytest.mark.parametrize(
    ("vendor", "size", "unit"), [(ALIYUN, 14, "GiB"), (ALIYUN, 14_336, "MiB"), (ENFLAME, 14, "units")]
)
def test_a_unit_that_no_node_says_is_guessed_as_upstream_does_where_upstreams_plugin_may_run(
    vendor: Vendor, size: int, unit: str
) -> None:
    assert lines(picture_of(("a", cards(size, size), ""), vendor=vendor))[0].endswith(f"Memory({unit})")


def test_a_card_that_is_gone_has_a_column_only_where_another_node_has_such_a_card() -> None:
    snapshot = picture_of(("a", cards(16), "1"), vendor=ALIYUN)
    give(snapshot, held("stray", "a", (1, 4)), held("fine", "a", (0, 2)))
    assert lines(snapshot)[1].split() == ["a", "10.0.0.1", "2/16", "2/16"]
    details = details_text(summarise(snapshot)).splitlines()
    assert [line.split()[:3] for line in details[5:8]] == [
        ["fine", "default", "2"],
        ["stray", "default", "0"],
        ["Allocated", ":", "6"],
    ]
    snapshot = picture_of(("a", cards(16), "1"), ("b", cards(16, 16), "1"), vendor=ALIYUN)
    give(snapshot, held("stray", "a", (1, 4)))
    assert lines(snapshot)[1].split()[2:] == ["0/16", "4/0", "4/16"]


def test_a_pod_that_a_node_is_only_kept_free_for_is_not_pending_there() -> None:
    snapshot = picture_of(("a", cards(16), "1"), vendor=ALIYUN)
    ref = pod("next")
    snapshot.pods[ref.uid] = PodFacts(ref=ref, state="Pending", nominated="a", units=5)
    assert "PENDING" not in lines(snapshot)[0]


def test_a_namespace_that_was_asked_for_restricts_the_pods_and_has_its_line_before_the_sum() -> None:
    snapshot = give(picture_of(("a", cards(16), "1"), vendor=ALIYUN), held("mine", "a", (0, 4)))
    assert lines(snapshot, namespace="default")[-3:] == [
        "Allocated to namespace default: 4 GB",
        "Allocated/Total GPU Memory In Cluster:",
        "4/16 (25%)  ",
    ]
    details = details_text(summarise(snapshot, namespace="other"))
    assert "mine" not in details
    assert "Allocated :  4 (25%)" in details
