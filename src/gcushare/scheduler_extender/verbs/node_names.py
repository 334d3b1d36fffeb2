"""Lists of node names as requests carry them, read once: they are mostly the same bytes as in the request before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gcushare.core.fit_index import FitIndex, Shape
from gcushare.wire.extender_api import (
    SCORE_ENDS,
    decode_names,
    encode_filter_answer,
    encode_host,
    encode_name,
    encode_reasons,
    encode_scores,
)

MAX_CACHED_LISTS = 8
"""Schedulers, profiles and node pools that take turns; a list of 5,000 names takes about a megabyte."""

MAX_CACHED_BYTES = 1 << 20
"""Lists longer than this are read each time: 60,000 names do not come twice a millisecond."""

MIN_CACHED_BYTES = 512
"""Shorter lists are read in microseconds."""

MIN_REORDERED_BYTES = 2048
"""The same for lists that come in ever new orders, as prioritize's do: keeping them would drive those of filter out."""

_MAX_ANSWERS = 4
"""Answers kept per list; at 5,000 names one takes up to a megabyte."""

_Kept: TypeAlias = tuple[FitIndex, int, bytes]
"""An answer, and the index at the version that it was made from."""


class NameList:
    """One list of names: distinct, in the order of the request, with what answers about it need again and again."""

    __slots__ = ("_by_name", "_distinct", "_encoded", "_fitting", "_is_kept", "_refused", "_scores", "names", "order")

    def __init__(self, names: Sequence[str], *, is_kept: bool = True) -> None:
        self._is_kept = is_kept
        self.names = dict.fromkeys(names)
        """For ``in``; the keys keep the order."""
        self.order: tuple[str, ...] = tuple(self.names)
        self._encoded: tuple[bytes, ...] | None = None
        self._distinct: frozenset[str] | None = None
        self._by_name: dict[str, bytes] = {}
        self._fitting: dict[Shape, _Kept] = {}
        self._refused: dict[Shape, _Kept] = {}
        self._scores: dict[Shape, _Scores] = {}

    @property
    def distinct(self) -> frozenset[str]:
        """The names without their order, made once: 5,000 take a tenth of a millisecond."""
        if self._distinct is None:
            self._distinct = frozenset(self.names)
        return self._distinct

    @property
    def encoded(self) -> tuple[bytes, ...]:
        """The names as JSON strings."""
        if self._encoded is None:
            self._encoded = tuple(map(encode_name, self.order))
        return self._encoded

    def answer_best(self, best: Sequence[str]) -> bytes:
        """Filter's answer that names the best nodes of the list; each name is written once while it is kept."""
        written = self._by_name
        for name in best:
            if name not in written:
                written[name] = encode_name(name)
        return encode_filter_answer([written[name] for name in best])

    def answer_all(self, index: FitIndex, reason: str) -> bytes:
        """Filter's answer that names every fitting node and every other as failed; kept while no node's fit changes."""
        kept = self._fitting.get(index.shape)
        if kept is not None and kept[0] is index and kept[1] == index.fit_version:
            return kept[2]
        fitting = index.fitting
        pairs = list(zip(self.order, self.encoded, strict=True))
        answer = encode_filter_answer(
            (encoded for name, encoded in pairs if name in fitting),
            encode_reasons((encoded for name, encoded in pairs if name not in fitting), reason),
        )
        _keep(self._fitting, index, index.fit_version, answer)
        return answer

    def answer_none(self, index: FitIndex, reason: str) -> bytes:
        """Filter's answer when no node fits; kept while no node gains or loses hope.

        Nodes that ending pods would not help either are unresolvable as well: the scheduler does not try preemption
        there. They stand in both maps, for schedulers below 1.21 know only the first.
        """
        kept = self._refused.get(index.shape)
        if kept is not None and kept[0] is index and kept[1] == index.preemption_version:
            return kept[2]
        after_preemption = index.after_preemption
        pairs = zip(self.order, self.encoded, strict=True)
        unresolvable = encode_reasons((encoded for name, encoded in pairs if name not in after_preemption), reason)
        answer = encode_filter_answer((), encode_reasons(self.encoded, reason), unresolvable)
        _keep(self._refused, index, index.preemption_version, answer)
        return answer

    def answer_scores(self, index: FitIndex) -> bytes:
        """Prioritize's answer; from one call to the next only the nodes whose score changed are written again.

        Of a list that will not be asked about again nothing is prepared: that took twice as long as the answer.
        """
        if not self._is_kept:
            score = index.score
            return encode_scores([encode_host(encode_name(name)) + SCORE_ENDS[score(name)] for name in self.order])
        scores = self._scores.get(index.shape)
        if scores is None or scores.index is not index:
            if len(self._scores) >= _MAX_ANSWERS:
                self._scores.clear()
            scores = self._scores[index.shape] = _Scores(index, self.order, self.encoded)
        return scores.answer()


class _Scores:
    """The scores of one list for one shape, kept as the pieces of the answer, and the answer until one changes."""

    __slots__ = ("_answer", "_hosts", "_order", "_pieces", "_position", "_positions", "index")

    def __init__(self, index: FitIndex, order: tuple[str, ...], encoded: tuple[bytes, ...]) -> None:
        self.index = index
        self._order = order
        self._hosts = list(map(encode_host, encoded))
        self._pieces: list[bytes] = []
        self._answer: bytes | None = None
        self._positions: dict[str, int] = {}
        self._position = -1

    def answer(self) -> bytes:
        moves = self.index.moves
        if moves.position != self._position:
            moved = moves.since(self._position) if self._position >= 0 else None
            self._position = moves.position
            if moved is None:
                self._rewrite()
            else:
                self._touch(moved)
        if self._answer is None:
            self._answer = encode_scores(self._pieces)
        return self._answer

    def _rewrite(self) -> None:
        score = self.index.score
        pairs = zip(self._hosts, self._order, strict=True)
        self._pieces = [host + SCORE_ENDS[score(name)] for host, name in pairs]
        self._answer = None

    def _touch(self, moved: set[str]) -> None:
        if not self._positions:
            self._positions = {name: position for position, name in enumerate(self._order)}
        for name in moved:
            position = self._positions.get(name)
            if position is not None:
                self._pieces[position] = self._hosts[position] + SCORE_ENDS[self.index.score(name)]
                self._answer = None


def _keep(answers: dict[Shape, _Kept], index: FitIndex, version: int, answer: bytes) -> None:
    if len(answers) >= _MAX_ANSWERS:
        answers.clear()
    answers[index.shape] = (index, version, answer)


class NameLists:
    """The lists seen lately, found again by comparing bytes: a hundred kilobytes take two microseconds."""

    def __init__(self) -> None:
        self._lists: list[tuple[bytes, NameList]] = []
        self.hits = 0
        self.misses = 0

    def get(self, raw: bytes, most: int, least: int = MIN_CACHED_BYTES) -> NameList:
        """Return the list of at most so many names that ``raw`` writes; it is kept where it has so many bytes.

        Raises:
            RemoteContractError: it is no list of names, or one of too many.
        """
        if len(raw) < least:
            return NameList(decode_names(raw, most), is_kept=False)
        for position, (known, names) in enumerate(self._lists):
            if known == raw:
                if position:
                    self._lists.insert(0, self._lists.pop(position))
                self.hits += 1
                return names
        self.misses += 1
        names = NameList(decode_names(raw, most), is_kept=len(raw) <= MAX_CACHED_BYTES)
        if len(raw) <= MAX_CACHED_BYTES:
            self._lists.insert(0, (raw, names))
            del self._lists[MAX_CACHED_LISTS:]
        return names
