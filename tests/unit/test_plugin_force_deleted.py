"""Pods whose objects are gone while their containers may run on: whose card is free, and from when on."""

import msgspec
import pytest

from gcushare.core.assignments import PodRef
from gcushare.core.cards import BOTH_MODES, Closure
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.device_plugin.pods.force_deleted import KILL_MARGIN_S, ForceDeletedPod
from gcushare.device_plugin.pods.store import PodStore
from gcushare.device_plugin.pods.unrecorded import closures_of
from gcushare.vendors import ENFLAME
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import device_ids
from gcushare.wire.objects import Pod
from gcushare.wire.pods import has_stopped
from tests.builders import card
from tests.unit.node_agent_rig import World, checkpoint, reconciler_of
from tests.unit.plugin_pods import MEMORY, bound, in_use, pod, reconcile, recorded, store_of, whole_pod

GRACE_S = 30.0
RUNNING: dict[str, object] = {"running": {}}
TERMINATED: dict[str, object] = {"terminated": {"exitCode": 137}}


def state_of(phase: str, *states: object, is_deleted: bool = True) -> Pod:
    """The last state of a pod: its phase and its containers' states."""
    metadata = {"name": "a", "namespace": "d", "uid": "u"}
    if is_deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    statuses = [{"name": f"c{number}", "state": state} for number, state in enumerate(states)]
    document = {"metadata": metadata, "status": {"phase": phase, "containerStatuses": statuses}}
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def gone_store(grace_s: int = 30, *, key: str = "uid-a", deletion_grace_s: int | None = None) -> PodStore:
    """A store whose pod held memory of card 0 and went away without having been seen to end."""
    last = bound("a", {MEMORY: 4}, annotations=recorded(0), terminationGracePeriodSeconds=grace_s)
    metadata = msgspec.structs.replace(last.metadata, deletion_grace_period_seconds=deletion_grace_s)
    store = store_of(msgspec.structs.replace(last, metadata=metadata))
    reconcile(store, {key: {"c0": {0: 4}}})
    store.pod_deleted("uid-a")
    return store


@pytest.mark.parametrize(
    ("last", "stopped"),
    [
        pytest.param(state_of("Succeeded", is_deleted=False), True, id="ended by itself"),
        pytest.param(state_of("Failed", TERMINATED), True, id="asked to end"),
        pytest.param(state_of("Failed", TERMINATED, RUNNING), False, id="a controller took its node for lost"),
        pytest.param(state_of("Failed", {"waiting": {}}, is_deleted=False), True, id="never started"),
        pytest.param(state_of("Running", TERMINATED, TERMINATED), True, id="asked to end, kubelet below 1.27"),
        pytest.param(state_of("Running", TERMINATED, RUNNING), False, id="one container runs on"),
        pytest.param(state_of("Running", RUNNING, is_deleted=False), False, id="deleted by force"),
        pytest.param(state_of("Running", TERMINATED, is_deleted=False), False, id="by force between two restarts"),
        pytest.param(state_of("Pending"), False, id="nothing is known of its containers"),
    ],
)
def test_a_pod_has_stopped_if_its_last_state_says_that_nothing_of_it_runs(last: Pod, stopped: bool) -> None:
    assert has_stopped(last) is stopped


def test_a_pod_deleted_by_force_keeps_its_cards_though_the_kubelet_does_not_show_it_any_more() -> None:
    store = store_of(pod("a", 4, card=0), whole_pod("w", cards="1"))
    reconcile(store, {"d/a": {"c0": {0: 4}}}, {"d/w": {"c0": {1: 1}}})
    assert store.pod_deleted("uid-a")
    assert store.pod_deleted("uid-w")
    reconcile(store, {})
    assert in_use(store) == ({0}, {1})
    assert (store.users_of(0, whole=False), store.users_of(1, whole=True)) == (["d/a"], ["d/w"])


def test_a_pod_that_a_controller_calls_failed_keeps_its_cards_until_its_containers_have_stopped() -> None:
    store = store_of(pod("a", 4), memory={"d/a": {"c0": {0: 4}}})
    for state in (RUNNING, TERMINATED):
        store.pod_applied(msgspec.structs.replace(pod("a", 4), status=state_of("Failed", state).status))
        assert in_use(store) == ({0} if state is RUNNING else set(), set())


def test_a_pod_that_held_nothing_leaves_nothing_behind() -> None:
    store = store_of(pod("a", 4, card=0))
    store.pod_deleted("uid-a")
    assert (store.gone.uids, in_use(store)) == (frozenset(), (set(), set()))


Look = tuple[float, set[str] | None]
"""When the kubelet did not show the pod, and whose processes were seen."""
K = KILL_MARGIN_S
RUNS = {"uid-a"}


@pytest.mark.parametrize(
    ("grace_s", "closed", "opened"),
    [
        pytest.param(30, [(100.0, None), (130.0 + K, None)], (131.0 + K, None), id="since the first look"),
        pytest.param(500, [(0.0, None), (500.0 + K, None)], (501.0 + K, None), id="the time of its own"),
        pytest.param(601, [(0.0, None), (600.0, None)], (601.0 + K, None), id="the limit"),
        pytest.param(2**63 - 1, [(0.0, None), (600.0, None)], (601.0 + K, None), id="the limit, however long it asks"),
        pytest.param(500, [(0.0, RUNS), (K + 1, RUNS), (K + 2, None)], (K + 3, {"uid-b"}), id="its processes' end"),
        pytest.param(500, [(0.0, set()), (K, set())], (K + 1, set()), id="those that may still be starting"),
        pytest.param(30, [(0.0, RUNS), (1_000.0, RUNS), (10_000.0, RUNS)], (10_001.0, None), id="as long as it runs"),
    ],
)
def test_a_card_is_closed_as_long_as_its_gone_pod_may_run(grace_s: int, closed: list[Look], opened: Look) -> None:
    store = gone_store(grace_s)
    for now_s, running in closed:
        store.end_gone((), now_s, running=running)
        assert in_use(store) == ({0}, set())
    store.end_gone((), opened[0], running=opened[1])
    assert in_use(store) == (set(), set()), "a checkpoint may go on naming it"


@pytest.mark.parametrize("key", ["uid-a", "d/a"])
def test_while_the_kubelet_shows_a_pod_it_may_not_have_heard_of_its_deletion_and_no_time_passes(key: str) -> None:
    store = gone_store(key=key)
    for now_s in (0.0, 10_000.0, 20_000.0):
        store.end_gone({key}, now_s)
        assert in_use(store) == ({0}, set())
    reconcile(store, {})
    store.end_gone((), 20_001.0)
    assert in_use(store) == ({0}, set())


def test_the_time_that_its_deletion_gave_a_pod_counts_if_it_was_deleted_by_force_later() -> None:
    store = gone_store(deletion_grace_s=500)
    for now_s in (0.0, 500.0 + K):
        store.end_gone((), now_s)
        assert in_use(store) == ({0}, set())


def test_another_pod_of_the_same_name_does_not_keep_the_cards_of_the_one_before() -> None:
    store = gone_store(key="d/a")
    store.pod_applied(pod("a", 4, card=1, uid="new"))
    reconcile(store, {"d/a": {"c0": {1: 4}}})
    for now_s in (0.0, 1_000.0):
        store.end_gone({"d/a"}, now_s)
    assert in_use(store) == ({1}, set())


def test_a_pod_that_is_here_again_is_not_gone() -> None:
    store = gone_store()
    store.pod_applied(pod("a", 4, card=0, assigned=True))
    assert store.gone.uids == frozenset()
    assert (in_use(store), store.held_units()) == (({0}, set()), {0: 4})


@pytest.mark.parametrize("source", ["podresources", "checkpoint", "none"])
async def test_the_reconciler_counts_the_time_from_the_look_that_does_not_show_the_pod(source: str) -> None:
    world, store = World(), store_of(pod("a", 4, card=0))
    reconciler = reconciler_of(world, store)
    world.hold("a", 0)
    await reconciler.check()
    store.pod_deleted("uid-a")
    await reconciler.check()
    world.now_s += 1_000
    if source == "none":
        world.record = None
    else:
        world.record = KubeletAllocations(source)
        if source == "checkpoint":
            world.record.add("uid-a", "c0", device_ids(device_ids_of_card(0, 4)))
    await reconciler.check()
    assert in_use(store) == ({0}, set())
    world.now_s += GRACE_S + KILL_MARGIN_S + 1
    await reconciler.check()
    assert store.gone.uids == frozenset()
    assert in_use(store) == (set(), set())


@pytest.mark.parametrize("is_answering", [True, False])
async def test_what_only_a_checkpoint_names_as_the_plugin_starts_is_closed_for_a_while(is_answering: bool) -> None:
    shown = checkpoint({"uid-gone": 0, "hash": 1})
    static = KubeletAllocations("podresources", {"d/static": shown.memory["hash"]})
    world, store = World(record=static if is_answering else shown, checkpoint=shown), store_of()
    reconciler = reconciler_of(world, store)
    store.pods_retained(())
    store.gone.restore((), 0.0)
    for closed in ({0, 1}, {0, 1}, {1}):
        await reconciler.check()
        assert (in_use(store), store.held_units()) == ((closed, set()), {1: 4}), "a static pod may have no mirror"
        world.now_s += 30 + KILL_MARGIN_S + 1


def test_a_closed_card_says_to_which_use_for_which_pod_and_until_when() -> None:
    store = gone_store(4_000_000_000)
    assert closures_of(0, store.gone.pods, BOTH_MODES) == (Closure(use="whole", pod="d/a"),), (
        "the kubelet was not asked"
    )
    store.end_gone((), 5.0, wall_s=1_000_000.0)
    (closure,) = closures_of(0, store.gone.pods, BOTH_MODES)
    assert (closure.use, closure.pod, closure.until) == ("whole", "d/a", 1_000_610)
    store.end_gone((), 9.0, wall_s=2_000_000.0)
    assert closures_of(0, store.gone.pods, BOTH_MODES) == (closure,), "a clock that jumps moves nothing"
    assert closures_of(1, store.gone.pods, BOTH_MODES) == ()
    assert closures_of(0, store.gone.pods, ("memory",)) == (), "a node that gives no card whole closes none to that"


def test_a_kubelet_that_shows_a_pod_or_a_process_of_it_makes_the_end_unknown_again() -> None:
    store = gone_store(30)
    unknown = (Closure(use="whole", pod="d/a"),)
    store.end_gone((), 0.0, wall_s=1_000.0)
    assert closures_of(0, store.gone.pods, BOTH_MODES) == (Closure(use="whole", pod="d/a", until=1_040),)
    store.end_gone({"uid-a"}, 1.0, wall_s=1_001.0)
    assert closures_of(0, store.gone.pods, BOTH_MODES) == unknown
    store.end_gone((), 2.0, wall_s=1_002.0)
    store.end_gone((), 3.0, wall_s=1_003.0, running={"uid-a"})
    assert closures_of(0, store.gone.pods, BOTH_MODES) == unknown


def test_a_pod_that_the_kubelet_shows_does_not_keep_another_one_closed() -> None:
    store = store_of(pod("a", 4, card=0), pod("b", 4, card=1), memory={"d/a": {"c0": {0: 4}}, "d/b": {"c0": {1: 4}}})
    store.pods_retained(())
    reconcile(store, {})
    assert [store.users_of(index, whole=False) for index in (0, 1)] == [["d/a"], ["d/b"]]
    for now_s in (0.0, 1_000.0):
        store.end_gone({"uid-a"}, now_s)
    assert in_use(store) == ({0}, set())


def test_each_use_is_closed_by_the_pod_that_may_run_longest_and_an_unknown_end_is_last() -> None:
    pods = [
        ForceDeletedPod(PodRef(f"uid-{name}", "d", name), frozenset({0}), is_whole, 30.0, until_s=until_s)
        for name, until_s, is_whole in (("a", 50, True), ("b", 40, True), ("c", 30, False), ("d", 60, False))
    ]
    found = closures_of(0, pods, BOTH_MODES)
    assert found == (Closure(use="memory", pod="d/a", until=50), Closure(use="whole", pod="d/d", until=60))
    unlimited = ForceDeletedPod(PodRef("uid-e", "d", "e"), frozenset({0}), True, 30.0)
    found = closures_of(0, [*pods, unlimited], BOTH_MODES)
    assert found == (Closure(use="whole", pod="d/d", until=60), Closure(use="memory", pod="d/e"))


@pytest.mark.parametrize("running", [None, frozenset[str]()], ids=["no processes known", "processes known"])
def test_what_the_plugin_before_had_closed_stays_closed_for_the_rest_of_its_time(
    running: frozenset[str] | None,
) -> None:
    """Of such a pod only the name is left, so that no process is known to be its own."""
    closures = {
        0: (Closure(use="whole", pod="d/a", until=1_100),),
        1: (Closure(use="whole", pod="d/a", until=1_100), Closure(use="memory", pod="d/w")),
        2: (Closure(use="whole", pod="d/past", until=999),),
    }
    store = PodStore(ENFLAME, longest_wait_s=300.0)
    store.gone.restore([card(index, closures=each) for index, each in closures.items()], 1_000.0)
    assert in_use(store) == ({0, 1}, {1})
    store.end_gone((), 0.0, wall_s=1_000.0, running=running)
    assert closures_of(0, store.gone.pods, BOTH_MODES) == closures[0]
    store.end_gone((), 99.0, wall_s=1_099.0, running=running)
    assert in_use(store) == ({0, 1}, {1})
    store.end_gone((), 101.0, wall_s=1_101.0, running=running)
    assert in_use(store) == (set(), {1}), "an end that is not known is the longest that there may be"
    store.end_gone((), 311.0, wall_s=1_311.0, running=running)
    assert in_use(store) == (set(), set())


def test_an_end_in_a_thousand_years_is_within_the_limit() -> None:
    store = PodStore(ENFLAME, longest_wait_s=300.0)
    store.gone.restore([card(0, closures=(Closure(use="whole", pod="x", until=2**40),))], 1_000.0)
    store.end_gone((), 0.0, wall_s=1_000.0)
    assert [closure.until for closure in closures_of(0, store.gone.pods, BOTH_MODES)] == [1_310]
