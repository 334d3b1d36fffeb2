"""The file that describes simulated cards, JSON or YAML, read strictly.

Either ``{count: 8, memory: 16GiB}`` or ``{cards: [{memory: 16GiB, health: unhealthy, reason: ...}, ...]}``; the keys
of a card are those of ``_CARD_KEYS``. Sizes are bytes or have a suffix; GB is 2**30 bytes, as in the manual. One of 0
bytes is a card without memory of its own.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from gcushare.cards.plausible import MAX_BYTES, MAX_INDEX, MAX_STATE
from gcushare.cards.ports import CardReport, HealthReading
from gcushare.cards.unified_memory import NOT_SET
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.wire.untrusted_yaml import load_yaml

T = TypeVar("T")

MAX_FILE_BYTES = 4 << 20
MAX_CARDS = 1024
"""More than any machine holds: a typo in ``count`` must not fill the memory."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])(?:i?B|i)?|(\d+)B?", re.ASCII)
_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE_FORMS = "a whole number of bytes or a size such as 16GiB, 16GB or 512MiB, of at most 8T"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCard:
    """One card of the file; ``left_out`` is the reason why it is not shared ("" when it is)."""

    card: Card
    reading: HealthReading
    use: CardUse
    left_out: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCards:
    """A whole file."""

    cards: tuple[SimulatedCard, ...]
    driver: str

    def report(self, unified_bytes: int = 0) -> CardReport:
        """The cards as a driver lists them; one without memory of its own has ``unified_bytes``."""
        cards: list[Card] = []
        left_out: list[LeftOutCard] = []
        for entry in self.cards:
            card = entry.card if entry.card.memory_bytes else replace(entry.card, memory_bytes=unified_bytes)
            if reason := entry.left_out or ("" if card.memory_bytes else NOT_SET):
                left_out.append(LeftOutCard(index=card.index, uuid=card.uuid, reason=reason))
            else:
                cards.append(card)
        return CardReport(cards=tuple(cards), left_out=tuple(left_out), driver=self.driver)

    def find(self, uuid: str) -> SimulatedCard | None:
        return next((entry for entry in self.cards if entry.card.uuid == uuid and not entry.left_out), None)


def parse_size(value: object) -> int:
    """Read a number of bytes.

    Raises:
        ValueError: malformed, negative or a fraction of a byte.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_BYTES:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(_SIZE_FORMS)
    number, suffix, plain = match.groups()
    size = Fraction(number) * _FACTORS[suffix] if suffix else Fraction(plain)
    if size.denominator != 1 or size > MAX_BYTES:
        raise ValueError(_SIZE_FORMS)
    return int(size)


def parse_simulated_cards(text: str, name: str) -> SimulatedCards:
    """Read a file's text; ``name`` is how errors call the file.

    Raises:
        ConfigError: every problem found, each with its key and value.
    """
    try:
        document = load_yaml(text, name, limit_bytes=MAX_FILE_BYTES)
    except RemoteContractError as error:
        raise ConfigError(str(error)) from error
    reader = _DocumentReader(name)
    cards = reader.read_document(document)
    if reader.problems:
        raise ConfigError(*reader.problems)
    return cards


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("text")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a number")
    return float(value)


def _whole(most: int, accepted: str = "") -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
            raise ValueError(accepted or f"a whole number from 0 to {most}")
        return value

    return read


_index, _count, _state = _whole(MAX_INDEX), _whole(MAX_CARDS), _whole(MAX_STATE)
_pid = _whole((1 << 32) - 1, "a process id")


def _switch(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def _health(value: object) -> bool:
    words = {"healthy": True, "unhealthy": False, True: True, False: False}
    if not isinstance(value, str | bool) or value not in words:
        raise ValueError("healthy or unhealthy")
    return words[value]


def _by_process(read_value: Callable[[object], T], what: str) -> Callable[[object], dict[int, T]]:
    def read(value: object) -> dict[int, T]:
        if not isinstance(value, Mapping):
            raise ValueError(f"a map of process ids to {what}")
        # JSON has no other keys than text.
        return {
            _pid(int(pid) if isinstance(pid, str) and pid.isdecimal() else pid): read_value(each)
            for pid, each in value.items()
        }

    return read


_Reader: TypeAlias = Callable[[object], Any]
_CARD: dict[str, tuple[str, _Reader]] = {
    "index": ("index", _index),
    "uuid": ("uuid", _text),
    "memory": ("memory_bytes", parse_size),
    "driver": ("driver_bytes", parse_size),
    "model": ("model", _text),
    "serial": ("serial", _text),
    "pci": ("pci_address", _text),
    "numa": ("numa_node", _index),
    "link_group": ("link_group", _text),
    "limit_problem": ("limit_problem", _text),
}
"""The keys with the fields of ``Card`` that they set."""
_USE: dict[str, tuple[str, _Reader]] = {
    "used": ("memory_used_bytes", parse_size),
    "temperature": ("temperature_celsius", _number),
    "power": ("power_watts", _number),
    "utilization": ("utilization_percent", _number),
    "fan": ("fan_percent", _number),
    "performance_state": ("performance_state", _state),
    "compute_mode": ("compute_mode", _text),
    "ecc": ("ecc", _switch),
    "mig": ("mig", _switch),
    "persistence": ("persistence", _switch),
    "power_limit": ("power_limit_watts", _number),
    "cuda": ("cuda_version", _text),
    "processes": ("processes", _by_process(parse_size, "sizes")),
    "peaks": ("peaks", _by_process(parse_size, "sizes")),
    "process_utilization": ("process_utilization", _by_process(_number, "percents")),
    "process_names": ("process_names", _by_process(_text, "names")),
}
"""The keys with the fields of ``CardUse`` that they set."""
_CARD_KEYS: dict[str, _Reader] = {
    **{key: read for key, (_, read) in (_CARD | _USE).items()},
    "health": _health,
    "reason": _text,
    "left_out": _text,
}
_FILE_KEYS: dict[str, _Reader] = {
    "driver": _text,
    "count": _count,
    "memory": parse_size,
    "model": _text,
}


class _DocumentReader:
    """Reads one document and collects every problem in it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.problems: list[str] = []

    def read_document(self, document: object) -> SimulatedCards:
        if not isinstance(document, Mapping):
            self._complain("", document, "a map with the key cards or with count and memory")
            return SimulatedCards(cards=(), driver="")
        entries = document.get("cards")
        fields = self._read({key: value for key, value in document.items() if key != "cards"}, _FILE_KEYS, "")
        if "cards" in document and "count" in document:
            self._complain("count", document["count"], "either cards or count, not both")
        if entries is None:
            if "count" not in document:
                self._complain("", dict(document), "the key cards, or count and memory")
            entries = [{} for _ in range(fields.get("count", 0))]
        if not isinstance(entries, list) or len(entries) > MAX_CARDS:
            self._complain("cards", entries, f"a list of at most {MAX_CARDS} cards")
            entries = []
        defaults: dict[str, Any] = {key: fields[key] for key in ("memory", "model") if key in fields}
        cards = [self._read_card(entry, place, defaults) for place, entry in enumerate(entries)]
        for what, values in (
            ("index", [entry.card.index for entry in cards]),
            ("uuid", [entry.card.uuid for entry in cards]),
        ):
            for place, value in enumerate(values):
                if value in values[:place]:
                    self._complain(f"cards[{place}].{what}", value, f"one that no other card has as its {what}")
        return SimulatedCards(
            cards=tuple(sorted(cards, key=lambda entry: entry.card.index)), driver=fields.get("driver", "simulated")
        )

    def _read_card(self, entry: object, place: int, defaults: Mapping[str, Any]) -> SimulatedCard:
        where = f"cards[{place}]"
        if not isinstance(entry, Mapping):
            self._complain(where, entry, "a map")
            entry = {}
        fields = {**defaults, **self._read(entry, _CARD_KEYS, f"{where}.")}
        if "memory" not in fields and "memory" not in entry:
            self._complain(f"{where}.memory", None, _SIZE_FORMS)
        index = fields.get("index", place)
        card: dict[str, Any] = {"index": index, "uuid": f"simulated-{index}", "memory_bytes": 0, "model": "Simulated"}
        healthy = fields.get("health", True)
        reason = fields.get("reason", "" if healthy else "simulated failure")
        return SimulatedCard(
            card=Card(**(card | {name: fields[key] for key, (name, _) in _CARD.items() if key in fields})),
            # The file states what its author wants, so that one reading decides.
            reading=HealthReading(healthy=healthy, reason="" if healthy else reason, conclusive=True),
            use=CardUse(**{name: fields[key] for key, (name, _) in _USE.items() if key in fields}),
            left_out=fields.get("left_out", ""),
        )

    def _read(self, document: Mapping[Any, object], keys: Mapping[str, _Reader], where: str) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key, value in document.items():
            if key not in keys:
                word = str(key) if str(key).isprintable() else repr(key)
                self.problems.append(f"{self._name}: key {where}{word} is not known; accepted: {', '.join(keys)}")
                continue
            try:
                fields[key] = keys[key](value)
            except ValueError as error:
                self._complain(f"{where}{key}", value, str(error))
        return fields

    def _complain(self, key: str, value: object, accepted: str) -> None:
        self.problems.append(f"{self._name}: {key or 'the document'} is {_shown(value)}; accepted: {accepted}")


def _shown(value: object) -> str:
    """Write a value for a message, bounded also if the document's aliases would fill the memory."""
    text = reprlib.Repr()
    text.maxlevel, text.maxlist, text.maxdict = 2, 4, 4
    return text.repr(value)
