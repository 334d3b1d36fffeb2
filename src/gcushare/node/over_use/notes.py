"""Keep the annotations of pods that use more than their grant, and of idle ones, whose text ``idle_watch`` makes.

That of an over-use is written when it begins, renewed once a minute, and removed when it ends. What to write follows
from the present state alone, so an annotation that an earlier plugin or another program left is corrected too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Set
from dataclasses import KW_ONLY, dataclass

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.core.log_fields import fields
from gcushare.core.over_use.tracking import OverUse
from gcushare.kube.client import KubeClient
from gcushare.node.pods import NodePods
from gcushare.wire.annotations import encode_over_use

logger = logging.getLogger(__name__)

RENEW_S = 60.0
"""Changed figures are written at most this often; metrics have those of every reading."""
RESEND_S = 10.0
"""A write that the watch does not show within this time is repeated."""
FAILED_S = 60.0
"""Before a write that failed is repeated: metrics and Events say the same meanwhile."""


@dataclass(slots=True)
class _Note:
    """The annotation that a pod should have; ``at_s`` is when its text was made, on the monotonic clock."""

    cards: Set[int]
    text: str
    at_s: float


class OverUseTexts:
    """The texts of that annotation by uid, renewed seldom; calling it returns None while they are unknown.

    ``over`` returns the pods over their grant, by uid and card; None while that is unknown.
    """

    def __init__(
        self, over: Callable[[], Mapping[str, dict[int, OverUse]] | None], *, clock: Callable[[], float]
    ) -> None:
        self._over = over
        self._clock = clock
        self._notes: dict[str, _Note] = {}

    def __call__(self) -> Mapping[str, str] | None:
        """Make the texts of now."""
        over, now_s = self._over(), self._clock()
        if over is None:
            return None
        self._notes = {uid: self._note(uid, cards, now_s) for uid, cards in over.items()}
        return {uid: note.text for uid, note in self._notes.items()}

    def _note(self, uid: str, cards: dict[int, OverUse], now_s: float) -> _Note:
        before = self._notes.get(uid)
        if before is not None and before.cards == cards.keys() and now_s < before.at_s + RENEW_S:
            return before
        return _Note(cards.keys(), encode_over_use(cards), now_s)


@dataclass(eq=False)
class PodNotes:
    """Keeps one annotation, ``key``, of all pods; ``run`` is its owner task, call ``on_poll`` after every reading.

    ``texts`` returns what it should be by uid; None while that is unknown, so that nothing is removed.
    """

    key: str
    pods: NodePods
    client: KubeClient
    texts: Callable[[], Mapping[str, str] | None]
    _: KW_ONLY
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._wanted: Mapping[str, str] = {}
        self._next_at_s: dict[str, float] = {}
        self._soon = asyncio.Event()
        self.failures = 0

    def on_poll(self) -> None:
        """Wake ``run``: there is a new reading."""
        self._soon.set()

    async def run(self) -> None:
        """Write what differs after each reading, until cancelled."""
        while True:
            await self._soon.wait()
            self._soon.clear()
            for pod, text in self.due():
                await self._write(pod, text)

    def due(self) -> list[tuple[PodRef, str | None]]:
        """Return the pods whose annotation differs from the present state, with the text to write; None removes it."""
        texts = self.texts()
        if texts is None:
            return []
        now_s, entries = self.clock(), self.pods.everyone
        before, self._wanted = self._wanted, texts
        # A new text is written at once, however recent the last write was.
        self._next_at_s = {
            uid: at_s
            for uid, at_s in self._next_at_s.items()
            if uid in entries and (uid not in texts or texts[uid] == before.get(uid))
        }
        found: list[tuple[PodRef, str | None]] = []
        for uid, entry in entries.items():
            text = texts.get(uid)
            if entry.annotations.get(self.key) == text:
                self._next_at_s.pop(uid, None)
            elif self._next_at_s.get(uid, now_s) <= now_s:
                found.append((entry.ref, text))
        return found

    async def _write(self, pod: PodRef, text: str | None) -> None:
        delay_s = RESEND_S
        try:
            await self.client.patch_pod_annotations(pod, {self.key: text})
        except (ConflictError, NotFoundError):
            pass  # The pod is gone, and its annotation with it; the watch will say so.
        except GcushareError as error:
            delay_s = FAILED_S
            self.failures += 1
            logger.warning("annotation not written %s", fields(key=self.key, pod=pod, error=error, delay_s=delay_s))
        self._next_at_s[pod.uid] = self.clock() + delay_s
