"""The tables: upstream's shapes to the letter, marks, units, widths, and nothing that a terminal would obey."""

from __future__ import annotations

import io
from dataclasses import replace

import msgspec
import pytest
from rich.cells import cell_len
from rich.text import Text

from gcushare.cli.inspect.details import detail_page
from gcushare.cli.inspect.table import table_page
from gcushare.cli.inspect.table_documents import document_of
from gcushare.cli.kubectl.flags import SortKey
from gcushare.cli.kubectl.summary import Summary, summarise
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.snapshot import ClusterSnapshot, NodeFacts, PodFacts
from gcushare.core.assignments import Assignment
from gcushare.core.cards import SERVES_WHOLE, Closure
from gcushare.runtime.entry import ProcessContext
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.objects import Pod
from tests.builders import card, cards, held, pod
from tests.extender_objects import a_node, a_pod
from tests.unit.card_views import give, picture_of


def table(snapshot: ClusterSnapshot, width: int | None = None, *, wide: bool = False, **options: object) -> list[str]:
    summary: Summary = summarise(snapshot, **options)  # type: ignore[arg-type]  # keywords of summarise
    return [line.plain for line in table_page(summary, width, is_wide=wide)]


def test_the_table_of_the_published_installation_is_reproduced_to_the_letter() -> None:
    snapshot = picture_of(("192.168.233.101", [card(0, 14)], "GiB"), vendor=ALIYUN)
    snapshot.node_facts["192.168.233.101"] = NodeFacts(name="192.168.233.101", address="192.168.233.101")
    give(snapshot, held("tf", "192.168.233.101", (0, 9)))
    assert table(snapshot) == [
        "NAME             IPADDRESS        GPU0(Allocated/Total)  GPU Memory(GiB)",
        "192.168.233.101  192.168.233.101  9/14                   9/14",
        "--------------------------------------------------------------",
        "Allocated/Total GPU Memory In Cluster:",
        "9/14 (64%) ",
    ]


def test_nodes_of_different_units_are_shown_in_a_common_one_and_marked() -> None:
    snapshot = picture_of(("coarse", [card(0, 16)], "1"), ("fine", [card(0, 32_000)], "0.001"))
    give(snapshot, held("a", "coarse", (0, 4)), held("b", "fine", (0, 1_500)))
    lines = table(snapshot)
    assert lines[0].endswith("GCU Memory(GB)")
    assert lines[1].split() == ["coarse", "10.0.0.1", "4/16", "4/16"]
    assert lines[2].split() == ["fine~", "10.0.0.2", "1.5/32", "1.5/32"]
    assert "~ the node counts in another unit; shown in the heading's" in lines
    assert lines[-1] == "5.5/48 (11%) "


def test_marks_say_what_is_out_of_order_and_only_used_ones_are_explained() -> None:
    offered = [card(0, sick=True), card(1, cordoned=True), card(2), card(3), card(4, 8)]
    snapshot = picture_of(("node-1", offered, "1"))
    give(snapshot, held("whole", "node-1", (2, 16), whole=True), held("over", "node-1", (4, 9)))
    give(snapshot, held("moved", "node-1", (3, 2)), corrected="0->3")
    give(snapshot, held("stray", "node-1", (9, 1)))
    lines = table(snapshot)
    assert lines[1].split()[2:] == ["0/16!", "0/16#", "16/16=", "2/16*", "9/8^", "1/0?", "28/72"]
    legend = [line[0] for line in lines[2:] if line[1:2] == " " and not line[0].isalnum()]
    assert legend == ["!", "#", "=", "?", "^", "*"]
    assert not [line for line in table(picture_of(("calm", [card(0)], "1"))) if line[:2] in ("! ", "# ", "~ ")]


def test_a_card_that_is_closed_to_one_use_is_marked_and_says_for_which_pod_and_until_when() -> None:
    closure = Closure(use=SERVES_WHOLE, pod="d/gone", until=1_800_000_000)
    lines = table(picture_of(("node-1", [msgspec.structs.replace(card(0), closures=(closure,)), card(1)], "1")))
    assert lines[1].split()[2:] == ["0/16:", "0/16", "0/32"]
    reported = "closed to pods that want it whole, until 2027-01-15T08:00:00Z at the latest, for containers of d/gone"
    assert [line for line in lines if line.startswith("closed: node-1 GCU0: ") and reported in line]


def test_pods_without_a_card_have_a_column_of_their_own_and_pods_without_a_node_a_line() -> None:
    snapshot = picture_of(("node-1", [card(0)], "1"), ("node-2", [card(0)], "1"))
    give(snapshot, Assignment(pod("lost"), "node-1", ()))
    snapshot.pods["uid-lost"] = PodFacts(ref=pod("lost"), state="Pending", node="node-1", units=5)
    snapshot.pods["uid-wait"] = PodFacts(ref=pod("wait"), state="Pending", units=7)
    lines = table(snapshot)
    assert "PENDING(Allocated)" in lines[0]
    assert lines[1].split() == ["node-1", "10.0.0.1", "0/16", "5", "0/16"]
    assert lines[2].split() == ["node-2", "10.0.0.2", "0/16", "0", "0/16"]
    assert "pending: 1 pod waits for 7 GB: default/wait (7)" in lines


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_and_every_figure_is_there(width: int) -> None:
    offered = [card(index, 16 + index, model="T20") for index in range(8)]
    snapshot = picture_of(("sse-lab-inspur-048", offered, "1"), ("node-2", cards(16), "1"))
    give(snapshot, held("a", "sse-lab-inspur-048", (5, 3)))
    lines = table(snapshot, width)
    figures = " ".join(lines).split()
    assert all(cell_len(line) <= width for line in lines), lines
    assert all(f"{3 if index == 5 else 0}/{16 + index}" in figures for index in range(8))
    assert "sse-lab-inspur-048" in figures
    assert "node-2" in figures


def test_control_characters_of_a_node_cannot_reach_the_terminal() -> None:
    snapshot = picture_of(("node-1", [card(0, model="T20\x1b[2J\n")], "1"))
    snapshot.node_facts["node-1"] = NodeFacts(name="node-1", address="\x1b[2J10.0.0.1")
    assert "\x1b" not in "".join(table(snapshot, None, wide=True))
    assert "\x1b" not in "".join(line.plain for line in detail_page(summarise(snapshot), None))


@pytest.mark.parametrize(
    ("key", "order"),
    [
        (SortKey.NAME, ["node-2", "node-9", "node-10"]),
        (SortKey.TOTAL, ["node-10", "node-2", "node-9"]),
        (SortKey.ALLOCATED, ["node-9", "node-2", "node-10"]),
        (SortKey.FREE, ["node-10", "node-2", "node-9"]),
        (SortKey.PERCENT, ["node-9", "node-2", "node-10"]),
        (SortKey.PODS, ["node-2", "node-9", "node-10"]),
    ],
)
def test_nodes_are_ordered_as_asked(key: SortKey, order: list[str]) -> None:
    snapshot = picture_of(("node-10", cards(32), "1"), ("node-2", cards(16), "1"), ("node-9", cards(16), "1"))
    give(snapshot, held("a", "node-2", (0, 1)), held("b", "node-2", (0, 1)), held("c", "node-9", (0, 8)))
    assert [line.split()[0] for line in table(snapshot, sort_by=key)[1:4]] == order


def test_details_name_each_pod_with_its_namespace_state_and_cards() -> None:
    snapshot = picture_of(("node-1", cards(16, 16), "1"), ("idle", cards(16), "1"))
    give(snapshot, held("train", "node-1", (0, 4), (1, 6)))
    give(snapshot, held("moved", "node-1", (1, 2)), corrected="0->1", state="CrashLoopBackOff")
    lines = [line.plain for line in detail_page(summarise(snapshot), None)]
    assert lines[:3] == ["NAME:       node-1", "IPADDRESS:  10.0.0.1", ""]
    assert lines[3].split() == ["NAME", "NAMESPACE", "STATE", "GCU0(Allocated)", "GCU1(Allocated)"]
    assert lines[4].split() == ["train", "default", "Running", "4", "6"]
    assert lines[5].split() == ["moved*", "default", "CrashLoopBackOff", "0", "2"]
    assert lines[6].split() == ["(allocated/total)", "4/16", "8/16*"]
    assert lines[7:9] == ["Allocated:  12 (37%)", "Total:      32 GB"]
    assert not any("idle" in line for line in lines)
    assert lines[-1] == "12/48 (25%) "


def test_a_document_of_a_namespace_lists_no_others_pods_that_wait_or_whose_cards_are_unknown() -> None:
    snapshot = ClusterSnapshot(ENFLAME)
    broken = {ENFLAME.record.card_index: "one"}
    theirs = [a_pod("bound", 8, node="n1"), a_pod("broken", 8, node="n1", annotations=broken), a_pod("waits", 8)]
    pods = [a_pod("mine", 2, node="n1"), *(in_another_namespace(each) for each in theirs)]
    snapshot.count([a_node("n1", 16)], pods)
    listed = {}
    for namespace in (None, "default"):
        document = document_of(summarise(snapshot, namespace=namespace))
        listed[namespace] = [[each["name"] for each in document[part]] for part in ("pending", "unplaced")]
        assert document["nodes"][0]["pending"] == 10, "figures are the node's, in every view"
    assert listed == {None: [["waits", "mine", "bound"], ["broken"]], "default": [["mine"], []]}


def in_another_namespace(moved: Pod) -> Pod:
    return msgspec.structs.replace(moved, metadata=msgspec.structs.replace(moved.metadata, namespace="other"))


def test_a_pod_whose_cards_are_unknown_marks_its_node_and_is_named_in_the_details() -> None:
    snapshot = give(picture_of(("node-1", cards(16, 16), "1"), ("node-2", cards(16), "1")), held("a", "node-1", (0, 4)))
    ref = pod("broken")
    snapshot.ledger.apply(Assignment(ref, "node-1", ()))
    snapshot.pods[ref.uid] = PodFacts(ref=ref, state="Running", node="node-1", units=8, problem="its index is 'one'")
    lines = table(snapshot)
    assert lines[1].split() == ["node-1", "10.0.0.1", "4/16", "0/16", "4/32+"]
    assert "+ more is in use: pods here hold cards that are not known" in lines
    assert "1 pod holds cards that are not known, on node-1; -d names them" in lines
    assert not any("pending" in line.lower() for line in lines)

    named = [line.plain for line in detail_page(summarise(snapshot), None)]
    assert ["broken+", "default", "Running", "?", "?"] in [line.split() for line in named]
    assert "default/broken (node-1) holds cards that are not known: its index is 'one'" in named
    assert not any("-d names them" in line for line in named)
    others = [line.plain for line in detail_page(summarise(snapshot, namespace="team-a"), None)]
    assert not any("broken" in line for line in others)


def test_a_cordoned_and_a_tainted_node_are_marked_and_count_as_free_only_for_who_may_use_them() -> None:
    snapshot = picture_of(*((name, cards(16), "1") for name in ("cordoned", "free", "tainted")))
    facts = snapshot.node_facts
    facts["cordoned"] = replace(facts["cordoned"], is_unschedulable=True)
    facts["tainted"] = replace(facts["tainted"], taints=("gpu=yes:NoSchedule",))
    give(snapshot, held("a", "tainted", (0, 4)))
    lines = table(snapshot, wide=True)
    assert [line.split()[0] for line in lines[1:4]] == ["cordoned#", "free", "tainted%"]
    free = lines[0].index("FREE")
    assert [line[free:].split()[:2] for line in lines[1:4]] == [["0", "0"], ["16", "16"], ["12", "12"]]
    sums = "free: 16 GB for any pod; 12 GB for pods that tolerate the taints of tainted; 16 GB for none, on cordoned"
    assert sums in lines
    assert {"# cordoned by an admin: takes no new pods", "% tainted: takes only pods that tolerate the taint"} <= {
        *lines
    }
    document = document_of(summarise(snapshot))
    assert (document["cluster"]["free"], document["cluster"]["freeIfTolerated"]) == (16, 12)
    assert [node["takesPods"] for node in document["nodes"]] == [False, True, True]
    assert [node["cards"][0]["free"] for node in document["nodes"]] == [0, 16, 12]
    assert not any(line.startswith("free:") for line in table(picture_of(("calm", cards(16), "1"))))


PLAIN, COLOURED = "red  [2J\n", "\x1b[31mred\x1b[0m  [2J\n"


@pytest.mark.parametrize(
    ("environ", "shown"),
    [({}, PLAIN), ({"FORCE_COLOR": "1"}, COLOURED), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, PLAIN)],
)
def test_lines_keep_their_styles_and_nothing_that_a_terminal_would_obey(environ: dict[str, str], shown: str) -> None:
    stdout = io.StringIO()
    Screen(ProcessContext((), environ, stdout, io.StringIO())).print_lines([Text.assemble(("red", "red"), " \x1b[2J")])
    assert stdout.getvalue() == shown
