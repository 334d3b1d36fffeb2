"""Which ids of a closed card somebody holds: these must stay healthy when the rest of the card does not."""

from __future__ import annotations

from collections.abc import Callable, Collection

from gcushare.device_plugin.kubelet.allocations import KubeletRecord
from gcushare.device_plugin.pods.store import PodStore
from gcushare.wire.kubelet.device_ids import UNITS_PER_CARD

_ENTRY_HEAD_BYTES = 2
"""Tag and length, before the id."""


class HeldIds:
    """The held units of memory of closed cards, made once per record: they may be 185,556.

    podresources hides the ids of ordinary init containers. A card with such a pod on it is closed only once the
    kubelet's checkpoint has told them, for which ``want_hidden`` is called with the pods' uids; until then nothing of
    it turns unhealthy. Cards without such pods, which are most, cost no look into the checkpoint.
    """

    def __init__(self, book: PodStore, want_hidden: Callable[[Collection[str]], None]) -> None:
        self._book = book
        self._want_hidden = want_hidden
        self._made: tuple[KubeletRecord, frozenset[int], dict[int, frozenset[str]]] | None = None

    def of_cards(self, record: KubeletRecord, closed: frozenset[int]) -> dict[int, frozenset[str]]:
        """The held ids of each of these cards; those of which not all are known yet are left out."""
        hidden = self._book.with_hidden_ids(closed)
        self._want_hidden(hidden.keys())
        known = closed.difference(*(cards for pod, cards in hidden.items() if record.hides_ids_of(pod)))
        if self._made is None or self._made[0] is not record or self._made[1] != known:
            self._made = (record, known, {index: record.held_ids(index) for index in known})
        return self._with_fresh(self._made[2])

    def _with_fresh(self, held: dict[int, frozenset[str]]) -> dict[int, frozenset[str]]:
        """Add what was handed out since the record was made."""
        fresh = self._book.fresh_ids()
        if not fresh:
            return held
        return {
            index: ids.union(
                entry[_ENTRY_HEAD_BYTES:].decode()
                for granted in fresh
                for entry in granted.of_card(index, UNITS_PER_CARD[index])
            )
            for index, ids in held.items()
        }
