"""Strategic merge patch: lists of named things merge by their key instead of being replaced.

The keys of the built-in kinds are looked up by field name: the few names that mean different lists in different
kinds (``ports``) are distinguished by the elements.
Source: ``patchMergeKey`` tags of ``k8s.io/api``; directives of ``k8s.io/apimachinery/pkg/util/strategicpatch``.
"""

from __future__ import annotations

from typing import Any

from gcushare_playground.apiserver.failures import bad_request
from gcushare_playground.apiserver.objects import JsonObject

_MERGE_KEYS: dict[str, tuple[str, ...]] = {
    "addresses": ("type",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "matchConditions": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "ports": ("containerPort", "port"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "secrets": ("name",),
    "topologySpreadConstraints": ("topologyKey",),
    "volumeClaimTemplates": (),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
    "volumesAttached": ("name",),
    "webhooks": ("name",),
}
_RETAIN_KEYS, _ORDER = "$retainKeys", "$setElementOrder/"


def strategic_merge(target: JsonObject, patch: JsonObject) -> JsonObject:
    """Return ``target`` with a strategic merge patch applied.

    Raises:
        ApiFailure: 400 for a directive that is not known here, or a list element without its merge key.
    """
    keys = patch.get(_RETAIN_KEYS)
    merged = {name: value for name, value in target.items() if keys is None or name in keys}
    for name, value in patch.items():
        if name == _RETAIN_KEYS or name.startswith(_ORDER):
            continue
        if name.startswith("$"):
            raise bad_request(f"directive {name!r} is not known here: use a merge patch")
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_value(name, merged.get(name), value)
    return merged


def _merge_value(name: str, current: Any, patch: Any) -> Any:
    if isinstance(patch, dict):
        return strategic_merge(current if isinstance(current, dict) else {}, patch)
    if isinstance(patch, list):
        return _merge_list(name, current if isinstance(current, list) else [], patch)
    return patch


def _merge_list(name: str, current: list[Any], patch: list[Any]) -> list[Any]:
    of_elements = {key for element in (*patch, *current) if isinstance(element, dict) for key in element}
    key = next((key for key in _MERGE_KEYS.get(name, ()) if key in of_elements), None)
    if key is None:
        return patch
    merged = list(current)
    for element in patch:
        if not isinstance(element, dict) or key not in element:
            raise bad_request(f"map: {element!r} does not contain declared merge key: {key} (list {name!r})")
        index = next((i for i, item in enumerate(merged) if item.get(key) == element[key]), None)
        if element.get("$patch") == "delete":
            merged = [item for item in merged if item.get(key) != element[key]]
        elif index is None:
            merged.append(strategic_merge({}, element))
        else:
            merged[index] = strategic_merge(merged[index], element)
    return merged
