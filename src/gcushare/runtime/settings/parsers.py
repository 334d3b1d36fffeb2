"""Parsers of setting values: each converts the text of a flag or variable to a typed value."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from gcushare.vendors import VENDORS, Vendor

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)


@dataclass(frozen=True, slots=True)
class Parser(Generic[T]):
    """Parses, describes and shows one kind of value.

    ``parse`` raises ValueError with the reason only; the caller adds the value, its source and ``accepted``.
    Invariant: ``parse(show(value)) == value``, so that the output of ``--print-config`` can be given back.
    """

    metavar: str
    accepted: str
    parse: Callable[[str], T]
    show: Callable[[T], str] = str
    is_switch: bool = False
    choices: tuple[str, ...] = ()
    unset: str = ""
    """The effect of an empty value, of a parser made by ``optional``."""
    inner: str = ""
    """What is accepted if the value is not empty, of a parser with ``unset``."""


def _as_number(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError("not a number") from None
    if not number.is_finite():
        raise ValueError("not a finite number")
    return number


def _check_bounds(value: float | Decimal, low: float | None, high: float | None) -> None:
    # As floats: the bounds are, and Decimal("0.2") is less than the float 0.2.
    if low is not None and float(value) < low:
        raise ValueError("too small")
    if high is not None and float(value) > high:
        raise ValueError("too large")


ANY_TEXT = "any text that is not empty"


def text(metavar: str = "TEXT", *, accepted: str = ANY_TEXT) -> Parser[str]:
    """Read text unchanged; empty text is refused (see `optional`)."""

    def parse(raw: str) -> str:
        if not raw.strip():
            raise ValueError("empty")
        return raw

    return Parser(metavar, accepted, parse)


def matching(form: re.Pattern[str], metavar: str, *, accepted: str, refusal: str) -> Parser[str]:
    """Read text of a form unchanged; ``refusal`` says of other text what it is not."""

    def parse(raw: str) -> str:
        if not form.fullmatch(raw):
            raise ValueError(refusal)
        return raw

    return Parser(metavar, accepted, parse)


@dataclass(frozen=True, slots=True)
class ObjectName:
    """An object of a namespace."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def object_name(accepted: str) -> Parser[ObjectName]:
    """Read ``namespace/name``."""

    def parse(raw: str) -> ObjectName:
        namespace, slash, name = raw.partition("/")
        if not (namespace and slash and name) or "/" in name:
            raise ValueError("not a namespace and a name")
        return ObjectName(namespace, name)

    return Parser("NAMESPACE/NAME", accepted, parse, str)


def integer(low: int, high: int, metavar: str = "N") -> Parser[int]:
    """Read a whole number between ``low`` and ``high``, both included."""

    def parse(raw: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", raw):
            raise ValueError("not a whole number")
        value = int(raw)
        _check_bounds(value, low, high)
        return value

    return Parser(metavar, f"a whole number from {low} to {high}", parse)


def boolean() -> Parser[bool]:
    """Read true or false. On the command line, such a setting is a switch with a ``--no-`` form."""
    words = dict.fromkeys(("true", "t", "yes", "on", "1"), True) | dict.fromkeys(
        ("false", "f", "no", "off", "0"), False
    )

    def parse(raw: str) -> bool:
        if raw.lower() not in words:
            raise ValueError("neither true nor false")
        return words[raw.lower()]

    return Parser("BOOL", "true or false", parse, lambda value: "true" if value else "false", is_switch=True)


def by_word(values: Mapping[str, T], metavar: str = "") -> Parser[T]:
    """Read one of some words, ignoring case, for the value that it stands for."""
    by_lower = {word.lower(): value for word, value in values.items()}

    def parse(raw: str) -> T:
        if raw.lower() not in by_lower:
            raise ValueError("not one of the accepted words")
        return by_lower[raw.lower()]

    def show(value: T) -> str:
        return next(word for word, each in values.items() if each == value)

    return Parser(metavar or "|".join(values), " or ".join(values), parse, show, choices=tuple(values))


def choice(members: type[E]) -> Parser[E]:
    """Read one of an enum's values, ignoring case."""
    return by_word({str(member.value): member for member in members})


def one_of(*words: str, metavar: str = "") -> Parser[str]:
    """Read one of ``words``, case-sensitively. Use it for names that another module defines."""

    def parse(raw: str) -> str:
        if raw not in words:
            raise ValueError("not one of the accepted words")
        return raw

    return Parser(metavar or "|".join(words), " or ".join(words), parse, choices=words)


def vendors() -> Parser[tuple[Vendor, ...]]:
    """Read one vendor's name, or ``both`` for all of them."""
    return by_word({**{vendor.name: (vendor,) for vendor in VENDORS}, "both": VENDORS}, "VENDOR")


def path(metavar: str = "PATH") -> Parser[Path]:
    """Read a path. The code that opens it checks whether it exists."""

    def parse(raw: str) -> Path:
        if not raw.strip() or "\0" in raw:
            raise ValueError("not a path")
        return Path(raw)

    return Parser(metavar, "a path", parse)


def is_http_address(text: str) -> bool:
    """Whether a text is ``http://HOST[:PORT]`` or ``https://HOST[:PORT]``, with any path."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # unbalanced brackets, or an invalid port
        return False


# Seconds per suffix, as in Kubernetes' own flags.
_DURATION_UNITS = {"ms": Decimal("0.001"), "s": Decimal(1), "m": Decimal(60), "h": Decimal(3600), "d": Decimal(86400)}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")


def show_duration(seconds: float) -> str:
    """Format seconds in the largest unit that gives a whole number, for example ``0s``, ``500ms``, ``5s``, ``90s``."""
    if not seconds:
        return "0s"
    for unit in ("d", "h", "m", "s", "ms"):
        count = Decimal(str(seconds)) / _DURATION_UNITS[unit]
        if count == count.to_integral_value():
            return f"{int(count)}{unit}"
    return f"{Decimal(str(seconds)):f}s"


def duration_s(low: float, high: float) -> Parser[float]:
    """Read a duration such as ``500ms``, ``5s`` or ``1m30s`` as seconds. A plain number is in seconds."""

    def parse(raw: str) -> float:
        parts = _DURATION_PART.findall(raw)
        try:
            if parts and "".join(number + unit for number, unit in parts) == raw:
                value = sum((Decimal(number) * _DURATION_UNITS[unit] for number, unit in parts), Decimal(0))
            else:
                value = _as_number(raw)
        except ValueError:
            raise ValueError("not a duration") from None
        _check_bounds(value, low, high)
        return float(value)

    accepted = f"a duration from {show_duration(low)} to {show_duration(high)} such as 500ms, 5s or 1m30s"
    return Parser("DURATION", accepted, parse, show_duration)


_SIZE_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9}


def show_bytes(count: int) -> str:
    """Format a number of bytes in the largest binary unit that gives a whole number, for example ``8Mi``."""
    for unit in ("Ti", "Gi", "Mi", "Ki"):
        if count and count % _SIZE_UNITS[unit] == 0:
            return f"{count // _SIZE_UNITS[unit]}{unit}"
    return str(count)


def size_bytes(low: int, high: int) -> Parser[int]:
    """Read a size such as ``8Mi`` (binary), ``10M`` (decimal) or plain bytes into bytes."""

    def parse(raw: str) -> int:
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(Ki|Mi|Gi|Ti|k|M|G|)", raw.removesuffix("B"))
        if match is None:
            raise ValueError("not a size")
        value = Decimal(match[1]) * _SIZE_UNITS[match[2]]
        if value != value.to_integral_value():
            raise ValueError("not a whole number of bytes")
        _check_bounds(value, low, high)
        return int(value)

    accepted = f"a size from {show_bytes(low)} to {show_bytes(high)} such as 512Ki or 8Mi"
    return Parser("SIZE", accepted, parse, show_bytes)


def number(low: float, high: float, metavar: str = "X") -> Parser[float]:
    """Read a number between ``low`` and ``high``, both included; fractions are allowed."""

    def parse(raw: str) -> float:
        value = _as_number(raw)
        _check_bounds(value, low, high)
        return float(value)

    return Parser(metavar, f"a number from {low:g} to {high:g}", parse, repr)


def comma_list(item: Parser[T]) -> Parser[tuple[T, ...]]:
    """Read items separated by commas; empty text is the empty list."""

    def parse(raw: str) -> tuple[T, ...]:
        if not raw.strip():
            return ()
        return tuple(item.parse(part.strip()) for part in raw.split(","))

    def show(values: tuple[T, ...]) -> str:
        return ",".join(item.show(value) for value in values)

    return Parser(f"{item.metavar},...", f"a comma separated list, each {item.accepted}", parse, show)


MAX_COUNT = 100_000
"""Pods and units that a plan may name: above any cluster and any card."""


def counted_amounts() -> Parser[tuple[int, int]]:
    """Read how many times which amount, such as 40x4."""

    def parse(raw: str) -> tuple[int, int]:
        count, _, amount = raw.partition("x")
        if not all(each.isascii() and each.isdecimal() and 0 < int(each) <= MAX_COUNT for each in (count, amount)):
            raise ValueError("not a count and an amount")
        return int(count), int(amount)

    accepted = f"COUNTxUNITS such as 40x4, each from 1 to {MAX_COUNT}"
    return Parser("COUNTxUNITS", accepted, parse, lambda value: f"{value[0]}x{value[1]}")


def optional(inner: Parser[T], unset: str) -> Parser[T | None]:
    """Read a value with ``inner``. Empty text means None; ``unset`` describes its effect."""

    def parse(raw: str) -> T | None:
        return inner.parse(raw) if raw else None

    def show(value: T | None) -> str:
        return "" if value is None else inner.show(value)

    accepted = f"{inner.accepted}, or empty ({unset})"
    return Parser(inner.metavar, accepted, parse, show, choices=inner.choices, unset=unset, inner=inner.accepted)


def optional_text(metavar: str, unset: str, accepted: str = ANY_TEXT) -> Parser[str | None]:
    """Read text; ``unset`` describes the effect of none."""
    return optional(text(metavar, accepted=accepted), unset)


def optional_file(unset: str) -> Parser[Path | None]:
    """Read the path of a file; ``unset`` describes the effect of none."""
    return optional(path("FILE"), unset)
