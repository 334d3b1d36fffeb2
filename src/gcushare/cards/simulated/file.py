"""The file that describes simulated cards, JSON or YAML, read strictly.

Either ``{count: 8, memory: 16GiB}`` or ``{cards: [{memory: 16GiB, health: unhealthy, reason: ...}, ...]}``; the keys
of a card are those of ``_Entry``. Sizes are bytes or have a suffix; GB is 2**30 bytes, as in the manual. One of 0
bytes is a card without memory of its own.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import asdict, replace

from gcushare.cards.plausible import MAX_BYTES, MAX_INDEX
from gcushare.cards.ports import CardReport, HealthReading
from gcushare.cards.unified_memory import NOT_SET
from gcushare.core.cards import Card, CardUse, LeftOutCard
from gcushare.core.errors import ConfigError, RemoteContractError
from gcushare.wire.untrusted_json import reason_of
from gcushare.wire.untrusted_yaml import load_yaml

MAX_FILE_BYTES = 4 << 20
MAX_CARDS = 1024
"""More than any machine holds: a typo in ``count`` must not fill the memory."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT])(?:i?B|i)?|(\d+)B?", re.ASCII)
_FACTORS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE_FORMS = "a whole number of bytes or a size such as 16GiB, 16GB or 512MiB, of at most 8T"


@dataclasses.dataclass(frozen=True, slots=True)
class SimulatedCard:
    """One card of the file; ``left_out`` is the reason why it is not shared ("" when it is)."""

    card: Card
    reading: HealthReading
    use: CardUse
    left_out: str


@dataclasses.dataclass(frozen=True, slots=True)
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
        return CardReport(
            cards=tuple(cards),
            left_out=tuple(left_out),
            driver=self.driver,
            readings={entry.card.uuid: entry.reading for entry in self.cards},
            uses={entry.card.uuid: entry.use for entry in self.cards},
        )


class _Size(int):
    """Bytes, which the file may write with a suffix."""


_Index: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_INDEX)]
_NAMES = {
    "memory_bytes": "memory",
    "driver_bytes": "driver",
    "pci_address": "pci",
    "numa_node": "numa",
    "memory_used_bytes": "used",
    "temperature_celsius": "temperature",
    "power_watts": "power",
    "power_limit_watts": "power_limit",
    "utilization_percent": "utilization",
    "fan_percent": "fan",
    "cuda_version": "cuda",
}
"""The keys of fields that have another name in the file."""


class _Entry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename=_NAMES):
    """One card; the fields are those of ``Card`` and ``CardUse``, and what its health is."""

    index: _Index | None = None
    uuid: str | None = None
    memory_bytes: _Size | None = None
    driver_bytes: _Size = _Size(0)
    model: str | None = None
    serial: str = ""
    pci_address: str = ""
    numa_node: _Index | None = None
    link_group: str = ""
    limit_problem: str = ""
    memory_used_bytes: _Size | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    utilization_percent: float | None = None
    fan_percent: float | None = None
    performance_state: int | None = None
    compute_mode: str | None = None
    ecc: bool | None = None
    mig: bool | None = None
    persistence: bool | None = None
    cuda_version: str | None = None
    processes: dict[int, _Size] | None = None
    process_utilization: dict[int, float] | None = None
    process_names: dict[int, str] | None = None
    health: Literal["healthy", "unhealthy"] | bool = True
    reason: str = "simulated failure"
    left_out: str = ""


class _File(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """``memory`` and ``model`` are those of all cards that have no other."""

    cards: Annotated[list[_Entry], msgspec.Meta(max_length=MAX_CARDS)] | None = None
    count: Annotated[int, msgspec.Meta(ge=0, le=MAX_CARDS)] | None = None
    memory: _Size | None = None
    model: str = "Simulated"
    driver: str = "simulated"


def parse_size(value: object) -> int:
    """Read a number of bytes.

    Raises:
        ValueError: malformed, negative or a fraction of a byte.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_BYTES:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not {_SIZE_FORMS}")
    number, suffix, plain = match.groups()
    size = Fraction(number) * _FACTORS[suffix] if suffix else Fraction(plain)
    if size.denominator != 1 or size > MAX_BYTES:
        raise ValueError(f"{value!r} is not {_SIZE_FORMS}")
    return int(size)


def parse_simulated_cards(text: str, name: str) -> SimulatedCards:
    """Read a file's text; ``name`` is how errors call the file.

    Raises:
        ConfigError: the first problem that was found, with its key.
    """
    try:
        document = load_yaml(text, name, limit_bytes=MAX_FILE_BYTES)
        file = msgspec.convert(document, _File, dec_hook=lambda kind, value: kind(parse_size(value)), str_keys=True)
        cards = sorted(_cards_of(file), key=lambda entry: entry.card.index)
    except RemoteContractError as error:
        raise ConfigError(str(error)) from error
    except ValueError as error:
        raise ConfigError(f"{name}: {reason_of(error)}") from error
    return SimulatedCards(tuple(cards), file.driver)


def _cards_of(file: _File) -> Iterator[SimulatedCard]:
    if (file.cards is None) == (file.count is None):
        raise ValueError("it needs the key cards, or count and memory, and not both")
    seen = set[int | str]()
    for place, entry in enumerate(file.cards if file.cards is not None else [_Entry()] * (file.count or 0)):
        given = {key: _plain(value) for key, value in asdict(entry).items()}
        index = place if entry.index is None else entry.index
        given |= {"index": index, "uuid": entry.uuid or f"simulated-{index}", "model": entry.model or file.model}
        if given["memory_bytes"] is None:
            given["memory_bytes"] = _plain(file.memory)
        if given["memory_bytes"] is None:
            raise ValueError(f"no memory is given - at `$.cards[{place}]`; accepted: {_SIZE_FORMS}")
        for key in ("index", "uuid"):
            if given[key] in seen:
                raise ValueError(f"{key} {given[key]!r} is another card's too - at `$.cards[{place}]`")
            seen.add(given[key])
        healthy = entry.health in (True, "healthy")
        yield SimulatedCard(
            Card(**{key: given[key] for key in Card.__struct_fields__ if key in given}),
            # The file states what its author wants, so that one reading decides.
            HealthReading(healthy=healthy, reason="" if healthy else entry.reason, conclusive=True),
            CardUse(**{field.name: given[field.name] for field in dataclasses.fields(CardUse)}),
            entry.left_out,
        )


def _plain(value: Any) -> Any:
    """Sizes as the plain numbers that are written as JSON."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return int(value) if isinstance(value, _Size) else value
