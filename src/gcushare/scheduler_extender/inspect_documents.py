"""inspect: the documents of nodes, cards and their pods; of all nodes or one.

A document of 5,000 nodes has megabytes. It is written node by node and yields to other requests in between, so that a
curl never delays the scheduler. Each node is consistent; the whole document is not of one instant.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from gcushare.core.errors import NotFoundError
from gcushare.scheduler_extender.cooperative_yield import join_in_pieces
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.wire.documents.inspect import CLOSING, OPENING, encode_node


class InspectService:
    """Describes one vendor's nodes."""

    def __init__(self, state: VendorState) -> None:
        self._state = state

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

    def _names(self) -> list[str]:
        return sorted(name for name, node in self._state.ledger.nodes.items() if node.known)
