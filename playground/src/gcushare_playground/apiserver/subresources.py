"""The parts of objects with verbs of their own: binding, eviction, tokens.

Source: ``pkg/registry/core/pod/storage``, ``pkg/registry/core/serviceaccount/storage`` of Kubernetes.
"""

from __future__ import annotations

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.identities import Identities, service_account
from gcushare_playground.apiserver.objects import (
    JsonObject,
    Key,
    dig,
    has_labels,
    is_deleting,
    metadata,
    rfc3339,
    set_condition,
    uid_of,
)
from gcushare_playground.apiserver.registry import Deletion, Registry
from gcushare_playground.apiserver.resources import BY_NAME

PODS = BY_NAME["pods"]
SUCCESS: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
NO_DRY_RUN = "dryRun is not known here: the double would write"
_TOKEN_LIFETIME_S = 3600


def bind(registry: Registry, key: Key, binding: JsonObject) -> None:
    """Assign a pod to a node.

    Raises:
        ApiFailure: 404 no such pod, or as :func:`bound`.
    """
    registry.rewrite(PODS, key, lambda pod: bound(pod, key, binding, registry.now))


def bound(pod: JsonObject, key: Key, binding: JsonObject, now: str) -> JsonObject:
    """Return a pod, which is changed, with its node and the binding's annotations, written together.

    Raises:
        ApiFailure: 400 another name, 500 no target, and 409 bound already, deleting, another uid or version.
    """
    if dig(binding, "metadata", "name", default=key.name) != key.name:
        raise failures.bad_request("name in URL does not match name in Binding object")
    node = dig(binding, "target", "name", default="")
    if not node or dig(binding, "target", "kind", default="Node") != "Node":
        # kube-apiserver hands the field errors out unwrapped here, which its error writer can only call a 500.
        raise failures.ApiFailure(500, "", "target.name: Required value")

    _check_bindable(pod, key, metadata(binding))
    pod["spec"]["nodeName"] = node
    if added := dig(binding, "metadata", "annotations"):
        metadata(pod)["annotations"] = {**(metadata(pod).get("annotations") or {}), **added}
    set_condition(pod, {"type": "PodScheduled", "status": "True", "lastProbeTime": None}, now)
    return pod


def _check_bindable(pod: JsonObject, key: Key, asked: JsonObject) -> None:
    for word, name in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        wanted, found = asked.get(name), metadata(pod).get(name)
        if wanted and wanted != found:
            why = f"Precondition failed: {word} in precondition: {wanted}, {word} in object meta: {found}"
            raise failures.conflict(PODS, key.name, why)
    if is_deleting(pod):
        why = f"pod {key.name} is being deleted, cannot be assigned to a host"
    elif assigned := dig(pod, "spec", "nodeName"):
        why = f'pod {key.name} is already assigned to node "{assigned}"'
    elif dig(pod, "spec", "schedulingGates"):
        why = f"pod {key.name} has non-empty .spec.schedulingGates"
    else:
        return
    raise failures.conflict(PODS, key.name, why, subresource="binding")


def evict(registry: Registry, key: Key, eviction: JsonObject) -> None:
    """Delete a pod, unless a disruption budget whose status allows none covers it.

    Raises:
        ApiFailure: 404, 409 uid, or 429 where a budget forbids it.
    """
    pod = registry.read(PODS, key).obj
    for budget in registry.storage.collection("poddisruptionbudgets.policy").view().walk(key.namespace):
        covers = has_labels(pod, dig(budget.obj, "spec", "selector", "matchLabels", default={}))
        if covers and dig(budget.obj, "status", "disruptionsAllowed", default=1) <= 0:
            raise failures.budget_refuses(budget.obj["metadata"]["name"])
    registry.delete(PODS, key, read_deletion(eviction.get("deleteOptions") or {}))


def read_deletion(options: JsonObject) -> Deletion:
    """Read a DeleteOptions document.

    Raises:
        ApiFailure: 400 for a grace period that is not a number, or a dry run.
    """
    grace_s = options.get("gracePeriodSeconds")
    if grace_s is not None and (not isinstance(grace_s, int) or isinstance(grace_s, bool) or grace_s < 0):
        raise failures.bad_request(f"gracePeriodSeconds must be a non-negative integer, got {grace_s!r}")
    if options.get("dryRun"):
        raise failures.bad_request(NO_DRY_RUN)
    return Deletion(
        grace_s=grace_s,
        uid=dig(options, "preconditions", "uid"),
        resource_version=dig(options, "preconditions", "resourceVersion"),
    )


def issue_token(registry: Registry, identities: Identities, key: Key, asked: JsonObject) -> JsonObject:
    """Answer a TokenRequest; a token bound to a pod carries the pod's node.

    Raises:
        ApiFailure: 404 no such account or pod, 409 another uid.
    """
    registry.read(BY_NAME["serviceaccounts"], key)
    reference = dig(asked, "spec", "boundObjectRef", default={})
    node = pod_name = ""
    if reference.get("kind") == "Pod":
        pod_name = str(reference.get("name", ""))
        pod = registry.read(PODS, Key(key.namespace, pod_name)).obj
        if reference.get("uid", uid_of(pod)) != uid_of(pod):
            why = f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record"
            raise failures.conflict(PODS, pod_name, why)
        node = dig(pod, "spec", "nodeName", default="")
    token = identities.issue(service_account(key.namespace, key.name, node=node, pod=pod_name))
    lifetime_s = dig(asked, "spec", "expirationSeconds", default=_TOKEN_LIFETIME_S)
    status = {"token": token, "expirationTimestamp": rfc3339(registry.clock() + lifetime_s)}
    head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
    return {**head, "metadata": {"name": key.name, "namespace": key.namespace}, "spec": asked.get("spec", {}),
            "status": status}  # fmt: skip
