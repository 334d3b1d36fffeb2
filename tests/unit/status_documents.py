"""The document of a plugin's ``/status``."""

from __future__ import annotations

from typing import Any

FIRST: dict[str, Any] = {
    "version": "0.1.0",
    "vendor": "enflame",
    "node": "n1",
    "problems": {"registration": "refused"},
    "unit": "1",
    "cards": [
        {
            "index": 0,
            "uuid": "GCU-0",
            "model": "S60",
            "serial": "",
            "pci": "0000:01:00.0",
            "numaNode": None,
            "memoryBytes": 17179869184,
            "units": 16,
            "reservedUnits": 0,
            "lostBytes": 0,
            "heldUnits": 4,
            "promisedUnits": 0,
            "health": "Healthy",
            "reason": "",
            "cordoned": False,
        }
    ],
    "leftOut": [],
    "pods": [
        {
            "pod": "default/a",
            "uid": "u-a",
            "units": 4,
            "recordedCards": None,
            "assigned": False,
            "heldByCard": {"0": 4},
            "containers": {"main": {"0": 4}},
            "unconfirmed": [],
        }
    ],
    "unreadablePods": [],
    "registrations": 1,
    "corrections": 0,
}
"""All that the first plugin reported."""
