"""What programs know of the API server: no answer brings back what they saw deleted; and bugs of such views."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from gcushare.kube.collections import ObjectCache
from simulation.world import World


def watch_views(world: World, name: str, *views: ObjectCache[Any]) -> None:
    """Fail where an answer brings a deleted object back into a view, and put in a bug if it is one of views."""
    for view in views:
        _plant(world.planted, view)
        _guard(world, name, view)


def _guard(world: World, name: str, view: ObjectCache[Any]) -> None:
    gone: set[str] = set()
    report, answer, apply = view._on_change, view.answered, view.applied

    def on_change(before: Any, after: Any) -> None:
        if after is None:
            gone.add(before.metadata.uid)
        report(before, after)

    def applied(obj: Any) -> None:
        gone.discard(obj.metadata.uid)
        apply(obj)

    def answered(obj: Any) -> bool:
        is_current = answer(obj)
        if obj.metadata.uid in gone:
            world.counts["late answers"] += 1
            if obj.metadata.uid in view.objects:
                world.fail("the deleted stay deleted", f"{obj.metadata.name} came back to {name} by an answer")
        return is_current

    view._on_change = on_change
    for method, guarded in (("applied", applied), ("answered", answered)):
        setattr(view, method, guarded)


def _plant(bug: str, view: ObjectCache[Any]) -> None:
    if bug == "trusts late answers":
        view.answered = partial(_trust, view)  # type: ignore[method-assign]
    elif bug == "mixes up names":
        view._places.put = lambda meta: None  # type: ignore[method-assign]
        view._places.missing_in = partial(_missing, view)  # type: ignore[method-assign]


def _trust(view: ObjectCache[Any], obj: Any) -> bool:
    view._put(obj)
    return True


def _missing(view: ObjectCache[Any], uids: Collection[str]) -> list[str]:
    return [uid for uid in view.objects if uid not in uids]
