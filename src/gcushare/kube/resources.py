"""The API server's resources: their paths, the type each decodes to, and how their versions compare."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from gcushare.core.errors import RemoteContractError
from gcushare.wire.dra.claims import PodWithClaims, ResourceClaim, ResourceClaimTemplate
from gcushare.wire.dra.slices import API_VERSION, ResourceSlice
from gcushare.wire.objects import Event, Lease, Node, Pod
from gcushare.wire.occupants import OccupantPod, PodDisruptionBudget

T = TypeVar("T")
JsonObject: TypeAlias = dict[str, Any]

_MAX_SEGMENT_CHARS = 253
"""Longest name Kubernetes gives anything (a DNS subdomain)."""


class ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """One kind of object. ``prefix`` is ``api/v1`` or ``apis/<group>/<version>``; its JSON is decoded to ``type``."""

    prefix: str
    plural: str
    type: type[T]
    namespaced: bool = True

    def path(self, name: str | None = None, *, namespace: str | None = None, subresource: str | None = None) -> str:
        """Build the path of an object or its subresource, or of the collection if ``name`` is None.

        Raises:
            RemoteContractError: the name would address another object (names come from requests and annotations).
            ValueError: the namespace is missing.
        """
        if name is not None and self.namespaced and namespace is None:
            raise ValueError(f"{self.plural} {name!r} needs a namespace")
        parts = [self.prefix]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", _segment("namespace", namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment(self.plural, name))
            if subresource is not None:
                parts.append(subresource)
        return "/" + "/".join(parts)


CLAIMS_API = f"apis/{API_VERSION}"

PODS = Resource("api/v1", "pods", Pod)
PODS_WITH_CLAIMS = Resource("api/v1", "pods", PodWithClaims)
OCCUPANTS = Resource("api/v1", "pods", OccupantPod)
NODES = Resource("api/v1", "nodes", Node, namespaced=False)
EVENTS = Resource("api/v1", "events", Event)
LEASES = Resource("apis/coordination.k8s.io/v1", "leases", Lease)
RESOURCE_SLICES = Resource(CLAIMS_API, "resourceslices", ResourceSlice, namespaced=False)
RESOURCE_CLAIMS = Resource(CLAIMS_API, "resourceclaims", ResourceClaim)
RESOURCE_CLAIM_TEMPLATES = Resource(CLAIMS_API, "resourceclaimtemplates", ResourceClaimTemplate)
POD_DISRUPTION_BUDGETS = Resource("apis/policy/v1", "poddisruptionbudgets", PodDisruptionBudget)
CONFIG_MAPS = Resource("api/v1", "configmaps", ConfigMap)
# Resources without a type: read and written as plain JSON objects.
DEVICE_CLASSES: Resource[JsonObject] = Resource(CLAIMS_API, "deviceclasses", dict, namespaced=False)
NAMESPACES: Resource[JsonObject] = Resource("api/v1", "namespaces", dict, namespaced=False)
SLICES_OF_ALL_DRIVERS: Resource[JsonObject] = Resource(CLAIMS_API, "resourceslices", dict, namespaced=False)
"""Other drivers' devices may have what ours never have."""


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects objects of a collection on the server; empty text selects all."""

    namespace: str | None = None
    fields: str = ""
    labels: str = ""

    def query(self) -> dict[str, str]:
        pairs = {"fieldSelector": self.fields, "labelSelector": self.labels}
        return {key: value for key, value in pairs.items() if value}


EVERYTHING = Selector()


def with_query(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path


@lru_cache(maxsize=1024)
def _segment(what: str, text: str) -> str:
    # "..", "/" or an empty name would address another object, possibly of another kind.
    if not text or len(text) > _MAX_SEGMENT_CHARS or text in {".", ".."} or "/" in text or "%" in text:
        raise RemoteContractError(
            f"{text[:80]!r} is not a name of {what}: expected 1 to {_MAX_SEGMENT_CHARS} characters without '/' and '%'"
        )
    return quote(text, safe="")


def is_at_least(seen: str, wanted: str) -> bool:
    """Whether a state at resourceVersion ``seen`` includes everything up to ``wanted``; False if that is unknown.

    Both are of one collection. Source: the API's conventions make versions opaque, but all etcd-backed servers use
    decimal numbers, and Kubernetes documents them as comparable within a resource from 1.35 on. Other versions are only
    compared for equality.
    """
    if all(version.isascii() and version.isdigit() for version in (seen, wanted)):
        return int(seen) >= int(wanted)
    return bool(seen) and seen == wanted
