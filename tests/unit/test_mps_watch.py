"""What the plugin makes of the MPS daemon's state, as time goes by and daemons come and go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from gcushare.device_plugin.mps.limits import MpsLimiter
from gcushare.device_plugin.mps.settings import Fallback
from gcushare.device_plugin.mps.state import FRESH_S, MpsFolders, MpsState, write_state
from gcushare.device_plugin.mps.watch import MpsWatch
from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ENFLAME
from tests.unit.test_plugin_node_agent import Heard

NOW_S = 1_000_000.0


@dataclass
class Node:
    """A plugin on a node whose daemon writes its state when a test says so."""

    folders: MpsFolders
    store: PodStore
    heard: Heard
    watch: MpsWatch
    now_s: float = NOW_S
    changes: int = 0

    def daemon_says(self, state: MpsState) -> None:
        write_state(self.folders, state)
        os.utime(self.folders.state, (self.now_s, self.now_s))


def make_node(folder: Path) -> Node:
    def note_change() -> None:
        node.changes += 1

    store, heard, folders = PodStore(ENFLAME), Heard(), MpsFolders(folder)
    limiter = MpsLimiter(folders, Fallback.REFUSE)
    watch = MpsWatch(folders, limiter, store.entries.values, heard, note_change, wall_clock_s=lambda: node.now_s)
    node = Node(folders, store, heard, watch)
    return node


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        pytest.param("", f"has not been heard of for more than {FRESH_S:g}s", id="a daemon that was well"),
        pytest.param("another MPS control daemon runs", "another MPS control daemon runs", id="one that gave a reason"),
    ],
)
def test_a_daemon_that_stays_silent_is_one_piece_of_news(tmp_path: Path, reason: str, words: str) -> None:
    node = make_node(tmp_path)
    node.daemon_says(MpsState("a", reason))
    node.watch.look()
    node.now_s += FRESH_S + 1
    node.watch.look()
    changes, events = node.changes, len(node.heard.node)
    for _ in range(3):
        node.now_s += 2.0
        node.watch.look()
    assert words in node.watch.problem
    assert (node.changes, len(node.heard.node)) == (changes, events)
