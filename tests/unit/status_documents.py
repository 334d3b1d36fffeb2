"""The document of a plugin's ``/status``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # its C reader is ten times as fast as ruamel's

FIRST: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "recorded" / "first-plugin-status.yaml").read_text()
)
"""All that the first plugin reported."""
