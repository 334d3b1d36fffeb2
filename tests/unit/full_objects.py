"""Objects as an API server may send them, with every field that has been seen to hold text; for planting secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # its C reader is ten times as fast as ruamel's

Document = dict[str, Any]

POD: Document
NODE: Document
EVENT: Document
POD, NODE, EVENT = yaml.safe_load_all((Path(__file__).parents[1] / "recorded" / "full-objects.yaml").read_text())
