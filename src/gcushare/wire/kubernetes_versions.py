"""The Kubernetes releases for which this release of ours is made: what every program, chart and document says."""

from __future__ import annotations

import re

OLDEST_KUBERNETES = (1, 18)
"""The oldest for which there is a scheduler configuration to write, and whose kubelet speaks the device plugin API.

A Binding's annotations are merged into the pod in every one of them: kubernetes/kubernetes pull request 5005, of 2015.
"""
NEWEST_KUBERNETES = (1, 36)
"""The newest that was looked at; later ones of 1.x are taken to read what it reads."""


def eviction_version(server: str) -> str:
    """The version of the group policy in which a server, such as ``v1.36.2``, takes evictions: v1 from 1.22 on."""
    found = re.match(r"v1\.(\d{1,3})\b", server)
    return "v1beta1" if found is not None and int(found[1]) < 22 else "v1"


def release_words(release: tuple[int, int]) -> str:
    """A release as people write it, such as ``1.18``."""
    return f"{release[0]}.{release[1]}"
