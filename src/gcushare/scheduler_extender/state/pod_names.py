"""Pods by namespace and name: what people ask with, while everything else goes by uid."""

from __future__ import annotations

from gcushare.core.nodes import PodRef


class PodNames:
    """The pods that are known. At 50,000 pods a table of two megabytes: keys and values are objects kept anyway."""

    def __init__(self) -> None:
        self._by_name: dict[str, PodRef | tuple[PodRef, ...]] = {}
        """By the name alone; several pods where namespaces, or a pod and its successor, share it."""

    def note(self, pod: PodRef) -> None:
        """Take a pod, instead of what was known of its uid."""
        others = tuple(each for each in self._named(pod.name) if each.uid != pod.uid)
        self._by_name[pod.name] = (*others, pod) if others else pod

    def forget(self, pod: PodRef) -> None:
        """The pod is gone; repeatable."""
        named = self._named(pod.name)
        others = tuple(each for each in named if each.uid != pod.uid)
        if len(others) > 1:
            self._by_name[pod.name] = others
        elif others:
            self._by_name[pod.name] = others[0]
        elif named:
            del self._by_name[pod.name]

    def find(self, namespace: str, name: str) -> list[str]:
        """The uids of the pods of this name, the one noted last first."""
        return [pod.uid for pod in reversed(self._named(name)) if pod.namespace == namespace]

    def _named(self, name: str) -> tuple[PodRef, ...]:
        found = self._by_name.get(name, ())
        return found if isinstance(found, tuple) else (found,)
