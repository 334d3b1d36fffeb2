"""The Kubernetes releases for which this release of ours is made: what every program, chart and document says."""

from __future__ import annotations

import re

OLDEST_KUBERNETES = (1, 19)
"""The oldest whose kubelet asks a device plugin which ids to give (``GetPreferredAllocation``).

An older kubelet picks any free ids, of several cards for one container, which the plugin must refuse.
A Binding's annotations are merged into the pod in every one of them: kubernetes/kubernetes pull request 5005, of 2015.
"""
NEWEST_KUBERNETES = (1, 36)
"""The newest that was looked at; later ones of 1.x are taken to read what it reads."""


def find_release(version: str) -> tuple[int, int] | None:
    """Read the release from a component's version, such as ``v1.36.2``; None if it is not one."""
    found = re.match(r"v?(\d{1,3})\.(\d{1,3})", version)
    return (int(found[1]), int(found[2])) if found is not None else None


def eviction_version(server: str) -> str:
    """The version of the group policy in which a server, such as ``v1.36.2``, takes evictions: v1 from 1.22 on."""
    found = re.match(r"v1\.(\d{1,3})\b", server)
    return "v1beta1" if found is not None and int(found[1]) < 22 else "v1"


def release_words(release: tuple[int, int]) -> str:
    """A release as people write it, such as ``1.18``."""
    return f"{release[0]}.{release[1]}"
