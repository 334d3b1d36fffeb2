"""The Kubernetes releases that this release supports. Programs, charts and documents use these constants."""

from __future__ import annotations

import re

OLDEST_KUBERNETES = (1, 19)
"""The oldest release whose kubelet asks a device plugin which ids to use (``GetPreferredAllocation``).

An older kubelet takes any free ids, of several cards for one container, which the plugin must refuse. All supported
releases merge a Binding's annotations into the pod (kubernetes/kubernetes pull request 5005, of 2015).
"""
NEWEST_KUBERNETES = (1, 36)
"""The newest release that was tested. Later 1.x releases are assumed to accept the same configuration."""


FIRST_SLOW_WITH_MANY_UNITS, MANY_UNITS = (1, 36), 10_000
"""From that release on a kubelet looks up the health of every unit of its node for each pod, and takes minutes to start
pods above some 10,000 units, unless two of its feature gates are off. Measured: docs/performance.md."""


def find_release(version: str) -> tuple[int, int] | None:
    """Read the release from a component's version, such as ``v1.36.2``; None if it is not one."""
    found = re.match(r"v?(\d{1,3})\.(\d{1,3})", version)
    return (int(found[1]), int(found[2])) if found is not None else None


def most_quick_units(kubelet: str) -> int | None:
    """How many units a kubelet such as ``v1.36.2`` lists without being slow; None without a bound, or if unknown."""
    release = find_release(kubelet)
    return MANY_UNITS if release is not None and release >= FIRST_SLOW_WITH_MANY_UNITS else None


def eviction_version(server: str) -> str:
    """The version of the API group policy for evictions on a server such as ``v1.36.2``: v1 from 1.22 on."""
    release = find_release(server)
    return "v1beta1" if release is not None and release < (1, 22) else "v1"


def release_text(release: tuple[int, int]) -> str:
    """A release as people write it, such as ``1.18``."""
    return f"{release[0]}.{release[1]}"
