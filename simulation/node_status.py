"""What a kubelet says of its Node: the capacity of what plugins offer, a little after it changed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial

from gcushare_playground.apiserver.patches import merge
from gcushare_playground.kubelet.books import ResourceCount
from gcushare_playground.kubelet.statuses import resource_status, zeroed_extended_resources
from simulation.store import Doc, Store

_LONGEST_S = 60.0
"""Between two reports where nothing is due."""


class NodeStatus:
    """The status of one node, for the life of its kubelet. Set ``is_due`` where it may have changed.

    ``count`` says what plugins offer, ``write`` makes a change once the API server answers.
    """

    def __init__(
        self,
        store: Store,
        node: str,
        by: str,
        *,
        count: Callable[[], dict[str, ResourceCount]],
        write: Callable[[Callable[[], object]], Awaitable[None]],
        rng: random.Random,
    ) -> None:
        self._change = partial(store.update, "nodes", ("", node), by=by)
        self._count, self._write, self._rng = count, write, rng
        self.is_due = asyncio.Event()

    def zero(self) -> None:
        """Say that there is nothing, as a kubelet does when it starts."""
        self._change(change=lambda doc: merge(doc, {"status": zeroed_extended_resources(doc)}))

    async def report(self) -> None:
        """Say what there is, again and again."""
        while True:
            try:
                async with asyncio.timeout(_LONGEST_S):
                    await self.is_due.wait()
            except TimeoutError:
                pass
            await asyncio.sleep(0.1 + 2.0 * self._rng.random())
            self.is_due.clear()
            await self._write(partial(self._change, change=partial(_with, counts=self._count())))


def _with(doc: Doc, counts: dict[str, ResourceCount]) -> Doc:
    """A Node with these resources."""
    changed: Doc = merge(doc, {"status": resource_status(doc, {}, counts)})
    return changed
