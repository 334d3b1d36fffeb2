"""What commands print for programs (JSON, YAML), and the flags that choose the output."""

from __future__ import annotations

import enum
import io
from typing import Any

import msgspec

from gcushare.runtime.settings.declare import choice_setting


class TextOrJson(enum.Enum):
    TEXT = "text"
    JSON = "json"


def text_or_json_flag(help: str) -> Any:
    """Declare ``-o text|json``; ``help`` says what each holds."""
    return choice_setting(TextOrJson.TEXT, short="-o", help=help)


Document = dict[str, Any]

_TEXT = "tag:yaml.org,2002:str"
_ALSO_BOOLEAN = frozenset({"y", "n", "yes", "no", "on", "off"})
"""Booleans of YAML 1.1, which kubectl and many libraries read. A namespace may have such a name."""


def to_json(document: object) -> str:
    """Write a document as JSON for people and programs."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def to_yaml(document: object) -> str:
    # Imported where YAML is asked for: 40 ms that tables need not spend.
    from ruamel.yaml import YAML

    def represent(writer: Any, data: str) -> Any:
        return writer.represent_scalar(_TEXT, data, style="'" if data.lower() in _ALSO_BOOLEAN else None)

    text, yaml = io.StringIO(), YAML()
    yaml.representer.yaml_representers = {**yaml.representer.yaml_representers, str: represent}
    yaml.dump(msgspec.to_builtins(document), text)
    return text.getvalue()
