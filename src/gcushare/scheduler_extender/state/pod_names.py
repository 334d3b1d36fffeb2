"""Pods by namespace and name, for questions of people; all other code uses uids."""

from __future__ import annotations

from gcushare.core.nodes import PodRef


class PodNames:
    """The known pods. With 50,000 pods it takes two megabytes, because its keys and values exist elsewhere too."""

    def __init__(self) -> None:
        self._by_name: dict[str, PodRef | tuple[PodRef, ...]] = {}
        """By name without namespace; a tuple if pods of several namespaces, or a pod and its successor, share it."""

    def add(self, pod: PodRef) -> None:
        """Add a pod, or replace the one of its uid."""
        others = tuple(each for each in self._named(pod.name) if each.uid != pod.uid)
        self._by_name[pod.name] = (*others, pod) if others else pod

    def forget(self, pod: PodRef) -> None:
        """Remove a pod; repeatable."""
        named = self._named(pod.name)
        others = tuple(each for each in named if each.uid != pod.uid)
        if len(others) > 1:
            self._by_name[pod.name] = others
        elif others:
            self._by_name[pod.name] = others[0]
        elif named:
            del self._by_name[pod.name]

    def find(self, namespace: str, name: str) -> list[str]:
        """The uids of the pods of this name, the newest first."""
        return [pod.uid for pod in reversed(self._named(name)) if pod.namespace == namespace]

    def _named(self, name: str) -> tuple[PodRef, ...]:
        found = self._by_name.get(name, ())
        return found if isinstance(found, tuple) else (found,)
