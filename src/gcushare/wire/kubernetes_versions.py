"""The Kubernetes releases for which this release of ours is made: what every program, chart and document says."""

from __future__ import annotations

OLDEST_KUBERNETES = (1, 18)
"""The oldest for which there is a scheduler configuration to write, and whose kubelet speaks the device plugin API.

A Binding's annotations are merged into the pod in every one of them: kubernetes/kubernetes pull request 5005, of 2015.
"""
NEWEST_KUBERNETES = (1, 36)
"""The newest that was looked at; later ones of 1.x are taken to read what it reads."""


def release_words(release: tuple[int, int]) -> str:
    """A release as people write it, such as ``1.18``."""
    return f"{release[0]}.{release[1]}"
