"""A cluster of the real programs, and what must hold for its pods, read from records, kubelets and containers."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gcushare.core.quantities import parse_count
from gcushare.wire.annotations import PodRecord, decode_record
from gcushare.wire.kubelet.device_ids import cards_of_ids
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from gcushare_playground.cluster import Cluster
from gcushare_playground.commands import port_of
from gcushare_playground.picture import POD_OBJECTS, condition_of, key_of, node_of, phase_of, poll_until
from gcushare_playground.plans import ClusterPlan
from gcushare_playground.processes import Child
from tests.protocol.doctor_rig import SYSTEM, program_pod
from tests.unit.apiserver_objects import memory_pod

CONTAINER = "main"
Pod = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Census:
    """Reads one cluster."""

    cluster: Cluster

    @property
    def pods(self) -> Mapping[str, Pod]:
        return self.cluster.pods.objects

    async def create(self, name: str, units: int) -> None:
        """Create a pod that asks for this much memory."""
        await self.cluster.client.create(POD_OBJECTS, memory_pod(name, units), namespace="default")

    def units_of(self, pod: Pod) -> int:
        """The memory that it asks for."""
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        return parse_count(limits.get(self.cluster.plan.vendor.memory_resource, 0))

    def record_of(self, pod: Pod) -> PodRecord | None:
        return decode_record(self.cluster.plan.vendor, pod["metadata"].get("annotations") or {})

    def is_assigned(self, key: str) -> bool:
        """Whether a pod runs with a record that its node has confirmed."""
        pod = self.pods.get(key)
        record = self.record_of(pod) if pod is not None and phase_of(pod) == "Running" else None
        return record is not None and record.assigned

    def running(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if phase_of(pod) == "Running"]

    def waiting(self) -> list[Pod]:
        return [pod for pod in self.pods.values() if not node_of(pod)]

    def capacity(self) -> dict[tuple[str, int], int]:
        plan = self.cluster.plan
        return {
            (node.name, index): units for node in plan.nodes for index, units in enumerate(plan.units_per_card(node))
        }

    def used_by_records(self) -> Counter[tuple[str, int]]:
        """Units per card, as the annotations of unfinished bound pods say."""
        used: Counter[tuple[str, int]] = Counter()
        for pod in self.pods.values():
            record = self.record_of(pod)
            if node_of(pod) and phase_of(pod) in ("Pending", "Running") and record is not None:
                for card in record.card_indexes:
                    used[node_of(pod), card] += self.units_of(pod)
        return used

    def used_by_kubelets(self) -> Counter[tuple[str, int]]:
        """Units per card, as the ids say that the kubelets gave to running pods."""
        used: Counter[tuple[str, int]] = Counter()
        for pod in self.running():
            for card, units in self.held(pod).items():
                used[node_of(pod), card] += units
        return used

    def held(self, pod: Pod) -> dict[int, int]:
        """The units that the kubelet gave a pod, by card."""
        kubelet, vendor = self.cluster.doubles.kubelets[node_of(pod)], self.cluster.plan.vendor
        return cards_of_ids(kubelet.held_ids(pod["metadata"]["uid"], CONTAINER, vendor.memory_resource))

    def problems(self) -> Iterator[str]:
        """Everything that must not be, in words; nothing when all is well."""
        capacity, used = self.capacity(), self.used_by_records()
        for source, sums in (("records", used), ("kubelets", self.used_by_kubelets())):
            for card, units in sums.items():
                if units > capacity[card]:
                    yield f"{source}: {units} units of {capacity[card]} on card {card}"
        for pod in self.running():
            yield from self._problems_of(pod)
        free = {card: units - used[card] for card, units in capacity.items()}
        for pod in self.waiting():
            if (units := self.units_of(pod)) <= max(free.values()):
                yield f"{pod['metadata']['name']} waits for {units} units, and a card has them: {free}"

    def _problems_of(self, pod: Pod) -> Iterator[str]:
        name, units, record = pod["metadata"]["name"], self.units_of(pod), self.record_of(pod)
        if record is None or not record.assigned:
            yield f"{name} runs, and its record is {record}"
            return
        cards = record.card_indexes
        wanted = dict.fromkeys(cards, units)
        if self.held(pod) != wanted or len(cards) != 1:
            yield f"{name}: record says {wanted}, kubelet gave {self.held(pod)}"
        view = self.cluster.doubles.kubelets[node_of(pod)].container_view(pod["metadata"]["uid"], CONTAINER)
        seen = None if view is None else view.environment.get(self.cluster.plan.vendor.environment.visible)
        if seen != ",".join(map(str, cards)):
            yield f"{name}: record says card {cards}, its container sees {seen}"

    def _is_settled(self, pod: Pod) -> bool:
        match phase_of(pod):
            case "Running":
                return self.is_assigned(key_of(pod))
            case "Succeeded" | "Failed":
                return True
            case _:
                return not node_of(pod) and condition_of(pod, "PodScheduled").get("reason") == "Unschedulable"

    def describe(self) -> str:
        """How far the pods are, for messages."""
        unsettled = [pod for pod in self.pods.values() if not self._is_settled(pod)]
        return f"{len(unsettled)} of {len(self.pods)} pods are not settled, such as {unsettled[:2]}"

    async def wait_quiet(self, count: int) -> None:
        """Wait until this many pods exist, all of them settled and without a problem.

        Looked at again and again, not at changes only: what the kubelets hold is not seen by the watch.
        """

        async def look() -> str | None:
            # Running with a confirmed record, failed, or informed why it has to wait.
            if len(self.pods) != count or not all(map(self._is_settled, self.pods.values())):
                return self.describe()
            return "; ".join(self.problems()) or None

        await poll_until(look, f"{count} pods are settled", deadline_s=180.0)


BIN = Path(sys.executable).parent
"""Where our commands are installed."""
_LISTENING = re.compile(r"\blistening\b.*\burl=(\S+)")


@asynccontextmanager
async def started(plan: ClusterPlan) -> AsyncIterator[Census]:
    """Start a whole cluster; where something goes wrong, its programs' last lines go with the message."""
    async with Cluster(plan) as cluster:
        try:
            await cluster.start_all()
            yield Census(cluster)
        except BaseException as error:
            error.add_note(cluster.describe_programs())
            raise


def listening_url(program: Child) -> str:
    """Where a program listens, by its own log."""
    urls: list[str] = _LISTENING.findall(program.log_file.read_text())
    assert urls, program.describe_tail()
    return urls[-1]


def show_program(census: Census, node: str, name: str, url: str, page_url: str = "") -> None:
    """Show a running program as a cluster shows it: as a pod of its node, with its port."""
    pod = program_pod(f"{name}-1", name, port_of(url), node="", page_port=port_of(page_url))
    pod["metadata"]["labels"]["app"] = name
    del pod["spec"]["nodeName"]
    census.cluster.doubles.api.registry.put(pod)

    def bind(obj: JsonObject) -> JsonObject:
        """Bound with the address that it really has, before the kubelet sees it."""
        return {**obj, "spec": {**obj["spec"], "nodeName": node}, "status": {**obj["status"], "podIP": "127.0.0.1"}}

    census.cluster.doubles.api.registry.rewrite(BY_NAME["pods"], Key(SYSTEM, f"{name}-1"), bind)
