"""The pods, nodes and events of a cluster under test, followed by watches."""

from __future__ import annotations

import asyncio
from typing import Self

from gcushare.kube.client import KubeClient
from gcushare_playground.picture import EVENT_OBJECTS, NODE_OBJECTS, POD_OBJECTS, Picture


class Followed:
    """They are followed within the block."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        kinds = (POD_OBJECTS, NODE_OBJECTS, EVENT_OBJECTS)
        self.pods, self.nodes, self.events = (Picture(client, each) for each in kinds)
        self._followers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._followers = [asyncio.create_task(each.run()) for each in (self.pods, self.nodes, self.events)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for follower in self._followers:
            follower.cancel()
        await asyncio.wait(self._followers)
