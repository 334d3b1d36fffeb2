"""What a pod asks for through a claim of ours: the admission policy wrote the template's name into the pod."""

from __future__ import annotations

from gcushare.core.claims import parse_template_name
from gcushare.core.requests import CardRequest, PodRequest
from gcushare.vendors.vendor import Vendor
from gcushare.wire.objects import Pod


def claimed_request(pod: Pod, vendor: Vendor) -> PodRequest | None:
    """The request that a pod's template stands for, as of a pod that asks for the resource; None if it names none."""
    prefix = vendor.claims.template_prefix
    for entry in pod.spec.resource_claims:
        if entry.name == f"gcushare-{prefix}":
            size = parse_template_name(entry.resource_claim_template_name, prefix)
            if size is not None:
                return PodRequest(containers=(), cards=CardRequest(units=size.units, cards=size.cards))
    return None
