"""``gcushare cards``: what a status says of each card and pod, and the tables of it."""

from __future__ import annotations

import json

import msgspec
import pytest

from gcushare.cluster.card_tables import view_lines
from gcushare.cluster.node_view import HolderState, view_status
from gcushare.core.card_state import CardMode
from gcushare.core.cards import Closure, Health, LeftOutCard
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS, PodOverUse, UnreadableStatus
from tests.unit.card_views import NO_OWNERS, busy, card, cards, pod, status, table, use


def test_a_busy_node_at_a_hundred_columns() -> None:
    owners = {4242: "uid-of-train-7", 4243: "uid-of-train-7"}
    shown = """\
node-1; enflame; driver 1.4.2; plugin 1.2.3, plugin.example

CARD  UUID           MODEL  STATE                          GRANTED(GB)  USED(GB)   TEMP  POWER  BUSY
0     GCU-0f4e3c2a…  S60    shared, healthy                9/16         9.1/16.0   61°C  142W   87%
1     GCU-1f4e3c2a…  S60    whole, healthy                 16/16        14.9/16.0  74°C  -      -
2     GCU-2f4e3c2a…  S60    shared, sick: xid 79: the      8/16         -/16.0     -     -      -
                            card has fallen off the bus
3     GCU-3f4e3c2a…  S60    free, healthy, cordoned        0/16         0.0/16.0   33°C  -      -

CARD  POD              GRANTED(GB)  USED(GB)  BUSY  NOTES
0     default/train-7  6            5.7       -     main 4, side 2; pid 4242 (5.5 GB), pid 4243 (0.2
                                                    GB)
0     team-a/infer-0   3            -         -     main 3
0     team-a/infer-1   4            -         -     not admitted yet
0     -                -            -         -     processes, their pod unknown: pid 99 (0.1 GB)
1     team-b/whole-1   16           -         -     the whole card for main
1     -                -            -         -     processes, their pod unknown: pid 5000 (14.0 GB)
2     default/old      8            -         -     main 8
"""
    assert table(cards(busy(), owners=owners), 100) == shown


def test_the_wide_form_has_what_a_card_is_and_how_its_driver_runs_it() -> None:
    read = use(1.5, fan_percent=30, performance_state=2, compute_mode="exclusive-process", ecc=True, mig=False,
               persistence=True, power_limit_watts=250, cuda_version="12.4")  # fmt: skip
    here = card(1, minor=4, use=read, driver_bytes=400 << 20, reserved_units=1)
    shown = table(cards(status(here, pods=(pod("d/a", {1: 3}),))), 100, is_wide=True)
    assert "1 (minor number 4)  GCU-1f4e3c2a…" in shown
    assert "1     GCU-1f4e3c2a-77f0-11ef-9a5b-0242ac120001  S0001   0000:01:00.0  0     0.4         1\n" in shown
    assert "1     30%  P2     on   off  exclusive-process  on           250W         12.4\n" in shown
    assert "main 3; uid uid-of-a\n" in shown


@pytest.mark.parametrize(
    ("unit", "units", "headings"),
    [
        pytest.param("1", 16, "GRANTED(GB)  USED(GB)", id="GB"),
        pytest.param("0.1", 160, "GRANTED(0.1GB)  USED(GB)", id="tenths"),
        pytest.param("MiB", 16384, "GRANTED(MiB)  USED(GiB)", id="MiB"),
        pytest.param("a later one", 16, "GRANTED(units)  USED(GiB)", id="not known here"),
    ],
)
def test_amounts_are_in_the_nodes_own_unit(unit: str, units: int, headings: str) -> None:
    shown = table(cards(status(card(0, units=units, use=use(1.5)), pods=(pod("d/a", {0: 3}),), unit=unit)), 100)
    assert headings in shown
    assert f" 3/{units} " in shown
    assert " 1.5/16.0 " in shown


@pytest.mark.parametrize("width", [None, 20, 80, 81, 400])
@pytest.mark.parametrize("is_wide", [False, True], ids=["table", "wide"])
def test_every_line_fits_the_terminal_and_nothing_is_cut_off(width: int | None, is_wide: bool) -> None:
    reason = "显存校验错误,请联系机房管理员更换这张卡" * 3
    sick = card(0, model="燧原 云燧", health=Health.UNHEALTHY, reason=reason, use=use(9, processes={7: 1 << 30}))
    shown = table(cards(status(sick, pods=(pod("d/" + "a" * 63, {0: 4}),))), width, is_wide=is_wide)
    assert (shown.count("更"), shown.count("云")) == (3, 1)
    assert "…" not in shown.replace("GCU-0f4e3c2a…", "")


def test_escapes_of_others_do_not_reach_the_terminal() -> None:
    over = {0: PodOverUse(used_bytes=2, granted_bytes=1, peak_bytes=2, since="\x1b[2Jyesterday")}
    hostile = pod("a\x07", {0: 4}, containers={"main\x1b[31m": {0: 4}}, over_use=over)
    sick = card(0, model="\x1b[31mT20\n", health=Health.UNHEALTHY, reason="a\tb\x07c")
    lines = view_lines(cards(status(sick, pods=(hostile,), problems={"cdi": "a\x1b[2J"})), 100, is_wide=True)
    assert any("yesterday" in line.plain for line in lines)
    assert all(line.plain.isprintable() for line in lines)


def test_what_has_no_card_and_what_is_wrong_is_reported() -> None:
    closed = Closure(use="whole", pod="d/gone", until=1_800_000_000)
    found = status(
        card(0, held_units=12, unrecorded_units=12, closures=(closed,)),
        pods=(pod("d/waits", units=4), pod("d/whole", units=0, whole=True)),
        problems={"cdi": "the folder is read-only", "cards": "no card was found"},
        left_out=(LeftOutCard(index=7, uuid="GCU-7", reason="MIG is on"),),
        unreadable_pods=(UnreadableStatus(pod="d/broken", reason="'zero' is not a whole number"),),
        modes=("memory", "whole"),
        node_group="gb10",
    )
    lines = [" ".join(line.split()) for line in table(cards(found), None).splitlines()]
    assert lines[0] == (
        "node-1; enflame; group gb10; driver 1.4.2; memory and whole cards; plugin 1.2.3, plugin.example"
    )
    assert lines[1:3] == ["problem of cards: no card was found", "problem of cdi: the folder is read-only"]
    until = "closed to pods that want it whole, until 2027-01-15T08:00:00Z at the latest, for containers of d/gone"
    assert any(f"free, healthy, {until}" in line and " 12/16 " in line for line in lines)
    assert "7 GCU-7 - not shared: MIG is on" in lines
    assert lines[-5:] == [
        "CARD POD GRANTED(GB) USED(GB) BUSY NOTES",
        "0 - 12 - - held by pods that no record names",
        "- d/waits - - - asks for 4, has no card yet",
        "- d/whole - - - asks for whole cards, has no card yet",
        "- d/broken - - - cannot be read: 'zero' is not a whole number",
    ]


def test_a_newer_plugins_fields_are_no_obstacle_and_an_unknown_mode_is_derived() -> None:
    document = json.loads(msgspec.json.encode(status(card(0, mode="of the future"), pods=(pod("d/a", {0: 4}),))))
    document["later"] = {"more": True}
    view = view_status(PLUGIN_STATUS.read(json.dumps(document).encode()), "new", NO_OWNERS)
    assert view.cards[0].mode is CardMode.SHARED


def test_how_far_a_pod_is_decides_what_counts_as_granted() -> None:
    pods = (
        pod("d/holds", {0: 4}),
        pod("d/unconfirmed", {0: 3}, unconfirmed=("main",)),
        pod("d/waits", units=5, cards=(0,), recorded_cards=(0,)),
    )
    found = view_status(status(card(0), pods=pods), "x", NO_OWNERS).cards[0]
    assert [(holder.state, holder.units) for holder in found.holders] == [
        (HolderState.HOLDS, 4),
        (HolderState.UNCONFIRMED, 3),
        (HolderState.WAITS, 5),
    ]
    assert found.granted_units == 7


def test_what_the_plugin_says_of_a_pods_use_counts_before_what_is_found_here() -> None:
    pods = (
        pod("d/a", {0: 4}, used_by_card={0: 5 << 30}),
        pod("d/b", {0: 2}, used_by_card={0: 0}),
        pod("d/c", {1: 2}, used_by_card={0: 7, 1: 0}),
        pod("d/old", {0: 2}),
    )
    seen = status(card(0, use=use(6, processes={4: 9, 5: 3})), card(1), pods=pods)
    first = view_status(seen, "x", {4: "uid-of-a", 5: "uid-of-old"}).cards[0]
    assert [(holder.pod, holder.units, holder.used_bytes) for holder in first.holders] == [
        ("d/a", 4, 5 << 30),
        ("d/b", 2, 0),
        ("d/c", 0, 7),  # uses a card that it does not hold
        ("d/old", 2, 3),
    ]
    assert first.granted_units == 8
    assert "over by 1.0; main 4" in table(cards(seen), None)
