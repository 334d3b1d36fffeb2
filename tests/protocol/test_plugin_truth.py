"""What stands in the pods' records after bad days of the kubelet, and pods that are taken for what they are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from gcushare.core.cards import Closure
from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.device_plugin.reporting.resources import describe
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS
from gcushare_playground.apiserver.faults import Delay, FailBefore, Fault
from gcushare_playground.kubelet.faults import PodResourcesMode
from tests.api_objects import an_object, merge_into
from tests.e2e.assets import machine_address
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import RESOURCE, WHOLE, PluginRig, backwards


async def bind_equal_pods(rig: PluginRig) -> list[str]:
    """Four equal pods on two cards, admitted in the order in which the plugin does not expect."""
    names = [f"p{number}" for number in range(4)]
    rig.kubelet.faults.admission_open.clear()
    for number, name in enumerate(names):
        rig.bind(name, 4, card=number // 2)
    await rig.kubelet.gather_pods(4)
    rig.kubelet.faults.admission_open.set()
    return names


async def until_true(rig: PluginRig, names: Sequence[str]) -> None:
    await rig.until_recorded(*names)
    await rig.until(
        lambda: all(rig.record(name)[0] == rig.visible(name) for name in names),
        f"records that are true: {[(rig.record(name), rig.visible(name)) for name in names]}",
    )


@pytest.mark.parametrize("podresources", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["none", "hangs"])
async def test_where_podresources_does_not_answer_the_checkpoint_makes_the_records_true(*, podresources: bool) -> None:
    async with PluginRig(order=backwards, podresources=podresources) as rig:
        rig.kubelet.faults.podresources = PodResourcesMode.HANG
        await until_true(rig, await bind_equal_pods(rig))
        assert rig.problem("kubeletRecord") == ""


async def test_a_checkpoint_that_is_no_json_is_named_in_readiness() -> None:
    async with PluginRig(podresources=False, plugin_first=False) as rig:
        (rig.root / "device-plugins" / "kubelet_internal_checkpoint").write_text("{broken")
        await rig.start_plugin()
        await rig.until(lambda: "kubelet_internal_checkpoint cannot be read" in rig.problem("kubeletRecord"), "why")
        await rig.until_units(128)
        await rig.run("a", 4, card=2)
        await rig.until(lambda: rig.problem("kubeletRecord") == "", "the kubelet has written a good one")


async def test_while_the_api_server_is_away_pods_already_seen_get_their_cards_and_records_follow() -> None:
    async with PluginRig() as rig:
        rig.kubelet.faults.admission_open.clear()
        rig.bind("a", 4, card=6)
        rig.bind("b", 2, card=7)
        await rig.kubelet.gather_pods(2)
        await rig.until(lambda: len(rig.app.observed.store.entries) == 2, "the plugin knows both")
        await rig.api.stop()
        rig.kubelet.faults.admission_open.set()
        await rig.until(lambda: rig.app.observed.reconciler.writer.failed_writes > 0, "writes that fail")
        await rig.until(lambda: (rig.visible("a"), rig.visible("b")) == ("6", "7"), "both run on their cards")
        await rig.api.start()
        await rig.until_recorded("a", "b")
        await rig.until(lambda: rig.problem("node") == "", "the node is written")


@pytest.mark.parametrize("caller", ["of its own machine", "of the network"])
async def test_uids_of_pods_are_told_to_callers_of_the_same_machine_alone(caller: str) -> None:
    address = "127.0.0.1" if caller == "of its own machine" else machine_address()
    async with PluginRig(plugin={"listen_address": address}) as rig:
        await rig.run("a", 4, card=1)
        answer = (await rig.get("/status"))[1]
        (pod,) = PLUGIN_STATUS.read(answer).pods
        assert (pod.pod, pod.cards) == ("default/a", (1,))
        uid = rig.uid("a")
        assert (pod.uid, uid in answer) == ((uid, True) if caller == "of its own machine" else ("", False))


PODS_LIST = r"^/api/v1/pods"
BOTH = {"mode": GrantMode.BOTH}
SOON_S = 5.0
"""Less than the time in which an unchanged record would be looked at or written again by itself."""


@pytest.mark.slow
async def test_a_list_of_pods_that_is_late_after_a_restart_puts_no_pod_on_another_pods_card() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        await rig.run("a", 4, card=0)
        await rig.stop_plugin()
        late = rig.api.faults.on(Fault(Delay(0.5), path=PODS_LIST, method="GET"))
        await rig.start_plugin()
        await rig.until_units(32)
        assert late.hits, "the list was late"
        assert "a" in {entry.ref.name for entry in rig.app.observed.store.entries.values()}, "and was waited for"
        await rig.run("b", 4, 12, card=1)
        assert (rig.record("a"), rig.record("b")) == (("0", "true"), ("1", "true"))
        assert (rig.visible("b", "c0"), rig.visible("b", "c1")) == ("1", "1")


async def test_a_start_without_the_api_server_is_bounded_and_pods_that_come_late_are_known_for_what_they_are() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        await rig.run("a", 4, card=0)
        await rig.stop_plugin()
        away = rig.api.faults.on(Fault(FailBefore(503, "ServiceUnavailable", "away"), path=PODS_LIST, method="GET"))
        await rig.start_plugin()
        rig.app.facts_timeout_s = 0.2
        await rig.until_units(32)
        store = rig.app.observed.store
        assert (away.hits > 0, len(store.entries), set(store.cards_in_use(whole=False))) == (True, 0, {0})
        rig.kubelet.faults.admission_open.clear()
        rig.bind("b", 4, 12, card=1)
        rig.api.faults.off(away)
        await rig.until(lambda: len(store.entries) == 2, "the plugin knows both")
        assert ([each.pod.name for each in store.candidates()], store.promised()) == (["b"], {1: 16})
        rig.kubelet.faults.admission_open.set()
        await rig.until_recorded("b")
        assert (rig.visible("b", "c0"), rig.visible("b", "c1")) == ("1", "1")


@pytest.mark.slow
async def test_what_somebody_writes_on_a_running_pod_is_put_right_and_hides_nothing() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        await rig.run("a", 4, card=0)
        await rig.until(lambda: rig.app.observed.store.writes({}, {}, 0) == [], "the watch has shown the record")
        merge_into(rig.api, "Pod", "a", {"metadata": {"annotations": {"enflame.com/gcu-device-id": "zzz"}}})
        assert rig.app.observed.store.held_units() == {0: 4}
        await rig.until(lambda: rig.record("a") == ("0", "true"), "the record is true again", SOON_S)
        await rig.until(lambda: rig.app.observed.store.unreadable == (), "the plugin reads it")
        assert "'zzz' is not a whole number" in await rig.event("RecordRepaired")


@pytest.mark.slow
async def test_a_card_that_was_closed_for_a_pod_deleted_by_force_stays_closed_over_a_restart() -> None:
    async with PluginRig(cards=(16, 16), plugin=BOTH, termination_s=60.0) as rig:
        put(rig, "a", {RESOURCE: "4"}, {"terminationGracePeriodSeconds": 600})
        await rig.until_recorded("a")
        rig.kubelet.faults.podresources = PodResourcesMode.FORGET
        uid = rig.uid("a")
        (held,) = rig.held_cards("a")
        await rig.delete("a", force=True)

        def closed() -> tuple[Closure, ...]:
            return rig.published().cards[int(held)].closures

        await rig.until(lambda: closed() and closed()[0].until, "the node says until when")
        before = closed()[0]
        await rig.stop_plugin()
        await rig.start_plugin()
        await rig.until_allocatable(WHOLE, 1)
        await rig.until(lambda: closed() and closed()[0].until, "the node says it again")
        assert closed()[0].pod == before.pod == "default/a"
        assert abs(closed()[0].until - before.until) <= 10, "its time does not begin again"
        rig.bind_whole("w", cards=held)
        await rig.until(lambda: rig.pod("w")["status"].get("phase") in ("Running", "Failed"), "w is decided")
        assert rig.pod("w")["status"]["phase"] == "Failed" or held not in rig.held_cards("w")
        assert rig.kubelet.container_view(uid, "c0") is not None, "the container runs on"


@pytest.mark.slow
async def test_what_no_record_can_tell_is_published_on_the_node_until_it_ends() -> None:
    async with PluginRig(cards=(16, 16), plugin=BOTH) as rig:
        put(rig, "both", {RESOURCE: "12", WHOLE: "1"})
        await rig.until(lambda: rig.pod("both")["status"].get("phase") == "Running", "the kubelet admits it")
        await rig.until(lambda: rig.published().unrecorded, "the node tells of it", 20.0)
        (holder,) = rig.published().unrecorded
        ((shared, units),) = holder.units.items()
        assert (holder.pod, units, set(holder.whole)) == ("default/both", 12, {0, 1} - {shared})
        _, metrics = await rig.get("/metrics")
        figures = [line for line in metrics.splitlines() if line.startswith("gcushare_card_unrecorded_units{")]
        assert [float(line.split()[-1]) for line in sorted(figures)] == [12.0 if n == shared else 16.0 for n in (0, 1)]
        assert sum(card.held_units for card in describe(rig.app.observed).cards) == 28
        await rig.delete("both")
        await rig.until(lambda: not rig.published().unrecorded, "and no more")


def put(rig: PluginRig, name: str, limits: dict[str, str], spec: Mapping[str, object] | None = None) -> None:
    """Put a pod into the API server that its author bound to the node."""
    containers = [{"name": "c0", "image": "x", "resources": {"limits": limits}}]
    rig.api.registry.put(an_object("Pod", name, spec={"nodeName": NODE, "containers": containers, **(spec or {})}))
