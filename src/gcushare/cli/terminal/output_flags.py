"""Settings that several commands for people have."""

from __future__ import annotations

import enum
from typing import Any

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import setting


class TextOrJson(enum.Enum):
    TEXT = "text"
    JSON = "json"


def text_or_json(help: str) -> Any:
    """Declare ``-o text|json``; ``help`` says what each holds."""
    return setting(parsers.choice(TextOrJson), default=TextOrJson.TEXT, short="-o", help=help)


def color() -> Any:
    """Declare ``--color`` and ``--no-color``."""
    return setting(
        parsers.maybe_boolean(),
        default=None,
        help="Colours; without the flag on terminals only, and not where NO_COLOR is set.",
    )
