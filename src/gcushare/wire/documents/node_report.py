"""The reports of the config managers on their nodes' schedulers: one key per node in their ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gcushare.core.errors import RemoteContractError
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder

MODE_KEY = "mode"
"""Key of the config managers' ConfigMap for what every node must do: ``apply`` (the default) or ``recover``."""
REPORT_KEY_PREFIX = "node."
"""Prefix of the node reports' keys in that ConfigMap, before the node's name."""

NODE_REPORT = BoundedJsonDecoder(dict[str, str], "a config manager's report", limit_bytes=OBJECT_BYTES)
"""A node's report: ``state`` and ``reason``."""
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The last report of one node: ``state`` is applied, recovered, failed or changing.

    If the report cannot be read, ``state`` is `UNKNOWN`.
    """

    node: str
    state: str
    reason: str


def encode_node_report(node: str, state: str, reason: str) -> dict[str, str]:
    """Write a report as the one key of the ConfigMap's data that is this node's."""
    return {REPORT_KEY_PREFIX + node: json.dumps({"state": state, "reason": reason})}


def decode_node_reports(data: Mapping[str, object]) -> list[NodeReport]:
    """Read every node's report from the ConfigMap's data, by name; one that cannot be read is unknown."""
    return [
        _decode(key.removeprefix(REPORT_KEY_PREFIX), str(text))
        for key, text in sorted(data.items())
        if key.startswith(REPORT_KEY_PREFIX)
    ]


def _decode(node: str, text: str) -> NodeReport:
    try:
        found = NODE_REPORT.read(text)
    except RemoteContractError as error:
        return NodeReport(node, UNKNOWN, f"{text[:80]!r}: {error}")
    return NodeReport(node, found.get("state", ""), found.get("reason", ""))
