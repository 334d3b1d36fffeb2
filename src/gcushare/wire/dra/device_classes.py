"""DeviceClasses that stand for extended resources: kube-scheduler gives their devices to pods that ask for those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gcushare.vendors import Vendor


def extended_resources(classes: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The extended resource that each DeviceClass stands for, by the class's name; "" for one that stands for none."""
    return {
        str(each["metadata"]["name"]): str((each.get("spec") or {}).get("extendedResourceName", "")) for each in classes
    }


def rival_classes(resources: Mapping[str, str], vendor: Vendor) -> list[str]:
    """The other classes that stand for whole cards of ``vendor``, as ours does: kube-scheduler takes one of them."""
    ours, resource = vendor.claims.whole_class, vendor.whole_card_resource
    if resources.get(ours) != resource:
        return []
    return sorted(name for name, stands_for in resources.items() if stands_for == resource and name != ours)
