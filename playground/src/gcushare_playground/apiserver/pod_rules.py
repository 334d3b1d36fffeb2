"""What the API server makes of a pod's spec: defaults, and the rules that matter to a system of extended resources.

Source: ``pkg/apis/core/v1/defaults.go``, ``pkg/apis/core/validation/validation.go`` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare_playground.amounts import is_extended
from gcushare_playground.apiserver.failures import Cause
from gcushare_playground.apiserver.objects import JsonObject, copy_of, dig
from gcushare_playground.apiserver.quantities import canonicalise, parse

_POD_DEFAULTS: JsonObject = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
    "securityContext": {},
}
_CREATED_POD_DEFAULTS: JsonObject = {"enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority"}
_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_UNREADY_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def containers_of(spec: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield every container with the path that names it in messages."""
    for field in _CONTAINER_LISTS:
        for index, container in enumerate(spec.get(field) or []):
            yield f"spec.{field}[{index}]", container


def default_spec(spec: JsonObject) -> None:
    """Fill in what a pod template leaves open; in place, repeatable.

    Raises:
        ApiFailure: 400 for a quantity that is none.
    """
    for name, value in _POD_DEFAULTS.items():
        spec.setdefault(name, copy_of({"": value})[""])
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for _, container in containers_of(spec):
        _default_container(container)


def _default_container(container: JsonObject) -> None:
    image = str(container.get("image", ""))
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    pinned = "@" in image or tag not in ("", "latest")
    container.setdefault("imagePullPolicy", "IfNotPresent" if pinned else "Always")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
    resources = container.setdefault("resources", {})
    for kind in ("limits", "requests"):
        canonicalise(resources.get(kind))


def admit_spec(spec: JsonObject) -> None:
    """Add what a pod gets and a template does not: requests from limits, account, priority, tolerations."""
    for _, container in containers_of(spec):
        for resource, limit in (container["resources"].get("limits") or {}).items():
            container["resources"].setdefault("requests", {}).setdefault(resource, limit)
    for name, value in _CREATED_POD_DEFAULTS.items():
        spec.setdefault(name, value)
    spec["serviceAccountName"] = spec["serviceAccount"] = spec.get("serviceAccountName") or "default"
    spec.setdefault("priority", 0)
    tolerations = spec.setdefault("tolerations", [])
    for taint in _UNREADY_TAINTS:
        if not any(
            t.get("key") in (taint, None, "") and t.get("effect") in ("NoExecute", None, "") for t in tolerations
        ):
            tolerations.append({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def check_spec(spec: JsonObject, prefix: str = "") -> Iterator[Cause]:
    """Yield every rule that a defaulted pod spec breaks; ``prefix`` is the path of a template."""
    if not spec.get("containers"):
        yield Cause(f"{prefix}spec.containers", "Required value", "FieldValueRequired")
    for path, container in containers_of(spec):
        yield from _check_container(prefix + path, container)


def _check_container(path: str, container: JsonObject) -> Iterator[Cause]:
    for name in ("name", "image"):
        if not container.get(name):
            yield Cause(f"{path}.{name}", "Required value", "FieldValueRequired")
    limits, requests = (dig(container, "resources", kind, default={}) for kind in ("limits", "requests"))
    for kind, quantities in (("limits", limits), ("requests", requests)):
        for resource, amount in quantities.items():
            yield from check_amount(f"{path}.resources.{kind}[{resource}]", resource, amount)
    for resource, amount in requests.items():
        yield from _check_request(path, resource, amount, limits.get(resource))


def check_amount(path: str, resource: str, amount: str) -> Iterator[Cause]:
    """Yield what is wrong with one amount: negative, or a fraction of something that has none."""
    quantity = parse(amount)
    if quantity.value < 0:
        yield Cause(path, f'Invalid value: "{amount}": must be greater than or equal to 0')
    if is_extended(resource) and not quantity.is_integer:
        yield Cause(path, f'Invalid value: "{amount}": must be an integer')


def _check_request(path: str, resource: str, amount: str, limit: str | None) -> Iterator[Cause]:
    field = f"{path}.resources.requests"
    if limit is None:
        if is_extended(resource):
            why = "Required value: Limit must be set for non overcommitable resources"
            yield Cause(f"{path}.resources.limits", why, "FieldValueRequired")
        return
    requested, limited = parse(amount).value, parse(limit).value
    if is_extended(resource) and requested != limited:
        yield Cause(field, f'Invalid value: "{amount}": must be equal to {resource} limit of {limit}')
    elif requested > limited:
        yield Cause(field, f'Invalid value: "{amount}": must be less than or equal to {resource} limit of {limit}')


_FROZEN = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_spec_update(new: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Yield what a pod update may not change: everything but images, deadline, tolerations and gates."""
    if _frozen_part(new) != _frozen_part(old):
        yield Cause("spec", _FROZEN, "FieldValueForbidden")


def _frozen_part(spec: JsonObject) -> JsonObject:
    open_fields = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
    frozen = copy_of({name: value for name, value in spec.items() if name not in open_fields})
    for _, container in containers_of(frozen):
        container.pop("image", None)
    return frozen
