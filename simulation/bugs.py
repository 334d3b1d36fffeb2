"""Bugs that tests add to a run, to show that each invariant detects them. No program contains them.

Each changes a program that was just built, or an answer of it, in the way in which a careless edit would.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gcushare.device_plugin.pods.annotation_diff import RecordWrite
from gcushare.vendors import ENFLAME

if TYPE_CHECKING:
    from gcushare.core.assignments import Assignment
    from gcushare.device_plugin.app import PluginApp
    from gcushare.scheduler_extender.app import Extender
    from gcushare_playground.kubelet.books import DeviceBooks


class Bug:
    """No bug. Each subclass changes one of these."""

    def plant_in_extender(self, app: Extender) -> None:
        """Change a replica of the extender."""

    def plant_in_plugin(self, app: PluginApp) -> None:
        """Change a plugin."""

    def plant_in_devices(self, devices: DeviceBooks) -> None:
        """Change a kubelet's device manager."""

    def alter(self, path: str, answer: bytes) -> bytes:
        """Change an answer of the extender."""
        return answer


class AppliesOldState(Bug):
    """An older list or event replaces newer state. This once granted a card twice."""

    def plant_in_extender(self, app: Extender) -> None:
        for state in app.states:
            _replace(state.newer_reads, "hides", lambda _pod: False)
            _replace(state.newer_reads, "outlives", lambda _uid, _version: False)


class ForgetsReservations(Bug):
    """The end of a list returns the reservations of bindings under way."""

    def plant_in_extender(self, app: Extender) -> None:
        for state in app.states:
            keep = state.pods_retained

            def forget(uids: frozenset[str], version: str, state: Any = state, keep: Any = keep) -> None:
                keep(uids, version)
                for uid in state.ledger.reserved - uids:
                    state.ledger.forget(uid)
                for uid in state.ledger.reserved:
                    state.ledger.roll_back(uid)

            _replace(state, "pods_retained", forget)


class ForgetsApart(Bug):
    """The group of pods that a bound pod is kept apart from is forgotten once the watch shows the pod."""

    def plant_in_extender(self, app: Extender) -> None:
        for state in app.states:

            def hold(assignment: Assignment, keep: Any = state._hold) -> None:
                keep(replace(assignment, apart=None))

            _replace(state, "_hold", hold)


class LeadsUncurrent(Bug):
    """A new leader serves before it has read what the previous one wrote."""

    def plant_in_extender(self, app: Extender) -> None:
        async def at_once() -> None:
            return

        for cache in (app.watches.nodes, app.watches.pods):
            _replace(cache, "catch_up", at_once)


class LeadsTooLong(Bug):
    """A leader that cannot renew its lease serves for longer than the others wait."""

    def plant_in_extender(self, app: Extender) -> None:
        elector: Any = app.leadership._elector  # type: ignore[attr-defined]
        object.__setattr__(elector._times, "renew_deadline_s", 25.0)


class KeepsTheDead(Bug):
    """Every third deleted pod stays counted."""

    def plant_in_extender(self, app: Extender) -> None:
        for state in app.states:
            lose, calls = state.pod_deleted, iter(range(10**9))

            def forget(uid: str, lose: Any = lose, calls: Any = calls) -> None:
                if next(calls) % 3 != 2:
                    lose(uid)

            _replace(state, "pod_deleted", forget)


class NeverSettles(Bug):
    """Bindings without an answer are never resolved."""

    def plant_in_extender(self, app: Extender) -> None:
        async def confirm(*, older_than_s: float) -> None:
            return

        for each in app.services:
            _replace(each.binds, "confirm", confirm)


class NeverWakes(Bug):
    """Waiting pods are not annotated if room becomes free."""

    def plant_in_extender(self, app: Extender) -> None:
        for each in app.services:
            _replace(each.wakes, "_choose", list)


class RefusesWithoutReasons(Bug):
    """filter refuses nodes without a reason."""

    def alter(self, path: str, answer: bytes) -> bytes:
        is_refusal = path.endswith("/filter") and b'"NodeNames":[]' in answer
        return b'{"NodeNames":[],"FailedNodes":{},"Error":""}' if is_refusal else answer


class RefusesAll(Bug):
    """filter finds no room anywhere."""

    def alter(self, path: str, answer: bytes) -> bytes:
        return b'{"NodeNames":[],"FailedNodes":{"node-0":"no"},"Error":""}' if path.endswith("/filter") else answer


class DiesOfAName(Bug):
    """A pod whose name has a 7 in it ends the program."""

    def plant_in_extender(self, app: Extender) -> None:
        for state in app.states:
            see = state.pod_applied

            def look(pod: Any, see: Any = see) -> None:
                if "7" in pod.metadata.name:
                    raise ValueError(pod.metadata.name)
                see(pod)

            _replace(state, "pod_applied", look)


class NeverCorrects(Bug):
    """The plugin does not correct records to what the kubelet allocated."""

    def plant_in_plugin(self, app: PluginApp) -> None:
        async def write(_pod: object, _annotations: object) -> None:
            return

        _replace(app.observed.reconciler.writer.client, "patch_pod_annotations", write)


class ForgetsInitCards(Bug):
    """Every other look finds that a pod's record should lack the whole cards that only an init container had."""

    def plant_in_plugin(self, app: PluginApp) -> None:
        store, looks = app.observed.store, itertools.count()
        find, key = store.writes, ENFLAME.record.card_index

        def writes(*given: Any) -> list[RecordWrite]:
            several = [each for each in store.entries.values() if len(each.taken_cards) > 1 and next(looks) % 2]
            return find(*given) + [
                RecordWrite(pod=each.ref, annotations={key: str(each.taken_cards[0])}, cards=each.taken_cards[:1])
                for each in several
            ]

        _replace(store, "writes", writes)


class LeaksTasks(Bug):
    """The plugin starts an endless task at each change of a pod."""

    def plant_in_plugin(self, app: PluginApp) -> None:
        agent, kept = app.observed.agent, []
        change = agent.pod_applied

        def changed(pod: Any) -> None:
            change(pod)
            kept.append(asyncio.create_task(asyncio.Event().wait()))

        _replace(agent, "pod_applied", changed)


class StartsUnlimited(Bug):
    """The plugin lets containers start before their pod has its limits."""

    def plant_in_plugin(self, app: PluginApp) -> None:
        async def ensure(*_: object) -> None:
            return

        if app.observed.driver_limits is not None:
            _replace(app.observed.driver_limits, "ensure", ensure)
            _replace(app.observed.driver_limits, "expect", lambda _: None)


class LimitsTwice(Bug):
    """The plugin gives every pod twice the limit."""

    def plant_in_plugin(self, app: PluginApp) -> None:
        if (limits := app.observed.driver_limits) is not None:
            keep = limits._groups.keep
            _replace(limits._groups, "keep", lambda group, card, size, **how: keep(group, card, 2 * size, **how))


class GivesTwice(Bug):
    """The kubelet treats every healthy id as free."""

    def plant_in_devices(self, devices: DeviceBooks) -> None:
        _replace(devices, "free", lambda resource: set(devices.healthy[resource]))


def _replace(of: object, name: str, by: object) -> None:
    """Replace an attribute of a component. Raises AttributeError if there is none, because the bug had no effect."""
    getattr(of, name)
    setattr(of, name, by)


BUGS: dict[str, type[Bug]] = {"": Bug} | {
    re.sub("(?!^)([A-Z])", r" \1", each.__name__).lower(): each for each in Bug.__subclasses__()
}
"""By the words of their names: ``NeverWakes`` is "never wakes"."""
