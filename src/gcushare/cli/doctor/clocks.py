"""What a Lease tells of its holder's clock; pure."""

from __future__ import annotations

from datetime import datetime

from gcushare.cli.doctor.facts import ClockFacts, parse_time
from gcushare.wire.objects import Lease

RENEWED_WITHIN_S = 60.0
"""A ready node's lease is at most this old: kubelets renew every ten seconds, and are not ready after forty."""


def lease_clock(lease: Lease, now: datetime, within_s: float) -> ClockFacts | None:
    """How far the clock of a ready node's kubelet is ahead of ``now``; None where its lease tells nothing.

    A renewal in the future proves a clock ahead; one that is old proves a clock behind only as far as it is older than
    a ready node's can be.
    """
    renewed = parse_time(lease.spec.renew_time)
    if renewed is None:
        return None
    ahead_s = (renewed - now).total_seconds()
    slack_s = within_s if ahead_s > 0 else within_s + RENEWED_WITHIN_S
    return ClockFacts(subject=f"the kubelet of node {lease.metadata.name}", ahead_s=ahead_s, within_s=slack_s)
