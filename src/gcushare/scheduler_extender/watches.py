"""The extender's watches: nodes and pods from the start, claims once a node serves them."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import NODES, PODS, RESOURCE_CLAIMS
from gcushare.scheduler_extender.extender_settings import FollowSettings
from gcushare.scheduler_extender.state.watch_handlers import (
    ClaimHandler,
    NodeHandler,
    PodHandler,
)
from gcushare.wire.dra.claims import RESOURCE_CLAIM, ResourceClaim
from gcushare.wire.objects import NODE, POD, Node, Pod


@dataclass(frozen=True, slots=True)
class Watches:
    """The watches. No verb depends on the claims, so nothing waits for them."""

    nodes: Reflector[Node]
    pods: Reflector[Pod]
    claims: Reflector[ResourceClaim]
    serves_claims: asyncio.Event

    async def watch_claims(self) -> None:
        """Watch the claims as soon as a node serves claims."""
        await self.serves_claims.wait()
        await self.claims.run()

    async def wait_synced(self) -> None:
        """Wait until the watch caches of nodes and pods are complete."""
        await self.nodes.synced.wait()
        await self.pods.synced.wait()


def make_watches(
    client: KubeClient,
    follow: FollowSettings,
    nodes: NodeHandler,
    pods: PodHandler,
    claims: ClaimHandler,
    serves_claims: asyncio.Event,
    *,
    clock: Clock,
    rng: random.Random,
) -> Watches:
    """Make the watches with their handlers; nothing is watched before they run, and claims only once one is served."""
    how = ReflectorSettings(page_size=follow.page_size, watch_s=follow.watch_timeout, stall_s=follow.watch_stall)
    return Watches(
        Reflector(client, NODES, nodes, decode=NODE.read, settings=how, clock=clock, rng=rng),
        Reflector(client, PODS, pods, decode=POD.read, settings=how, clock=clock, rng=rng),
        Reflector(client, RESOURCE_CLAIMS, claims, decode=RESOURCE_CLAIM.read, settings=how, clock=clock, rng=rng),
        serves_claims,
    )
