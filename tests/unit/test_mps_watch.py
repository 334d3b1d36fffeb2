"""What the plugin makes of the MPS daemon's answers, as daemons and plugins come and go."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Health, InventoryCard
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.mps.limits import MpsLimiter
from gcushare.node.mps.state import CONTROL, MpsDaemon, MpsFolders
from gcushare.node.mps.watch import AWAITED_POLLS, MpsWatch
from gcushare.node.node_settings import Fallback
from gcushare.vendors import ENFLAME
from tests.unit.node_agent_rig import Heard
from tests.unit.plugin_pods import pod, reconcile, with_annotations

NOW_S = 1_000_000.0


class Answering(MpsDaemon):
    """Answers what a test says, with the files of a real one."""

    problem = ""

    async def find_problem(self) -> str:
        return self.problem


@dataclass
class Node:
    """A plugin on a node whose daemon starts when a test says so."""

    folders: MpsFolders
    store: PodStore = field(default_factory=lambda: PodStore(ENFLAME))
    heard: Heard = field(default_factory=Heard)
    changes: int = 0
    fallback: Fallback = Fallback.REFUSE
    held: dict[str, dict[str, dict[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folders.pipe.mkdir()
        self.start_plugin()

    def start_plugin(self) -> None:
        def note_change() -> None:
            self.changes += 1

        self.daemon = Answering(self.folders)
        self.limiter = MpsLimiter(self.folders, self.fallback)
        self.watch = MpsWatch(self.daemon, self.limiter, self.store, self.heard, note_change)

    def start_daemon(self, at_s: float) -> None:
        file = self.folders.pipe / f"{CONTROL}.pid"
        file.touch()
        os.utime(file, (at_s, at_s))

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


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(MpsFolders(tmp_path))


CARD = InventoryCard(index=0, uuid="u0", memory_bytes=16 << 30, units=16)


@pytest.mark.parametrize("fallback", [Fallback.REFUSE, Fallback.UNLIMITED])
async def test_a_daemon_is_waited_for_at_first_then_missed_and_comes_back(node: Node, fallback: Fallback) -> None:
    node.fallback = fallback
    node.start_plugin()
    node.daemon.problem = "the MPS daemon did not answer in 10s"

    async def poll(count: int) -> tuple[list[str], bool]:
        """The reasons of all Events on the node after so many polls, and whether its cards are open."""
        for _ in range(count):
            await node.watch.poll()
        is_open = node.limiter.close_cards(CardsSnapshot((CARD,))).cards[0].health is Health.HEALTHY
        return [reason for reason, _ in node.heard.node], is_open

    is_open = fallback is Fallback.UNLIMITED
    assert await poll(AWAITED_POLLS - 1) == (["MpsAwaited"], False), "a pod without a limit keeps none"
    assert await poll(2) == (["MpsAwaited", "MpsUnavailable"], is_open)
    assert (node.watch.problem, node.changes) == (node.daemon.problem, 2)
    node.daemon.problem = ""
    assert await poll(3) == (["MpsAwaited", "MpsUnavailable", "MpsAvailable"], True)
    node.daemon.problem = "the MPS daemon does not answer: exit 1"
    assert await poll(1) == (["MpsAwaited", "MpsUnavailable", "MpsAvailable", "MpsUnavailable"], is_open)


async def test_cards_that_mps_cannot_limit_are_named_once_the_daemon_is_not_waited_for(node: Node) -> None:
    node.fallback = Fallback.UNLIMITED
    node.start_plugin()
    node.limiter.close_cards(CardsSnapshot((msgspec.structs.replace(CARD, limit_problem="too old"),)))
    node.daemon.problem = "the MPS daemon does not answer: exit 1"
    await node.watch.poll()
    node.daemon.problem = ""
    await node.watch.poll()
    await node.watch.poll()
    assert [text for reason, text in node.heard.node if reason == "MpsUnavailable"] == [
        "card 0 has no limit of memory: too old; pods start without"
    ]


async def test_pods_of_before_hear_of_a_new_daemon_once_it_answers(node: Node) -> None:
    node.hold("before", NOW_S - 600.0)
    node.start_daemon(NOW_S - 500.0)
    await node.watch.poll()
    assert (node.restart_events(), node.watch.restarts) == ([], 0), "the first daemon is no restart"
    node.hold("after", NOW_S + 3.0)
    node.start_daemon(NOW_S)
    node.daemon.problem = "the MPS daemon does not answer: exit 1"
    await node.watch.poll()
    assert node.restart_events() == []
    node.daemon.problem = ""
    await node.watch.poll()
    await node.watch.poll()
    assert (node.restart_events(), node.watch.restarts) == (["before"], 1)


async def test_what_a_pod_leaves_in_place_of_the_process_id_ends_no_plugin(node: Node) -> None:
    file = node.folders.pipe / f"{CONTROL}.pid"
    file.symlink_to(file.name)
    await node.watch.poll()
    file.unlink()
    node.folders.pipe.rmdir()
    node.folders.pipe.touch()
    await node.watch.poll()
    assert node.watch.problem == ""
