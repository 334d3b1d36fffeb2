"""What the plugin makes of the MPS daemon's state, as time goes by and daemons come and go."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.mps.limits import MpsLimiter
from gcushare.node.mps.state import FRESH_S, MpsFolders, MpsState, MpsStateReader, write_state
from gcushare.node.mps.watch import MpsWatch
from gcushare.node.node_settings import Fallback
from gcushare.vendors import ENFLAME
from tests.unit.node_agent_rig import Heard
from tests.unit.plugin_pods import pod, with_annotations
from tests.unit.plugin_reconcile import reconcile

NOW_S = 1_000_000.0


@dataclass
class Node:
    """A plugin on a node whose daemon writes its state when a test says so."""

    folders: MpsFolders
    store: PodStore
    heard: Heard
    now_s: float = NOW_S
    set_by_s: float = 0.0
    """By how much somebody set the machine's clock."""
    changes: int = 0
    is_known: bool = True
    watch: MpsWatch = field(init=False)
    held: dict[str, dict[str, dict[int, int]]] = field(default_factory=dict)

    def daemon_says(self, state: MpsState) -> None:
        write_state(self.folders, state)
        os.utime(self.folders.state, (self.wall_s, self.wall_s))

    @property
    def wall_s(self) -> float:
        return self.now_s + self.set_by_s

    def hold(self, name: str, since_s: float) -> None:
        """Have a pod hold memory whose cards were chosen then."""
        found = pod(name, 4)
        keys = {"enflame.com/gcu-device-assign-time": str(round(since_s * 1e9))}
        self.store.pod_applied(with_annotations(found, {**found.metadata.annotations, **keys}))
        self.held[f"d/{name}"] = {"c0": {0: 4}}
        reconcile(self.store, self.held)

    def restart_events(self) -> list[str]:
        """The pods that got an Event about a restart."""
        return [name for name, reason, _ in self.heard.pods if reason == "MpsDaemonRestarted"]


def make_node(folder: Path) -> Node:
    def note_change() -> None:
        node.changes += 1

    store, heard, folders = PodStore(ENFLAME), Heard(), MpsFolders(folder)
    node = Node(folders, store, heard)
    limiter = MpsLimiter(folders, Fallback.REFUSE)
    reader = MpsStateReader(folders, clock=lambda: node.now_s, wall_clock_s=lambda: node.wall_s)
    node.watch = MpsWatch(
        reader,
        limiter,
        store,
        heard,
        note_change,
        is_known=lambda: node.is_known,
        wall_clock_s=lambda: node.wall_s,
    )
    return node


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        pytest.param("", f"has reported nothing for more than {FRESH_S:g}s", id="a daemon that was well"),
        pytest.param("another MPS control daemon runs", "another MPS control daemon runs", id="one that gave a reason"),
    ],
)
def test_a_daemon_that_stays_silent_is_one_piece_of_news(tmp_path: Path, reason: str, words: str) -> None:
    node = make_node(tmp_path)
    node.daemon_says(MpsState("a", reason))
    node.watch.poll()
    node.now_s += FRESH_S + 1
    node.watch.poll()
    changes, events = node.changes, len(node.heard.node)
    for _ in range(3):
        node.now_s += 2.0
        node.watch.poll()
    assert words in node.watch.problem
    assert (node.changes, len(node.heard.node)) == (changes, events)


@pytest.mark.parametrize("set_by_s", [3600.0, -3600.0], ids=["forward", "back"])
def test_setting_the_machines_clock_silences_no_daemon(tmp_path: Path, set_by_s: float) -> None:
    node = make_node(tmp_path)
    node.daemon_says(MpsState("a"))
    node.watch.poll()
    node.set_by_s = set_by_s
    node.watch.poll()
    assert node.watch.problem == ""
    node.daemon_says(MpsState("a"))
    node.watch.poll()
    node.now_s += FRESH_S + 1
    node.watch.poll()
    assert "has reported nothing" in node.watch.problem


def test_what_an_old_daemon_left_is_old_at_the_first_look(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    node.daemon_says(MpsState("a"))
    node.now_s += FRESH_S + 1
    node.watch.poll()
    assert "has reported nothing" in node.watch.problem


def test_when_the_plugins_own_pod_is_started_again_the_pods_of_before_hear_of_the_new_daemon(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    node.is_known = False
    node.daemon_says(MpsState("old", started_s=NOW_S - 5000.0, is_restart=True))
    node.watch.poll()
    node.daemon_says(MpsState("new", started_s=NOW_S + 2.0, is_restart=True))
    node.watch.poll()
    node.hold("before", NOW_S - 100.0)
    node.hold("after", NOW_S + 3.0)
    assert node.restart_events() == []
    node.is_known = True
    node.watch.poll()
    node.watch.poll()
    assert (node.restart_events(), node.watch.restarts) == (["before"], 1)


def test_when_the_plugins_container_alone_is_started_again_no_pod_hears_of_its_daemon_twice(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    node.daemon_says(MpsState("a", started_s=NOW_S - 500.0, is_restart=True))
    node.hold("before", NOW_S - 1000.0)
    node.watch.poll()
    assert (node.restart_events(), node.watch.restarts) == ([], 0)
    node.now_s += 100.0
    node.daemon_says(MpsState("b", started_s=node.now_s, is_restart=True))
    node.watch.poll()
    assert (node.restart_events(), node.watch.restarts) == (["before"], 1)


def test_the_first_daemon_of_a_machine_is_no_restart(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    node.hold("before", NOW_S - 100.0)
    node.daemon_says(MpsState("a", started_s=NOW_S))
    node.watch.poll()
    assert (node.restart_events(), node.watch.restarts) == ([], 0)
