"""Which templates should exist: pure, from the pods that wait, the namespaces that opted in and what exists."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import msgspec

from gcushare.core.assignments import PodRef
from gcushare.core.units import MemoryUnit
from gcushare.kube.collections import ObjectCache
from gcushare.vendors import Vendor
from gcushare.wire.contracts import EXTENDER
from gcushare.wire.dra.claim_names import ClaimSize, parse_template_name
from gcushare.wire.dra.claims import ResourceClaimTemplate, TemplateSpec, template_spec
from gcushare.wire.objects import ObjectHead, ObjectMeta, Pod
from gcushare.wire.pods import pod_ref

OWN_LABELS = {"app.kubernetes.io/managed-by": EXTENDER}
UNUSED_S = 3600.0
"""How long a template is kept after the last waiting pod: a Job that starts every half hour needs its template."""
MAX_TEMPLATES = 256
"""Of one namespace: pods of more different sizes are a mistake or an attack on the API server's storage."""
_MAX_SPEC = 4096
"""Bytes of a template's spec as JSON. Ours have a tenth of that."""
_PENDING = "Pending"


@dataclass(frozen=True, slots=True, order=True)
class TemplateKey:
    """A template's place."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Step(enum.Enum):
    """What to do with a template."""

    CREATE = "create"
    DELETE = "delete"
    REFUSE = "refuse"
    """The namespace has too many."""


@dataclass(frozen=True, slots=True)
class DueStep:
    """A step, and the moment from which it is due."""

    step: Step
    due_s: float = 0.0


def trimmed(template: ResourceClaimTemplate) -> ResourceClaimTemplate:
    """A template without what no step looks at: anyone who gives one our label may write megabytes into it.

    A spec that is larger than any of ours is left out, so that it differs from them.
    """
    meta = template.metadata
    kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        deletion_timestamp=meta.deletion_timestamp,
    )
    is_small = len(msgspec.json.encode(template.spec)) <= _MAX_SPEC
    return ResourceClaimTemplate(metadata=kept, spec=template.spec if is_small else TemplateSpec())


class TemplatePlan:
    """The state of the watches and the steps that follow from it. Times are of a monotonic clock.

    ``units``: what a unit of each vendor is. ``unused_s``: how long a template is kept after the last pod that
    named it. ``on_change`` is called when ``changed`` has grown.
    """

    def __init__(
        self, units: Sequence[tuple[Vendor, MemoryUnit]], unused_s: float, on_change: Callable[[], None]
    ) -> None:
        self._units = units
        self._unused_s = unused_s
        self._on_change = on_change
        self._users: defaultdict[TemplateKey, dict[str, PodRef]] = defaultdict(dict)
        self.existing: dict[TemplateKey, ResourceClaimTemplate] = {}
        self._opted_in: set[str] = set()
        self._count: Counter[str] = Counter()
        self._unused_since: dict[TemplateKey, float] = {}
        self.changed: set[TemplateKey] = set()
        """Keys whose plan may differ from before; the caller that carries plans out empties it."""
        self._named_by: dict[str, frozenset[TemplateKey]] = {}
        """By uid of a waiting pod, the templates that it names."""
        self.namespaces: ObjectCache[ObjectHead] = ObjectCache(self._change_namespace)
        self.templates: ObjectCache[ResourceClaimTemplate] = ObjectCache(self._change_template)

    def __len__(self) -> int:
        return len(self.existing)

    def users(self, key: TemplateKey) -> Collection[PodRef]:
        """The waiting pods that name it."""
        return tuple(self._users.get(key, {}).values())

    def spec_of(self, key: TemplateKey) -> TemplateSpec | None:
        """What a template of that name must say; None if the name is not one of ours."""
        for vendor, unit in self._units:
            size: ClaimSize | None = parse_template_name(key.name, vendor.claims.template_prefix)
            if size is not None:
                return template_spec(size, vendor, unit)
        return None

    def next_step(self, key: TemplateKey, now_s: float) -> DueStep | None:
        """What has to be done about a template, and when; None if nothing."""
        wanted, found = key.namespace in self._opted_in and bool(self._users.get(key)), self.existing.get(key)
        if found is None:
            self._unused_since.pop(key, None)
            if not wanted:
                return None
            return DueStep(Step.CREATE if self._count[key.namespace] < MAX_TEMPLATES else Step.REFUSE)
        if found.metadata.deletion_timestamp is not None:
            return None  # the watch shows its end
        if found.spec != self.spec_of(key):
            return DueStep(Step.DELETE)  # it cannot be changed; it is created again if a pod names it
        if wanted:
            self._unused_since.pop(key, None)
            return None
        return DueStep(Step.DELETE, self._unused_since.setdefault(key, now_s) + self._unused_s)

    def pod_applied(self, pod: Pod) -> None:
        """Update a pod that was added or changed. It waits until its containers have started."""
        named: frozenset[TemplateKey] = frozenset()
        if pod.spec.resource_claims and pod.status.phase == _PENDING:
            found = (each.resource_claim_template_name for each in pod.spec.resource_claims)
            keys = (TemplateKey(pod.metadata.namespace, name) for name in found)
            named = frozenset(key for key in keys if self.spec_of(key) is not None)
        self._set_named(pod.metadata.uid, named)
        for key in named:
            self._users[key][pod.metadata.uid] = pod_ref(pod)

    def pod_deleted(self, uid: str) -> None:
        """Remove a pod that is gone; repeatable."""
        self._set_named(uid, frozenset())

    def pods_retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every pod but ``uids``, which are all that existed at ``version``."""
        for uid in self._named_by.keys() - uids:
            self._set_named(uid, frozenset())

    def _set_named(self, uid: str, named: frozenset[TemplateKey]) -> None:
        before = self._named_by.pop(uid, frozenset())
        if named:
            self._named_by[uid] = named
        for key in before - named:
            del self._users[key][uid]
            if not self._users[key]:
                del self._users[key]
        for key in before ^ named:
            self._mark(key)

    def _change_namespace(self, before: ObjectHead | None, after: ObjectHead | None) -> None:
        if before is None or after is None:
            name = (before or after).metadata.name  # type: ignore[union-attr]  # one of both is there
            self._opted_in = {each.metadata.name for each in self.namespaces.objects.values()}
            for key in (*self._users, *self.existing):
                if key.namespace == name:
                    self._mark(key)

    def _change_template(self, before: ResourceClaimTemplate | None, after: ResourceClaimTemplate | None) -> None:
        metadata = (after or before).metadata  # type: ignore[union-attr]  # one of both is there
        key = TemplateKey(metadata.namespace, metadata.name)
        self._count[key.namespace] += (after is not None) - (before is not None)
        if after is not None:
            self.existing[key] = after
        else:
            del self.existing[key]
        self._mark(key)

    def _mark(self, key: TemplateKey) -> None:
        self.changed.add(key)
        self._on_change()
