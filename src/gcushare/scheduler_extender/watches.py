"""The extender's watches of nodes, pods and claims, and what passes their objects on to the observers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Protocol

from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.collections import Places
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import NODES, PODS, RESOURCE_CLAIMS
from gcushare.scheduler_extender.extender_settings import FollowSettings
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.dra.claims import RESOURCE_CLAIM, ResourceClaim
from gcushare.wire.objects import NODE, POD, Node, Pod


class NodeObserver(Protocol):
    """An observer of nodes: a vendor's state, or the page's metadata cache."""

    def on_node_update(self, node: Node) -> None:
        """Update a node that was added or changed."""

    def on_node_delete(self, name: str) -> None:
        """Remove a node that is gone."""


class PodObserver(Protocol):
    """An observer of pods."""

    def on_pod_update(self, pod: Pod) -> None:
        """Update a pod that was added or changed."""

    def on_pod_delete(self, uid: str) -> None:
        """Remove a pod that is gone."""

    def on_pod_resync(self, uids: frozenset[str], version: str) -> None:
        """Remove every pod but ``uids``, which are all that existed at ``version``."""


class NodeHandler:
    """Handles nodes. A node with the name of a known one and another uid replaces it."""

    def __init__(self, states: Sequence[NodeObserver]) -> None:
        self._states = states
        self._places = Places()

    def applied(self, obj: Node) -> None:
        self._places.put(obj.metadata)
        for state in self._states:
            state.on_node_update(obj)

    def deleted(self, obj: Node) -> None:
        self._delete(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        for uid in self._places.missing_in(uids):
            self._delete(uid)

    def _delete(self, uid: str) -> None:
        if (name := self._places.drop(uid)) is not None:
            for state in self._states:
                state.on_node_delete(name)


class PodHandler:
    """Handles pods. Pods that ask for no vendor's cards are not stored."""

    def __init__(self, states: Sequence[PodObserver]) -> None:
        self._states = states

    def applied(self, obj: Pod) -> None:
        for state in self._states:
            state.on_pod_update(obj)

    def deleted(self, obj: Pod) -> None:
        for state in self._states:
            state.on_pod_delete(obj.metadata.uid)

    def retained(self, uids: frozenset[str], version: str) -> None:
        for state in self._states:
            state.on_pod_resync(uids, version)


class ClaimHandler:
    """Handles claims. Claims of other drivers are not stored."""

    def __init__(self, states: Sequence[VendorState]) -> None:
        self._states = states

    def applied(self, obj: ResourceClaim) -> None:
        for state in self._states:
            state.on_claim_update(obj)

    def deleted(self, obj: ResourceClaim) -> None:
        for state in self._states:
            state.count_claims(state.claims.remove(obj.metadata.uid))

    def retained(self, uids: frozenset[str], version: str) -> None:
        for state in self._states:
            state.count_claims(state.claims.retain(uids))


class Watches:
    """The watches of nodes and pods, and of claims once a node serves claims. No verb waits for the claims."""

    def __init__(
        self,
        client: KubeClient,
        follow: FollowSettings,
        nodes: NodeHandler,
        pods: PodHandler,
        claims: ClaimHandler,
        serves_claims: asyncio.Event,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        how = ReflectorSettings(page_size=follow.page_size, watch_s=follow.watch_timeout, stall_s=follow.watch_stall)
        self.nodes = Reflector(client, NODES, nodes, decode=NODE.read, settings=how, clock=clock, rng=rng)
        self.pods = Reflector(client, PODS, pods, decode=POD.read, settings=how, clock=clock, rng=rng)
        self.claims = Reflector(
            client, RESOURCE_CLAIMS, claims, decode=RESOURCE_CLAIM.read, settings=how, clock=clock, rng=rng
        )
        self._serves_claims = serves_claims
        self.caches: Mapping[str, Reflector[Node] | Reflector[Pod]] = {"nodes": self.nodes, "pods": self.pods}
        """What every answer depends on, by name."""

    def age_s(self) -> float | None:
        """Seconds since both caches of nodes and pods were proven current; None before the first proof."""
        nodes, pods = self.nodes.age_s, self.pods.age_s
        return None if nodes is None or pods is None else max(nodes, pods)

    async def watch_claims(self) -> None:
        """Watch the claims as soon as a node serves claims."""
        await self._serves_claims.wait()
        await self.claims.run()

    async def wait_synced(self) -> None:
        """Wait until the watch caches of nodes and pods are complete."""
        await self.nodes.synced.wait()
        await self.pods.synced.wait()
