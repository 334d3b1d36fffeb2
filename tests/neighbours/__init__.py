"""What other systems leave in a cluster, a file per system; written by hand, from the objects of their releases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.charts import load_objects

FOLDER = Path(__file__).parent


def read_objects(name: str) -> list[dict[str, Any]]:
    """The objects of one system on node-1, the Node first."""
    return load_objects((FOLDER / f"{name}.yaml").read_text())
