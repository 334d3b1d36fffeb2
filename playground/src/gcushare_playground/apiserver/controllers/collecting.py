"""Garbage collection: what is owned goes with its owner.

Background deletion removes the owner first and its dependents after it; foreground deletion keeps the owner until
its dependents are gone; orphaning frees them. A dependent whose owners are all gone is deleted whenever it is seen.
"""

from __future__ import annotations

from collections.abc import Iterable

from gcushare_playground.apiserver.controllers.cluster import Cluster
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import JsonObject, is_deleting, metadata, owners, uid_of
from gcushare_playground.apiserver.registry import Deletion
from gcushare_playground.apiserver.storage import Change, ChangeType

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


class GarbageCollector:
    """Looks at owned objects and at owners that wait for theirs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at an owned or leaving object, and around a deleted one at its dependents and its owners."""
        obj, found = change.revision.obj, []
        if change.type is ChangeType.DELETED:
            found += self._cluster.ownership.refs(uid_of(obj))
            found += [ref for owner in owners(obj) if (ref := self._cluster.ownership.find(owner["uid"]))]
        elif owners(obj) or is_deleting(obj):
            found.append(Ref(change.collection, change.revision.key))
        return found

    def sync(self, ref: Ref) -> float | None:
        """Delete the object if no one owns it any more, or let it go once its dependents have."""
        found = self._cluster.find(ref)
        if found is None:
            return None
        if is_deleting(found.obj):
            self._release(ref, found.obj)
        elif owners(found.obj) and not any(self._cluster.ownership.find(o["uid"]) for o in owners(found.obj)):
            self._cluster.delete(ref)
        return None

    def _release(self, ref: Ref, owner: JsonObject) -> None:
        finalizers = metadata(owner).get("finalizers") or []
        dependents = self._cluster.ownership.refs(uid_of(owner))
        if _ORPHAN in finalizers:
            for dependent in dependents:
                self._cluster.change(dependent, lambda obj: _without_owner(obj, uid_of(owner)))
            self._drop_finalizer(ref, _ORPHAN)
        elif _FOREGROUND in finalizers:
            for dependent in dependents:
                standing = self._cluster.find(dependent)
                if standing is not None and not is_deleting(standing.obj):
                    self._cluster.delete(dependent, Deletion(propagation="Foreground"))
            if not self._cluster.ownership.refs(uid_of(owner)):
                self._drop_finalizer(ref, _FOREGROUND)

    def _drop_finalizer(self, ref: Ref, finalizer: str) -> None:
        def mutate(obj: JsonObject) -> JsonObject:
            metadata(obj)["finalizers"] = [name for name in metadata(obj)["finalizers"] if name != finalizer]
            return obj

        self._cluster.change(ref, mutate)


def _without_owner(obj: JsonObject, uid: str) -> JsonObject:
    metadata(obj)["ownerReferences"] = [owner for owner in owners(obj) if owner["uid"] != uid]
    return obj
