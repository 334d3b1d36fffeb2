"""Garbage collection: what is owned goes with its owner.

Deletion is in the background: the owner goes first and its dependents after it. A dependent whose owners are all gone
is deleted whenever it is seen.
"""

from __future__ import annotations

from collections.abc import Iterable

from gcushare_playground.apiserver.controllers.cluster import Cluster
from gcushare_playground.apiserver.controllers.ownership import Ref
from gcushare_playground.apiserver.objects import is_deleting, owners, uid_of
from gcushare_playground.apiserver.storage import Change, ChangeType


class GarbageCollector:
    """Looks at owned objects."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def concerned(self, change: Change) -> Iterable[Ref]:
        """Look at an owned object, and at the dependents of a deleted one."""
        obj = change.revision.obj
        if change.type is ChangeType.DELETED:
            return self._cluster.ownership.refs(uid_of(obj))
        return [Ref(change.collection, change.revision.key)] if owners(obj) else []

    def sync(self, ref: Ref) -> None:
        """Delete the object if no one owns it any more."""
        found = self._cluster.find(ref)
        of = [] if found is None or is_deleting(found.obj) else owners(found.obj)
        if of and not any(self._cluster.ownership.find(owner["uid"]) for owner in of):
            self._cluster.delete(ref)
