"""Pods that are easily taken for what they are not: seen late, spoilt, deleted by force, or partly hidden."""

from __future__ import annotations

import pytest

from gcushare.device_plugin.planning import Mode
from gcushare.playground.apiserver.faults import Delay, FailBefore, Fault
from gcushare.playground.kubelet.faults import PodResourcesMode
from tests.protocol.plugin_rig import RESOURCE, WHOLE, PluginRig, container
from tests.protocol.test_plugin_cards import CORDON

PODS_LIST = r"^/api/v1/pods"
BOTH = {"mode": Mode.BOTH}
SOON_S = 5.0
"""Less than the time in which an unchanged record would be looked at or written again by itself."""


async def test_a_list_of_pods_that_is_late_after_a_restart_puts_no_pod_on_another_pods_card() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        rig.bind("a", 4, card=0)
        await rig.until_recorded("a")
        await rig.stop_plugin()
        late = rig.api.faults.on(Fault(Delay(0.5), path=PODS_LIST, method="GET"))
        await rig.start_plugin()
        await rig.until_units(32)
        assert late.struck, "the list was late"
        assert "a" in {entry.ref.name for entry in rig.app.observed.book.entries.values()}, "and was waited for"
        rig.bind("b", 4, 12, card=1)
        await rig.until_recorded("b")
        assert (rig.record("a"), rig.record("b")) == (("0", "true"), ("1", "true"))
        assert (rig.visible("b", "c0"), rig.visible("b", "c1")) == ("1", "1")


async def test_a_start_without_the_api_server_is_bounded_and_pods_that_come_late_are_known_for_what_they_are() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        rig.bind("a", 4, card=0)
        await rig.until_recorded("a")
        await rig.stop_plugin()
        away = rig.api.faults.on(Fault(FailBefore(503, "ServiceUnavailable", "away"), path=PODS_LIST, method="GET"))
        await rig.start_plugin()
        rig.app.facts_timeout_s = 0.2
        await rig.until_units(32)
        book = rig.app.observed.book
        assert (away.struck > 0, len(book.entries), set(book.cards_in_use(whole=False))) == (True, 0, {0})
        rig.kubelet.faults.admission_open.clear()
        rig.bind("b", 4, 12, card=1)
        rig.api.faults.off(away)
        await rig.until(lambda: len(book.entries) == 2, "the plugin knows both")
        assert ([each.pod.name for each in book.candidates()], book.promised()) == (["b"], {1: 16})
        rig.kubelet.faults.admission_open.set()
        await rig.until_recorded("b")
        assert (rig.visible("b", "c0"), rig.visible("b", "c1")) == ("1", "1")


async def test_a_running_pod_whose_record_was_broken_and_mended_is_taken_for_no_other() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        rig.bind("a", 4, card=0)
        await rig.until_recorded("a")
        book = rig.app.observed.book
        rig.kubelet.faults.admission_open.clear()
        rig.bind("b", 4, 12, card=1)
        await rig.until(lambda: len(book.entries) == 2, "both are known")
        for value in ("broken", "0"):
            await annotate(rig, "a", value)
        await rig.until(lambda: rig.record("a") == ("0", "true") and not book.unreadable, "mended")
        assert ([each.pod.name for each in book.candidates()], book.promised()) == (["b"], {1: 16})
        rig.kubelet.faults.admission_open.set()
        await rig.until_recorded("b")
        assert (rig.visible("b", "c0"), rig.visible("b", "c1")) == ("1", "1")


async def annotate(rig: PluginRig, name: str, card: str | None) -> None:
    """Write a card on a pod, as ``kubectl annotate`` does."""
    body = {"metadata": {"annotations": {"enflame.com/gcu-device-id": card}}}
    await rig.request("PATCH", f"/api/v1/namespaces/default/pods/{name}", body)


@pytest.mark.parametrize("value", [pytest.param("zzz", id="unreadable"), pytest.param("1", id="another card"), None])
async def test_what_somebody_writes_on_a_running_pod_is_put_right_and_hides_nothing(value: str | None) -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        rig.bind("a", 4, card=0)
        await rig.until_recorded("a")
        await rig.until(lambda: rig.app.observed.book.writes({}, {}, 0) == [], "the watch has shown the record")
        await annotate(rig, "a", value)
        assert rig.app.observed.book.held_units() == {0: 4}
        await rig.until(lambda: rig.record("a") == ("0", "true"), "the record is true again", SOON_S)
        await rig.until(lambda: rig.app.observed.book.unreadable == (), "the plugin reads it")
        if value == "zzz":
            await rig.until(lambda: rig.events("RecordMended"), "an event tells")
            assert "'zzz' is not a whole number" in rig.events("RecordMended")[0]


async def test_a_record_spoilt_while_the_plugin_was_away_is_put_right_by_the_next() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        rig.bind("a", 4, card=1)
        await rig.until_recorded("a")
        await rig.stop_plugin()
        await annotate(rig, "a", "zzz")
        rig.kubelet.faults.podresources = PodResourcesMode.FORGET
        await rig.start_plugin()
        await rig.until_recorded("a")
        await rig.until(lambda: rig.record("a") == ("1", "true"), "the record is true again", SOON_S)


@pytest.mark.parametrize("mode", [PodResourcesMode.ANSWER, PodResourcesMode.FORGET], ids=["shown", "forgotten"])
async def test_a_card_whose_pod_was_deleted_by_force_is_not_given_whole_while_its_container_runs(
    mode: PodResourcesMode,
) -> None:
    async with PluginRig(cards=(16,), plugin=BOTH, termination_s=60.0) as rig:
        rig.bind("a", 4, card=0)
        await rig.until_recorded("a")
        await rig.until_allocatable(WHOLE, 0)
        uid = rig.pod("a")["metadata"]["uid"]
        rig.kubelet.faults.podresources = mode
        await rig.request("DELETE", "/api/v1/namespaces/default/pods/a?gracePeriodSeconds=0")
        await rig.until(lambda: not rig.app.observed.book.entries, "the plugin knows that it is gone")
        looks = rig.app.observed.keeper.counters.checks
        await rig.until(lambda: rig.app.observed.keeper.counters.checks > looks, "the record was read since")
        assert rig.app.observed.book.users_of(0, whole=False) == ["default/a"]
        rig.bind_whole("w", cards="0")
        await rig.until_failed("w")
        assert rig.kubelet.counts()[WHOLE].allocatable == 0
        assert rig.kubelet.container_view(uid, "c0") is not None, "the container runs on"


async def test_ids_of_init_containers_stay_healthy_when_their_card_is_cordoned() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        rig.bind("a", 4, card=0, init=[container("init", 8)])
        await rig.until_recorded("a")
        uid = rig.pod("a")["metadata"]["uid"]
        held = {i for name in ("init", "c0") for i in rig.kubelet.held_ids(uid, name, RESOURCE)}
        assert len(held) == 8
        await rig.annotate_node(CORDON, "0")
        await rig.until_allocatable(RESOURCE, 16 + 8)
        await rig.annotate_node(CORDON, None)
        await rig.until_allocatable(RESOURCE, 32)


async def test_after_a_restart_a_cordoned_card_keeps_every_id_of_init_containers_healthy() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        rig.bind("a", 4, card=0, init=[container("init", 8)])
        await rig.until_recorded("a")
        await rig.annotate_node(CORDON, "0")
        await rig.until_allocatable(RESOURCE, 16 + 8)
        await rig.stop_plugin()
        await rig.start_plugin()
        least = 32

        def closes() -> bool:
            nonlocal least
            count = rig.kubelet.counts().get(RESOURCE)
            if count is None or not count.allocatable:
                return False
            least = min(least, count.allocatable)
            return count.allocatable == 16 + 8

        await rig.until(closes, "the card is closed again but for what is held")
        assert least == 16 + 8
