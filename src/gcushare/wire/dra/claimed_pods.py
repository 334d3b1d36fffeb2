"""Pods with claims: what a pod asks for by the template that the admission policy named, and which claims it has."""

from __future__ import annotations

from gcushare.core.claim_names import parse_template_name
from gcushare.core.requests import CardRequest, PodRequest
from gcushare.vendors.vendor import Vendor
from gcushare.wire.dra import DraObject
from gcushare.wire.objects import Pod, PodResourceClaim, PodSpec, PodStatus
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder


def claimed_request(pod: Pod, vendor: Vendor) -> PodRequest | None:
    """The request that a pod's template stands for, as of a pod that asks for the resource; None if it names none."""
    prefix = vendor.claims.template_prefix
    for entry in pod.spec.resource_claims:
        if entry.name == f"gcushare-{prefix}":
            size = parse_template_name(entry.resource_claim_template_name, prefix)
            if size is not None:
                return PodRequest(containers=(), cards=CardRequest(units=size.units, cards=size.cards))
    return None


class _ClaimEntry(PodResourceClaim, frozen=True, gc=False, kw_only=True, rename="camel"):
    resource_claim_name: str = ""


class _NamedClaim(DraObject, frozen=True):
    resource_claim_name: str = ""


class _ClaimingSpec(PodSpec, frozen=True, gc=False, kw_only=True, rename="camel"):
    resource_claims: tuple[_ClaimEntry, ...] = ()


class _ClaimingStatus(PodStatus, frozen=True, gc=False, kw_only=True, rename="camel"):
    resource_claim_statuses: tuple[_NamedClaim, ...] = ()
    extended_resource_claim_status: _NamedClaim | None = None


class PodWithClaims(Pod, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A pod with the names of its claims: those that it names, and those that Kubernetes made for it."""

    spec: _ClaimingSpec = _ClaimingSpec()
    status: _ClaimingStatus = _ClaimingStatus()

    @property
    def claim_names(self) -> frozenset[str]:
        """The names of its claims, all in its own namespace, as far as they exist."""
        names = {each.resource_claim_name for each in self.spec.resource_claims}
        names |= {each.resource_claim_name for each in self.status.resource_claim_statuses}
        if (extended := self.status.extended_resource_claim_status) is not None:
            names.add(extended.resource_claim_name)
        return frozenset(names - {""})


POD_WITH_CLAIMS = BoundedJsonDecoder(PodWithClaims, "a pod", limit_bytes=OBJECT_BYTES, max_depth=None)
