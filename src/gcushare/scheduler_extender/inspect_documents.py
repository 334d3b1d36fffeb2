"""inspect: the documents of nodes, cards and their pods; of all nodes or one, once or as a stream of changes.

A document of 5,000 nodes has megabytes. It is written node by node and yields to other requests in between, so that a
curl never delays the scheduler. Each node is consistent; the whole document is not of one instant.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from gcushare.core.errors import NotFoundError
from gcushare.core.nodes import NodeState
from gcushare.scheduler_extender.cooperative_yield import join_in_pieces
from gcushare.scheduler_extender.leadership import Serving
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.documents.inspect import CLOSING, OPENING, encode_node

_GONE_AFTER_S = 5.0
"""How often the connection of a quiet reader is checked."""

WATCH_PAUSE_S = 0.1
"""Several changes of a node within this time are sent as one."""


class InspectService:
    """Describes one vendor's nodes."""

    def __init__(self, state: VendorState) -> None:
        self._state = state
        self._wake = asyncio.Event()
        state.ledger.listen(lambda _: self._wake.set())

    def require(self, name: str) -> None:
        """Check that a node is known.

        Raises:
            NotFoundError: the node does not exist, or has no cards of this vendor.
        """
        node = self._state.ledger.nodes.get(name)
        if node is None or not node.known:
            raise NotFoundError(
                f"node {name!r} has no {self._state.vendor.device_word} cards that the scheduler extender knows of"
            )

    def document(self, node_name: str | None = None) -> AsyncGenerator[bytes, None]:
        """Write the document in pieces: all nodes by name, or one node."""
        names = self._names() if node_name is None else [node_name]
        found = filter(None, map(self._state.ledger.nodes.get, names))
        return join_in_pieces(OPENING, (encode_node(self._state.vendor, node) for node in found if node.known), CLOSING)

    async def watch(self, serving: Serving, node_name: str | None = None) -> AsyncGenerator[bytes, None]:
        """Write one JSON line per node (ADDED), then one line per change, until serving ends.

        A slow reader gets fewer lines, not a longer queue: a node that changed twice is sent once. Empty pieces come
        from time to time, even if no line does, so that the sender finds out whether the reader is gone.
        """
        position = self._state.changes.position
        known: set[str] = set()
        changed = set(self._names())
        while not serving.stopping.is_set():
            for name in sorted(changed):
                if (node_name is None or name == node_name) and (line := self._line(name, known)):
                    yield line
                    await asyncio.sleep(0)
            yield b""
            if not await serving.wait_for(self._wait_past(position), _GONE_AFTER_S):
                changed.clear()
                continue
            await asyncio.sleep(WATCH_PAUSE_S)
            named = self._state.changes.since(position)
            position = self._state.changes.position
            changed = set(self._names()) | known if named is None else named

    async def _wait_past(self, position: int) -> None:
        while self._state.changes.position == position:
            self._wake.clear()
            await self._wake.wait()

    def _line(self, name: str, known: set[str]) -> bytes | None:
        """The line of a node that changed; None if the reader does not know the node and it is gone."""
        node = self._state.ledger.nodes.get(name)
        if node is None or not node.known:
            if name not in known:
                return None
            known.discard(name)
            return b'{"type":"DELETED","object":%b}\n' % encode_node(self._state.vendor, NodeState(name))
        word = b"MODIFIED" if name in known else b"ADDED"
        known.add(name)
        return b'{"type":"%b","object":%b}\n' % (word, encode_node(self._state.vendor, node))

    def _names(self) -> list[str]:
        return sorted(name for name, node in self._state.ledger.nodes.items() if node.known)
