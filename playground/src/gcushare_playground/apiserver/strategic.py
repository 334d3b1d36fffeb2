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
_PRIMITIVE_SETS = frozenset({"finalizers", "podCIDRs"})
"""Lists of plain values that merge as sets; every other list of plain values is replaced."""

_PATCH, _RETAIN_KEYS = "$patch", "$retainKeys"
_ORDER, _DELETE_VALUES = "$setElementOrder/", "$deleteFromPrimitiveList/"


def strategic_merge(target: JsonObject, patch: JsonObject) -> JsonObject:
    """Return ``target`` with a strategic merge patch applied.

    Raises:
        ApiFailure: 400 for an unknown directive or a list element without its merge key.
    """
    directive = patch.get(_PATCH)
    if directive == "replace":
        replaced: JsonObject = _without_directives(patch)
        return replaced
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type found: {directive!r}; known: delete, merge, replace")
    return _merge_fields(_retained(target, patch), patch)


def _retained(target: JsonObject, patch: JsonObject) -> JsonObject:
    keys = patch.get(_RETAIN_KEYS)
    return dict(target) if keys is None else {name: value for name, value in target.items() if name in keys}


def _merge_fields(merged: JsonObject, patch: JsonObject) -> JsonObject:
    for name, value in patch.items():
        if name in (_PATCH, _RETAIN_KEYS) or name.startswith(_ORDER):
            continue
        if name.startswith(_DELETE_VALUES):
            field = name.removeprefix(_DELETE_VALUES)
            merged[field] = [item for item in merged.get(field) or [] if item not in value]
        elif value is None:
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
    if name in _PRIMITIVE_SETS:
        return [*current, *(item for item in patch if item not in current)]
    key = _merge_key(name, [*patch, *current])
    if key is None:
        return [_without_directives(item) for item in patch]
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in patch):
        return [_without_directives(item) for item in patch if item.get(_PATCH) != "replace"]
    return _merge_elements(name, key, list(current), patch)


def _merge_key(name: str, elements: list[Any]) -> str | None:
    for key in _MERGE_KEYS.get(name, ()):
        if any(isinstance(element, dict) and key in element for element in elements):
            return key
    return None


def _merge_elements(name: str, key: str, merged: list[Any], patch: list[Any]) -> list[Any]:
    for element in patch:
        if not isinstance(element, dict) or key not in element:
            raise bad_request(f"map: {element!r} does not contain declared merge key: {key} (list {name!r})")
        index = next((i for i, item in enumerate(merged) if item.get(key) == element[key]), None)
        if element.get(_PATCH) == "delete":
            merged = [item for item in merged if item.get(key) != element[key]]
        elif index is None:
            merged.append(_without_directives(element))
        else:
            merged[index] = strategic_merge(merged[index], element)
    return merged


def _without_directives(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_directives(v) for k, v in value.items() if v is not None and not k.startswith("$")}
    if isinstance(value, list):
        return [_without_directives(item) for item in value]
    return value
