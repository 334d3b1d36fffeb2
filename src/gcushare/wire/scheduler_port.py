"""What extender, config-manager, second scheduler and charts agree on about the scheduler's calls over mutual TLS.

Four verbs are the scheduler's: filter, prioritize, preempt, bind. Over mutual TLS they have a port of their own, so
that the first port goes on answering people and Prometheus as the manual says.
"""

from __future__ import annotations

from enum import Enum

from gcushare.wire.foreign import OBJECT_BYTES, JsonDoor

VERBS_PORT = 32764
"""Of the scheduler's calls over mutual TLS: below the config manager's, the extender's and the plugin's, which end at
32767."""

ASKED_PATH = "/healthz"
"""What may be asked there without changing anything: whether the port answers the one who asks."""

SERVICE_PORT = "verbs"
"""Name of that port in the extender's Service."""

SCHEDULER_NAME = "gcushare-kube-scheduler"
"""Whom a client's certificate must name: as its common name, or as one of its DNS names."""

CA, CA_KEY, NEXT_CA_KEY = "ca.crt", "ca.key", "next-ca.key"
SERVER_CERT, SERVER_KEY = "tls.crt", "tls.key"
CLIENT_CERT, CLIENT_KEY = "client.crt", "client.key"
"""Keys of the Secret that the extender fills. The first certificate of ``ca.crt`` signs, the second one is the next to
sign, a third one signed before."""


class Calls(Enum):
    """How a node's scheduler calls the extender, as its files say; reported by the node's config-manager."""

    MUTUAL_TLS = "mutual-tls"
    OTHER = "other"
    """Over the first port: plain HTTP, or HTTPS without a certificate of its own."""
    NONE = "none"


REPORT_KEY_PREFIX = "node."
"""Keys of the ConfigMap in which every node reports, before the node's name."""
CALLS_KEY = "calls"
"""In a node's report; reports of config-managers that knew no mutual TLS lack it."""

NODE_REPORT = JsonDoor(dict[str, str], "a config manager's report", limit_bytes=OBJECT_BYTES)
"""A node's report: ``state``, ``reason`` and ``calls``."""
