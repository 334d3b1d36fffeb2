"""Declares a program's settings as frozen dataclasses, grouped by concern. Fields have a parser and a help text.

A field with a mere default is a constant of the program: no user sets it, tests and simulations may.

The field ``listen_port`` is ``--listen-port`` on the command line and ``GCUSHARE_LISTEN_PORT`` in the environment.
`loading` reads them.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast, dataclass_transform

from gcushare.runtime.settings.parsers import Parser, boolean, choice

T = TypeVar("T")
C = TypeVar("C", bound=type)

_SETTING = "gcushare.setting"
_GROUP = "gcushare.group"
ENV_PREFIX = "GCUSHARE_"


@dataclass(frozen=True, slots=True)
class Spec:
    """One setting of a program: how to read it, explain it and store it.

    `setting` fills the fields up to ``is_typed``; `list_specs` adds the others.
    """

    parser: Parser[Any]
    help: str
    short: str = ""
    custom_env: str = ""
    is_argument: bool = False
    is_typed: bool = False
    """Whether only the command line may set it, by its position or by its flag."""
    name: str = ""
    concern: str = ""
    field_path: tuple[str, ...] = ()
    default: Any = None
    """``dataclasses.MISSING`` if the setting is required."""

    @property
    def is_required(self) -> bool:
        """Whether a source must set it."""
        return self.default is dataclasses.MISSING

    @property
    def flag(self) -> str:
        """Its name on the command line, for messages and help."""
        return self.name.upper() if self.is_argument else f"--{self.name}"

    @property
    def words(self) -> tuple[str, ...]:
        """All its names on the command line, in the order of the help: the short one first."""
        negated = f"--no-{self.name}" if self.parser.is_switch else ""
        return tuple(filter(None, (self.short, self.flag, negated)))

    @property
    def env(self) -> str:
        """Its environment variable; empty if only the command line may set it."""
        return "" if self.is_typed else self.custom_env or ENV_PREFIX + self.name.replace("-", "_").upper()


@dataclass(frozen=True, slots=True)
class Group:
    """A nested settings class, with the defaults that this program changes."""

    cls: type
    defaults: Mapping[str, Any]


def setting(
    parser: Parser[T],
    *,
    help: str,
    default: Any = dataclasses.MISSING,
    env: str = "",
    short: str = "",
    argument: bool = False,
    typed: bool = False,
) -> Any:
    """Declare one setting as a dataclass field.

    Args:
        parser: parses its text; see `parsers`.
        help: meaning, unit, reason for the default, and the effect of None or 0; shown by ``--help``.
        default: its value if no source sets it. Without a default the setting is required.
        env: the full name of a conventional variable, such as KUBECONFIG, instead of ``GCUSHARE_<NAME>``.
        short: an additional one-letter flag, such as ``-o``.
        argument: take it from a position on the command line instead of a flag.
        typed: accept it on the command line only, because a forgotten variable must not change a cluster. Required
            for switches that change something.
    """
    spec = Spec(parser, help, short, env, argument, typed or argument)
    return dataclasses.field(default=default, metadata={_SETTING: spec})


def optional_setting(parser: Parser[T | None], *, help: str, **how: Any) -> Any:
    """Declare one that has no value unless a source sets it; ``how``: as for `setting`."""
    return setting(parser, help=help, default=None, **how)


def choice_setting(default: enum.Enum, *, help: str, **how: Any) -> Any:
    """Declare one with the values of an enum; ``how``: as for `setting`."""
    return setting(choice(type(default)), help=help, default=default, **how)


def switch(help: str, **how: Any) -> Any:
    """Declare a switch that is off unless a source sets it; ``how``: as for `setting`."""
    return setting(boolean(), help=help, default=False, **how)


def group(cls: type[T], **defaults: Any) -> T:
    """Nest a shared settings class. ``defaults`` replace its own by field name.

    Raises:
        TypeError: a default is not a field of ``cls``.
    """
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cast(Any, cls))
    unknown = sorted(set(defaults) - {field.name for field in fields})
    if unknown:
        raise TypeError(f"{cls.__name__} has no setting {', '.join(unknown)}")
    nested = {_GROUP: Group(cls, defaults)}
    field: Any = dataclasses.field(default_factory=lambda: cls(**defaults), metadata=nested)
    return cast(T, field)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(setting,))
def settings(cls: C) -> C:
    """Make a class a frozen group of settings. The first line of its docstring is its heading in ``--help``."""
    return cast(C, dataclass(frozen=True, slots=True, kw_only=True)(cls))


def group_of(field: dataclasses.Field[Any]) -> Group | None:
    """Return the group that a field nests; None if the field is a setting."""
    found: Group | None = field.metadata.get(_GROUP)
    return found


def list_specs(cls: type) -> tuple[Spec, ...]:
    """List all settings of a settings class and its nested classes, in the order of declaration.

    Raises:
        TypeError: a field without a default is neither a setting nor a group.
    """
    return tuple(_walk(Group(cls, {}), ()))


def _walk(node: Group, field_path: tuple[str, ...]) -> Iterable[Spec]:
    concern = (node.cls.__doc__ or node.cls.__name__).strip().splitlines()[0].rstrip(".")
    for field in dataclasses.fields(node.cls):
        here = (*field_path, field.name)
        inner = group_of(field)
        spec: Spec | None = field.metadata.get(_SETTING)
        if inner is not None:
            yield from _walk(inner, here)
        elif spec is not None:
            # A field may end in "_" if its name is a keyword, such as for_.
            name = field.name.rstrip("_").replace("_", "-")
            default = node.defaults.get(field.name, field.default)
            yield dataclasses.replace(spec, name=name, concern=concern, field_path=here, default=default)
        elif field.default is dataclasses.MISSING:
            raise TypeError(f"{node.cls.__name__}.{field.name} is neither a setting nor a group of settings")


@dataclass(frozen=True, slots=True)
class Program(Generic[T]):
    """A program's command line: its name, summary, settings and examples."""

    name: str
    summary: str
    settings: type[T]
    examples: tuple[tuple[str, str], ...] = ()
    """Pairs of a command line and what it does."""
    commands: tuple[tuple[str, str], ...] = ()
    """Pairs of a command word and what it does, shown above the flags."""
    legends: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    """Tables after the examples: a heading, and pairs of a sign and its meaning."""
    exit_status: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """What its own codes mean, or what a code of `exit_codes` means here."""
    notes: str = ""
    """Paragraphs at the end of the help: files, endpoints and so on."""
