"""The extender's watches of nodes, pods and claims."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from gcushare.cluster.watch_handlers import ClaimHandler, NodeHandler, PodHandler
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import NODES, PODS, RESOURCE_CLAIMS
from gcushare.scheduler_extender.extender_settings import FollowSettings
from gcushare.wire.dra.claims import RESOURCE_CLAIM
from gcushare.wire.objects import NODE, POD, Node, Pod


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

    async def wait_complete(self) -> None:
        """Wait until the claims are read too, if a node serves any and the API server has them (Kubernetes 1.34)."""
        await self.wait_synced()
        if self._serves_claims.is_set():
            await self.claims.answered.wait()
