"""The page's data as bytes: a snapshot in pieces, and a stream of changes. Each document is encoded once.

A reader remembers its position in one bounded log of names, so there is no queue per reader. A node that changed ten
times is sent once. A reader that fell too far behind must read the snapshot again.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from gcushare._version import __version__
from gcushare.core.change_log import NameLog
from gcushare.core.nodes import NodeState
from gcushare.scheduler_extender.cooperative_yield import PIECE_BYTES, join_in_pieces
from gcushare.scheduler_extender.dashboard import feed_documents
from gcushare.scheduler_extender.dashboard.feed_documents import ReplicaDocument
from gcushare.scheduler_extender.dashboard.metadata_cache import MetadataCache
from gcushare.scheduler_extender.leadership import Serving
from gcushare.scheduler_extender.state.vendor_state import VendorState

PAUSE_S = 0.2
"""Changes within this time are sent together: five updates a second are what people can follow."""

BEAT_S = 15.0
"""The longest silence: proxies cut connections that are silent for 30 to 60 seconds."""

_NODE, _POD = "n", "p"
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class FeedPosition:
    """A position in one process's log. Readers send it back as ``epoch.position``."""

    epoch: str
    position: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.position}"


def parse_mark(text: str) -> FeedPosition | None:
    """Read a mark; None for other text, which is answered like a mark of another process."""
    found = re.fullmatch(r"([0-9a-f]{8})\.([0-9]{1,18})", text)
    return FeedPosition(found[1], int(found[2])) if found else None


class Feed:
    """The documents of all nodes and waiting pods of the served vendors, with the log of changes."""

    def __init__(self, states: Sequence[VendorState]) -> None:
        self._states = {state.vendor.name: state for state in states}
        self._epoch = secrets.token_hex(4)
        self._log = NameLog()
        self._wake = asyncio.Event()
        self._encoded: dict[str, bytes] = {}
        self.metadata = MetadataCache(states, self._touch_node, lambda uid: self._touch(f"{_POD}/{uid}"))
        for state in states:
            state.ledger.listen(partial(self._on_ledger_change, state.vendor.name))

    def _on_ledger_change(self, vendor: str, node: NodeState) -> None:
        self._touch_node(vendor, node.name)

    def _touch_node(self, vendor: str, name: str) -> None:
        self._touch(f"{_NODE}/{vendor}/{name}")

    def _touch(self, key: str) -> None:
        self._encoded.pop(key, None)
        self._log.record(key)
        self._wake.set()

    @property
    def mark(self) -> FeedPosition:
        """The end of the log."""
        return FeedPosition(self._epoch, self._log.position)

    async def events(
        self,
        mark: FeedPosition | None,
        replica: Callable[[], ReplicaDocument],
        find_refusal: Callable[[], Awaitable[str | None]],
        serving: Serving,
    ) -> AsyncGenerator[bytes, None]:
        """Write the changes after a mark as server-sent events, until serving ends or the reader is refused.

        ``replica`` says who answers: at first, after a change, and as a sign of life.
        """
        sent, sent_at = replica(), time.monotonic()
        yield _event("replica", _encoder.encode(sent))
        while not serving.stopping.is_set():
            changes = None if mark is None else self.changes(mark)
            end = self.mark
            if changes is None:
                # The reader's snapshot is of another process, or too old: on this event it reads a new one.
                yield _event("reset", b"{}", end)
            else:
                held: bytes | None = None  # Only the last piece has the mark, so a reader cut before it asks again.
                for piece in changes:
                    if held is not None:
                        yield _event("changes", held)
                        await asyncio.sleep(0)
                    held = piece
                if held is not None:
                    yield _event("changes", held, end)
            mark = end
            if await serving.wait_for(self.wait_past(mark), BEAT_S + PAUSE_S):
                with suppress(TimeoutError):
                    await asyncio.wait_for(serving.stopping.wait(), PAUSE_S)  # Other changes join this one.
            if (refusal := await find_refusal()) is not None:
                yield _event("refused", _encoder.encode({"error": refusal}))
                return
            now = replica()
            if (now.leads, now.holder) != (sent.leads, sent.holder) or time.monotonic() >= sent_at + BEAT_S:
                sent, sent_at = now, time.monotonic()
                yield _event("replica", _encoder.encode(sent))

    async def wait_past(self, mark: FeedPosition) -> None:
        """Return once something changed after ``mark``."""
        while self._log.position == mark.position:
            self._wake.clear()
            await self._wake.wait()

    async def snapshot(self, replica: ReplicaDocument) -> AsyncGenerator[bytes, None]:
        """Write the snapshot in pieces. Its mark is the position at the start: what changes meanwhile is sent again."""
        head = {
            "version": feed_documents.SNAPSHOT_VERSION,
            "mark": str(self.mark),
            "program": __version__,
            "replica": replica,
            "vendors": [
                feed_documents.VendorDocument(name, vendor.device_word, vendor.node_label, vendor.kubectl_plugin)
                for name, vendor in ((name, state.vendor) for name, state in self._states.items())
            ],
        }
        opening = _encoder.encode(head)[:-1]
        for field, keys in (("nodes", self._node_keys()), ("waiting", self._pod_keys())):
            items = filter(None, map(self._encode, keys))
            async for piece in join_in_pieces(b'%b,"%b":[' % (opening, field.encode()), items, b"]"):
                yield piece
            opening = b""
        yield b"}\n"

    def changes(self, mark: FeedPosition) -> Iterator[bytes] | None:
        """Describe the changes after a mark, in documents of bounded size; None if the log begins later."""
        if mark.epoch != self._epoch or mark.position > self._log.position:
            return None
        changed = self._log.since(mark.position)
        return None if changed is None else self._describe(sorted(changed))

    def _describe(self, keys: list[str]) -> Iterator[bytes]:
        parts: dict[str, list[bytes]] = {"nodes": [], "gone": [], "waiting": [], "left": []}
        size = 0
        for key in keys:
            kind, _, name = key.partition("/")
            encoded = self._encode(key)
            if encoded is not None:
                parts["nodes" if kind == _NODE else "waiting"].append(encoded)
            else:
                encoded = _encoder.encode(name)
                parts["gone" if kind == _NODE else "left"].append(encoded)
            size += len(encoded)
            if size >= PIECE_BYTES:
                yield _join(parts)
                parts = {field: [] for field in parts}
                size = 0
        if size:
            yield _join(parts)

    def _encode(self, key: str) -> bytes | None:
        """Return the document of a key; None if it has no node or pod."""
        encoded = self._encoded.get(key)
        if encoded is None:
            encoded = self._encode_node(key) if key.startswith(_NODE) else self._encode_pod(key[2:])
            if encoded is not None:
                self._encoded[key] = encoded
        return encoded

    def _encode_node(self, key: str) -> bytes | None:
        _, vendor, name = key.split("/", 2)
        state = self._states[vendor]
        node = state.ledger.nodes.get(name)
        if node is None or not _is_shown(node):
            return None
        context = feed_documents.NodeContext(
            self.metadata.nodes.get(name, feed_documents.NO_NODE_METADATA),
            state.nodes.problems.get(name, ""),
            self.metadata.pods,
            state.pod_problems,
            frozenset(uid for uid in node.assignments if state.ledger.is_reserved(uid)),
        )
        return _encoder.encode(feed_documents.node_document(state.vendor, node, context))

    def _encode_pod(self, uid: str) -> bytes | None:
        for state in self._states.values():
            if (waiting := state.waiting.get(uid) or state.claiming.get(uid)) is not None:
                metadata = self.metadata.pods.get(uid, feed_documents.NO_POD_METADATA)
                return _encoder.encode(feed_documents.waiting_document(state.vendor, waiting, metadata))
        return None

    def _node_keys(self) -> list[str]:
        return [
            f"{_NODE}/{vendor}/{name}"
            for vendor, state in self._states.items()
            for name in sorted(name for name, node in state.ledger.nodes.items() if _is_shown(node))
        ]

    def _pod_keys(self) -> list[str]:
        return [f"{_POD}/{uid}" for state in self._states.values() for uid in (*state.waiting, *state.claiming)]


def _is_shown(node: NodeState) -> bool:
    """Whether a node is there, or is gone and still named by pods: those are what an admin must see."""
    return node.known or bool(node.assignments)


def _event(name: str, data: bytes, mark: FeedPosition | None = None) -> bytes:
    head = b"" if mark is None else b"id: %b\n" % str(mark).encode()
    return b"%bevent: %b\ndata: %b\n\n" % (head, name.encode(), data)


def _join(parts: dict[str, list[bytes]]) -> bytes:
    fields = (b'"%b":[%b]' % (name.encode(), b",".join(found)) for name, found in parts.items() if found)
    return b"{%b}" % b",".join(fields)
