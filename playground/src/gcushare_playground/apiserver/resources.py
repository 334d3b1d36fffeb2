"""What the API serves, as a table: adding a kind is one line here.

Printer columns live in :mod:`tables`, defaulting and validation in :mod:`strategies`; a kind without an entry there
gets the generic ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ALL_VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
REVIEW_VERBS = ("create",)


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of one API version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    fields: frozenset[str] = field(default_factory=frozenset)
    """Field selectors beyond metadata.name and metadata.namespace; others are refused as kube-apiserver does."""
    verbs: tuple[str, ...] = ALL_VERBS

    @property
    def api_version(self) -> str:
        """The ``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name used in messages, and of the collection that stores its objects: ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def singular(self) -> str:
        """The singular name kubectl accepts."""
        return self.kind.lower()

    @property
    def has_status(self) -> bool:
        """Whether status is written through its own subresource only."""
        return "status" in self.subresources

    @property
    def root(self) -> str:
        """The URL path of its API version."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


_POD_FIELDS = frozenset(
    f"{part}.{name}"
    for part, names in {
        "spec": ("nodeName", "restartPolicy", "schedulerName", "serviceAccountName"),
        "status": ("phase", "podIP", "nominatedNodeName"),
    }.items()
    for name in names
)
_INVOLVED = ("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
_EVENT_FIELDS = frozenset({f"involvedObject.{n}" for n in _INVOLVED} | {"reason", "type", "reportingComponent"})
_ALL = ("all",)
_POD_SUBRESOURCES = ("status", "binding", "eviction", "log", "exec")

RESOURCES: tuple[Resource, ...] = (
    Resource("", "v1", "ConfigMap", "configmaps", short_names=("cm",)),
    Resource("", "v1", "Endpoints", "endpoints", short_names=("ep",)),
    Resource("", "v1", "Event", "events", short_names=("ev",), fields=_EVENT_FIELDS),
    Resource("", "v1", "LimitRange", "limitranges", short_names=("limits",)),
    Resource(
        "", "v1", "Namespace", "namespaces", False, ("ns",), ("status",), fields=frozenset({"status.phase"})
    ),
    Resource("", "v1", "Node", "nodes", False, ("no",), ("status",)),
    Resource("", "v1", "Pod", "pods", True, ("po",), _POD_SUBRESOURCES, _ALL, _POD_FIELDS),
    Resource("", "v1", "ResourceQuota", "resourcequotas", True, ("quota",), ("status",)),
    Resource("", "v1", "Secret", "secrets", fields=frozenset({"type"})),
    Resource(
        "", "v1", "Service", "services", True, ("svc",), ("status",), _ALL, frozenset({"spec.clusterIP", "spec.type"})
    ),
    Resource("", "v1", "ServiceAccount", "serviceaccounts", True, ("sa",), ("token",)),
    Resource("admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", False),
    Resource(
        "admissionregistration.k8s.io", "v1", "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", False
    ),
    Resource(
        "admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False
    ),
    Resource(
        "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False,
        subresources=("status",),
    ),
    Resource(
        "admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings",
        False,
    ),
    Resource(
        "admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False
    ),
    Resource("apps", "v1", "DaemonSet", "daemonsets", True, ("ds",), ("status",), _ALL),
    Resource("apps", "v1", "Deployment", "deployments", True, ("deploy",), ("status",), _ALL),
    Resource(
        "apps", "v1", "ReplicaSet", "replicasets", True, ("rs",), ("status",), _ALL, frozenset({"status.replicas"})
    ),
    Resource("apps", "v1", "StatefulSet", "statefulsets", True, ("sts",), ("status",), _ALL),
    Resource("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", False, verbs=REVIEW_VERBS),
    Resource("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", False, verbs=REVIEW_VERBS),
    Resource("batch", "v1", "Job", "jobs", True, (), ("status",), _ALL, frozenset({"status.successful"})),
    Resource("coordination.k8s.io", "v1", "Lease", "leases"),
    Resource("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", True, ("netpol",)),
    Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, ("pdb",), ("status",)),
    Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", False),
    Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", False),
    Resource("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    Resource("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    Resource("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False),
    Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", subresources=("status",)),
    Resource("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"),
    Resource(
        "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False,
        fields=frozenset({"spec.nodeName", "spec.driver"}),
    ),
    Resource("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, ("pc",)),
)  # fmt: skip

BY_PATH: dict[tuple[str, str, str], Resource] = {(r.group, r.version, r.plural): r for r in RESOURCES}
BY_KIND: dict[tuple[str, str], Resource] = {(r.api_version, r.kind): r for r in RESOURCES}
BY_NAME: dict[str, Resource] = {r.qualified: r for r in RESOURCES}
"""By message name: ``pods``, ``deployments.apps``."""


def is_stored(resource: Resource) -> bool:
    """Tell whether objects of the resource are kept (reviews are only answered)."""
    return "list" in resource.verbs
