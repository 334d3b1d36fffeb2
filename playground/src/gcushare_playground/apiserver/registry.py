"""Create, change and delete objects by the rules every kind shares; no HTTP and no awaiting here.

Source: ``k8s.io/apiserver/pkg/registry/generic/registry/store.go`` and ``registry/rest``.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.failures import Cause
from gcushare_playground.apiserver.metadata_rules import check_metadata, check_types, without_nulls
from gcushare_playground.apiserver.objects import (
    JsonObject,
    Key,
    dig,
    is_deleting,
    metadata,
    rfc3339,
    uid_of,
)
from gcushare_playground.apiserver.resources import BY_KIND, BY_NAME, Resource
from gcushare_playground.apiserver.storage import Collection, Revision, Storage
from gcushare_playground.apiserver.strategies import strategy_of

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names: no vowels, no look-alikes, as in Kubernetes."""
_SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "managedFields",
)
_GENERATED_BY_SPEC = frozenset(
    {"pods", "deployments.apps", "replicasets.apps", "daemonsets.apps", "statefulsets.apps", "jobs.batch"}
)
"""Kinds whose metadata.generation counts the changes of their spec."""

Mutation = Callable[[JsonObject], JsonObject]
"""From a copy of the stored object to the one wanted."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """How an object is to be deleted."""

    grace_s: int | None = None
    """None: the pod's own terminationGracePeriodSeconds."""
    uid: str | None = None
    resource_version: str | None = None


class Registry:
    """All writes to the storage; synchronous, so that every one is atomic on the event loop."""

    def __init__(self, storage: Storage, clock: Callable[[], float] = time.time) -> None:
        self.storage = storage
        self.clock = clock

    @property
    def now(self) -> str:
        """The time as objects carry it."""
        return rfc3339(self.clock())

    def collection(self, resource: Resource) -> Collection:
        """Return where objects of the resource are stored."""
        return self.storage.collection(resource.qualified)

    def read(self, resource: Resource, key: Key) -> Revision:
        """Return one stored object.

        Raises:
            ApiFailure: 404.
        """
        found = self.collection(resource).get(key)
        if found is None:
            raise failures.not_found(resource, key.name)
        return found

    def put(self, obj: JsonObject) -> JsonObject:
        """Create any object given with its apiVersion and kind; the way tests and bootstrapping write.

        Raises:
            ApiFailure: as :meth:`create`; 400 for a kind that is not served.
        """
        resource = BY_KIND.get((obj.get("apiVersion", ""), obj.get("kind", "")))
        if resource is None:
            raise failures.bad_request(f"no such kind: {obj.get('apiVersion')!r} {obj.get('kind')!r}")
        namespace = dig(obj, "metadata", "namespace", default="default") if resource.namespaced else ""
        return self.create(resource, namespace, obj).copy()

    def create(self, resource: Resource, namespace: str, obj: JsonObject) -> Revision:
        """Store a new object.

        Raises:
            ApiFailure: 400 shape, 404 no such namespace, 409 name taken, 422 rules broken.
        """
        check_types(resource, obj := without_nulls(obj))
        obj = {name: value for name, value in obj.items() if name not in ("kind", "apiVersion")}
        self._name(resource, namespace, obj)
        if resource.namespaced:
            self.read(BY_NAME["namespaces"], Key("", namespace))
        strategy = strategy_of(resource)
        if resource.has_status and not strategy.keeps_created_status:
            obj.pop("status", None)
        strategy.default(obj)
        strategy.create(obj, self.storage)
        self._check(resource, obj, list(strategy.check(obj)))
        key = Key(namespace, metadata(obj)["name"])
        if self.collection(resource).get(key) is not None:
            raise failures.already_exists(resource, key.name)
        return self.collection(resource).put(key, obj)

    def update(self, resource: Resource, key: Key, mutate: Mutation, *, status_only: bool = False) -> Revision:
        """Store a changed object; a change of nothing writes nothing.

        The mutation's result is checked against the stored object: a resourceVersion or uid in it is a precondition.

        Raises:
            ApiFailure: 404 gone, 409 precondition failed, 400 or 422 rules broken.
        """
        old = self.read(resource, key)
        new = without_nulls(mutate(old.copy()))
        check_types(resource, new)
        self._check_preconditions(resource, key, new, old)
        new = self._keep_owned(resource, new, old.obj, status_only=status_only)
        strategy = strategy_of(resource)
        strategy.default(new)
        causes = list(strategy.check(new))
        if not status_only:
            causes += strategy.check_update(new, old.obj)
        self._check(resource, new, causes)
        if resource.qualified in _GENERATED_BY_SPEC and new.get("spec") != old.obj.get("spec"):
            metadata(new)["generation"] = metadata(old.obj).get("generation", 0) + 1
        if new == old.obj:
            return old
        if _is_released(new):
            return self.collection(resource).remove(key)
        return self.collection(resource).put(key, new)

    def rewrite(self, resource: Resource, key: Key, mutate: Mutation) -> Revision:
        """Store what the mutation returns as it is: for the server's own writes, which break their kind's rules.

        Raises:
            ApiFailure: 404, or what the mutation raises.
        """
        old = self.read(resource, key)
        new = mutate(old.copy())
        return old if new == old.obj else self.collection(resource).put(key, new)

    def delete(self, resource: Resource, key: Key, how: Deletion) -> Revision:
        """Delete an object: at once, or by marking it where a grace period or a finalizer must pass first.

        Raises:
            ApiFailure: 404, or 409 where a precondition fails.
        """
        old = self.read(resource, key)
        for what, wanted, found, then in (
            ("UID", how.uid, uid_of(old.obj), "deleted and then recreated"),
            ("ResourceVersion", how.resource_version, str(old.version), "modified"),
        ):
            if wanted is not None and wanted != found:
                differ = f"the {what} in the precondition ({wanted}) does not match the {what} in record ({found})"
                raise failures.conflict(resource, key.name, f"{differ}. The object might have been {then}")
        obj = old.copy()
        grace_s = _grace_s(obj, how) if strategy_of(resource).graceful else 0
        if grace_s == 0 and not metadata(obj).get("finalizers"):
            return self.collection(resource).remove(key)
        return self._mark_deleted(resource, old, obj, grace_s)

    def _mark_deleted(self, resource: Resource, old: Revision, obj: JsonObject, grace_s: int) -> Revision:
        found = metadata(obj)
        if is_deleting(obj) and grace_s >= found.get("deletionGracePeriodSeconds", 0):
            return old
        found["deletionTimestamp"] = rfc3339(self.clock() + grace_s)
        found["deletionGracePeriodSeconds"] = grace_s
        return self.collection(resource).put(old.key, obj)

    def _name(self, resource: Resource, namespace: str, obj: JsonObject) -> None:
        found = metadata(obj)
        for name in (*_SERVER_OWNED, "resourceVersion"):
            found.pop(name, None)
        prefix = found.get("generateName")
        if not found.get("name") and prefix:
            found["name"] = prefix + "".join(random.choices(_SUFFIX_LETTERS, k=5))
        if not found.get("name"):
            cause = Cause("metadata.name", "Required value: name or generateName is required", "FieldValueRequired")
            raise failures.invalid(resource, "", [cause])
        if found.get("namespace", namespace) != namespace and resource.namespaced:
            raise failures.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        found.pop("namespace", None)
        if resource.namespaced:
            found["namespace"] = namespace
        found.update(uid=str(uuid.uuid4()), creationTimestamp=self.now)
        if resource.qualified in _GENERATED_BY_SPEC:
            found["generation"] = 1

    def _check(self, resource: Resource, obj: JsonObject, causes: list[Cause]) -> None:
        causes = [*check_metadata(resource, obj), *causes]
        if causes:
            raise failures.invalid(resource, metadata(obj).get("name", ""), causes)

    def _check_preconditions(self, resource: Resource, key: Key, new: JsonObject, old: Revision) -> None:
        found = metadata(new)
        if found.get("name", key.name) != key.name:
            why = f"the name of the object ({found.get('name')}) does not match the name on the URL ({key.name})"
            raise failures.bad_request(why)
        version = found.get("resourceVersion")
        if version and version != str(old.version):
            raise failures.modified(resource, key.name)
        if found.get("uid", uid_of(old.obj)) != uid_of(old.obj):
            uids = f"UID in precondition: {found['uid']}, UID in object meta: {uid_of(old.obj)}"
            raise failures.conflict(resource, key.name, f"Precondition failed: {uids}")

    def _keep_owned(self, resource: Resource, new: JsonObject, old: JsonObject, *, status_only: bool) -> JsonObject:
        kept = metadata(old)
        found = {**metadata(new), "name": kept["name"], "resourceVersion": kept["resourceVersion"]}
        for name in (*_SERVER_OWNED, "generation", "namespace"):
            found.pop(name, None)
            if name in kept:
                found[name] = kept[name]
        if status_only:
            merged = {**old, "metadata": found}
            found.pop("ownerReferences", None)
            if "ownerReferences" in kept:
                found["ownerReferences"] = kept["ownerReferences"]
            merged.pop("status", None)
            return {**merged, "status": new["status"]} if "status" in new else merged
        new = {n: v for n, v in new.items() if n not in ("kind", "apiVersion")} | {"metadata": found}
        if resource.has_status:
            new.pop("status", None)
            new |= {"status": old["status"]} if "status" in old else {}
        return new


def _grace_s(obj: JsonObject, how: Deletion) -> int:
    unbound = not dig(obj, "spec", "nodeName")
    if unbound or dig(obj, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    asked = how.grace_s if how.grace_s is not None else dig(obj, "spec", "terminationGracePeriodSeconds", default=30)
    return max(0, int(asked))


def _is_released(obj: JsonObject) -> bool:
    found = metadata(obj)
    waiting = found.get("finalizers") or found.get("deletionGracePeriodSeconds")
    return is_deleting(obj) and not waiting
