"""The cards as lines: every kind of card, every width, and what no one tells."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from gcushare.cluster.card_drawing.draw import LEAST_WIDTH, MOST_WIDTH, PIPE_WIDTH, view_lines
from gcushare.core.cards import Closure, Health, LeftOutCard
from gcushare.wire.documents.plugin_status import PodOverUse, UnreadableStatus
from tests.unit.card_views import busy, card, cards, drawn, pod, status, use

OWNERS = {4242: "uid-of-train-7", 4243: "uid-of-train-7"}


def test_the_group_of_a_node_is_shown_where_it_has_one() -> None:
    (first, *_) = drawn(cards(status(card(0), node_group="gb10")), None)
    assert first.startswith("node-1   enflame   group gb10   driver 1.4.2   unit GB")


def boxes(lines: list[str]) -> list[str]:
    return [line for line in lines if line[0] in "╭│╰"]


def test_a_busy_node_at_eighty_columns() -> None:
    assert drawn(cards(busy(), owners=OWNERS)) == [
        "node-1   enflame   driver 1.4.2   unit GB   plugin 1.2.3, plugin.example",
        "4 cards  1 sick  1 cordoned  1 free, 2 shared, 1 whole  granted 33 of 64 GB",
        "used 24.0 GB  5 pods",
        "╭─ 0  S60  GCU-0f4e3c2a… ──────────────────────────────────── healthy  shared ─╮",
        "│ granted  ▕a███████████████b▓▓▓▓▓▓▓c▒▒▒▒▒▒▒▒▒░░░░░░░░▏       9 of 16 GB   56% │",
        "│ used     ▕███████████████████████▉░░░░░░░░░░░░░░░░░░▏   9.1 of 16.0 GB   56% │",
        "│ temperature 61°C   power 142 W   busy 87%                                    │",
        "│ a default/train-7   6 GB   used 5.7 GB   main 4, side 2                      │",
        "│     pid 4242 (5.5 GB), pid 4243 (0.2 GB)                                     │",
        "│ b team-a/infer-0    3 GB   main 3                                            │",
        "│ c team-a/infer-1    4 GB   not admitted yet                                  │",
        "│ processes, their pod unknown: pid 99 (64 MB)                                 │",
        "╰──────────────────────────────────────────────────────────────────────────────╯",
        "╭─ 1  S60  GCU-1f4e3c2a… ───────────────────────────────────── healthy  whole ─╮",
        "│ granted  ▕a█████████████████████████████████████████▏      16 of 16 GB  100% │",
        "│ used     ▕███████████████████████████████████████░░░▏  14.9 of 16.0 GB   93% │",
        "│ temperature 74°C   power -   busy -                                          │",
        "│ a team-b/whole-1   16 GB   the whole card for main                           │",
        "│ processes, their pod unknown: pid 5000 (14.0 GB)                             │",
        "╰──────────────────────────────────────────────────────────────────────────────╯",
        "╭─ 2  S60  GCU-2f4e3c2a… ─────────────────────────────────────── sick  shared ─╮",
        "│ sick: xid 79: the card has fallen off the bus                                │",
        "│ granted  ▕a████████████████████░░░░░░░░░░░░░░░░░░░░░▏       8 of 16 GB   50% │",
        "│ used     ▕··········································▏     - of 16.0 GB       │",
        "│ temperature -   power -   busy -                                             │",
        "│ a default/old       8 GB   main 8                                            │",
        "╰──────────────────────────────────────────────────────────────────────────────╯",
        "╭─ 3  S60  GCU-3f4e3c2a… ──────────────────────────── healthy  cordoned  free ─╮",
        "│ granted  ▕░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░▏       0 of 16 GB    0% │",
        "│ used     ▕░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░▏  0 MB of 16.0 GB    0% │",
        "│ temperature 33°C   power -   busy -                                          │",
        "╰──────────────────────────────────────────────────────────────────────────────╯",
    ]


@pytest.mark.parametrize(
    ("width", "drawn_at"),
    [(None, PIPE_WIDTH), (20, LEAST_WIDTH), (60, 60), (81, 81), (120, 120), (400, MOST_WIDTH)],
)
@pytest.mark.parametrize("is_wide", [False, True], ids=["table", "wide"])
def test_every_box_is_as_wide_as_the_terminal_within_bounds(width: int | None, drawn_at: int, is_wide: bool) -> None:
    lines = [line.plain for line in view_lines(cards(busy(), owners=OWNERS), width, is_wide=is_wide)]
    assert {cell_len(line) for line in boxes(lines)} == {drawn_at}
    assert max(map(cell_len, lines)) == drawn_at


@pytest.mark.parametrize(
    ("unit", "units", "granted", "used"),
    [
        pytest.param("1", 16, "3 of 16 GB", "1.5 of 16.0 GB", id="GB"),
        pytest.param("0.1", 160, "3 of 160 x 0.1GB", "1.5 of 16.0 GB", id="tenths"),
        pytest.param("MiB", 16384, "3 of 16384 MiB", "1.5 of 16.0 GiB", id="MiB"),
        pytest.param("a later one", 16, "3 of 16 units", "1.5 of 16.0 GiB", id="not known here"),
    ],
)
def test_amounts_are_in_the_nodes_own_unit(unit: str, units: int, granted: str, used: str) -> None:
    lines = drawn(cards(status(card(0, units=units, use=use(1.5)), pods=(pod("d/a", {0: 3}),), unit=unit)))
    assert any(f"  {granted} " in line for line in lines)
    assert any(f"  {used} " in line for line in lines)


def test_chinese_text_keeps_the_frame_straight() -> None:
    long = "显存校验错误,请联系机房管理员更换这张卡" * 3
    lines = drawn(cards(status(card(0, model="燧原 云燧", health=Health.UNHEALTHY, reason=long))), 80)
    assert {cell_len(line) for line in boxes(lines)} == {80}
    assert any("燧原 云燧" in line for line in lines)
    assert "".join(line.strip("│ ") for line in lines if "显存" in line or "机房" in line).count("更换这张卡") == 3


def test_escapes_of_others_do_not_reach_the_terminal() -> None:
    lines = drawn(cards(status(card(0, model="\x1b[31mT20\n", health=Health.UNHEALTHY, reason="a\tb\x07c"))))
    assert not any(char in line for line in lines for char in "\x1b\x07\n\t")


def test_escapes_of_a_pod_do_not_reach_the_terminal() -> None:
    over = {0: PodOverUse(used_bytes=2, granted_bytes=1, peak_bytes=2, since="\x1b[2Jyesterday")}
    hostile = pod("a\x07", {0: 4}, containers={"main\x1b[31m": {0: 4}}, over_use=over)
    lines = drawn(cards(status(card(0), pods=(hostile,))), 120)
    assert any("yesterday" in line for line in lines)
    assert not any(char in line for line in lines for char in "\x1b\x07")


def test_what_has_no_card_and_what_is_wrong_is_reported_below_and_above() -> None:
    found = status(
        card(0),
        pods=(pod("d/waits", units=4), pod("d/whole", units=0, whole=True)),
        problems={"cdi": "the folder is read-only", "cards": "no card was found"},
        left_out=(LeftOutCard(index=7, uuid="GCU-7", reason="MIG is on"),),
        unreadable_pods=(UnreadableStatus(pod="d/broken", reason="'zero' is not a whole number"),),
    )
    lines = drawn(cards(found))
    assert lines[2:4] == ["problem of cards: no card was found", "problem of cdi: the folder is read-only"]
    assert lines[-4:] == [
        "card 7 GCU-7 is not shared: MIG is on",
        "pod d/waits asks for 4 GB and has no card yet",
        "pod d/whole asks for whole cards and has no card yet",
        "pod d/broken cannot be read: 'zero' is not a whole number",
    ]


@pytest.mark.parametrize(
    ("modes", "reported"),
    [(("memory",), ""), ((), ""), (("memory", "whole"), "memory and whole cards"), (("whole",), "whole cards only")],
)
def test_a_node_that_hands_out_whole_cards_says_so(modes: tuple[str, ...], reported: str) -> None:
    head = drawn(cards(status(card(0), modes=modes)), 120)[0]
    assert reported in head
    assert ("whole" in head) is bool(reported)


def test_a_card_that_is_closed_or_held_without_a_record_says_so() -> None:
    closed = Closure(use="whole", pod="d/gone", until=1_800_000_000)
    lines = drawn(cards(status(card(0, held_units=12, unrecorded_units=12, closures=(closed,)))))
    text = " ".join(" ".join(line.strip("│ ") for line in lines).split())
    assert "healthy closed free" in text
    assert "closed to pods that want it whole until 2027-01-15T08:00:00Z at the latest: containers of d/gone" in text
    assert "a 12 GB held by pods that no record names" in text
    assert "12 of 16 GB 75%" in text
