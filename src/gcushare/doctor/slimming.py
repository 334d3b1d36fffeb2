"""Kubernetes objects as they go into a bundle: only what is listed here, so that a new field cannot give away a secret.

Values of environment variables never go in, annotations only where they are ours or of systems that share cards. What
is kept may still quote a secret: redacting comes after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gcushare.doctor.redacting import is_secret_name

JsonObject = dict[str, Any]

_ANNOTATIONS = (
    "gcushare.io/",
    "enflame.com/",
    "ALIYUN_COM_GPU_MEM_",
    "aliyun.com/",
    "hami.io/",
    "4pd.io/",
    "volcano.sh/",
    "kubernetes.io/config.",
    "deprecated.daemonset.template.generation",
    "meta.helm.sh/",
)
_METADATA = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "labels",
    "ownerReferences",
)
_POD_SPEC = (
    "nodeName",
    "schedulerName",
    "priority",
    "priorityClassName",
    "nodeSelector",
    "tolerations",
    "serviceAccountName",
    "hostNetwork",
    "runtimeClassName",
    "restartPolicy",
    "schedulingGates",
)
_CONTAINER = ("name", "image", "resources", "ports", "restartPolicy")
_EVENT = (
    "type",
    "reason",
    "message",
    "count",
    "firstTimestamp",
    "lastTimestamp",
    "eventTime",
    "involvedObject",
    "source",
)
_WORKLOAD_SPEC = ("replicas", "selector", "strategy", "updateStrategy")


def slim_node(node: JsonObject) -> JsonObject:
    """A node: labels, taints, resources, conditions, versions."""
    spec = {key: value for key, value in _part(node, "spec").items() if key in ("taints", "unschedulable")}
    kept = ("capacity", "allocatable", "conditions", "addresses", "nodeInfo")
    status = {key: value for key, value in _part(node, "status").items() if key in kept}
    return {"metadata": _metadata(node), "spec": spec, "status": status}


def slim_pod(pod: JsonObject, *, is_ours: bool) -> JsonObject:
    """A pod; the command lines only of our own programs."""
    status = _part(pod, "status")
    return {
        "metadata": _metadata(pod),
        "spec": _pod_spec(_part(pod, "spec"), is_ours=is_ours),
        "status": status,
    }


def slim_workload(workload: JsonObject) -> JsonObject:
    """A Deployment or DaemonSet of ours."""
    spec = _part(workload, "spec")
    template = _part(_part(spec, "template"), "spec")
    return {
        "metadata": _metadata(workload),
        "spec": {
            **{key: spec[key] for key in _WORKLOAD_SPEC if key in spec},
            "template": _pod_spec(template, is_ours=True),
        },
        "status": _part(workload, "status"),
    }


def slim_event(event: JsonObject) -> JsonObject:
    """An event: what happened to whom, how often and when."""
    return {key: event[key] for key in _EVENT if key in event}


def slim_object(found: JsonObject) -> JsonObject:
    """An object that holds no secrets by its kind: a Service, a Lease."""
    return {"metadata": _metadata(found), "spec": _part(found, "spec")}


def secrets_of(pod: JsonObject) -> Iterator[str]:
    """Values in a pod's environment that are secret by their names; they may stand in its log too."""
    for container in _containers(_part(pod, "spec")):
        for variable in container.get("env") or []:
            value = variable.get("value")
            if isinstance(value, str) and is_secret_name(str(variable.get("name", ""))):
                yield value


def _metadata(found: JsonObject) -> JsonObject:
    meta = _part(found, "metadata")
    slim = {key: meta[key] for key in _METADATA if key in meta}
    annotations: Mapping[str, Any] = _part(meta, "annotations")
    kept = {key: value for key, value in annotations.items() if key.startswith(_ANNOTATIONS)}
    if kept:
        slim["annotations"] = kept
    left_out = sorted(annotations.keys() - kept.keys())
    if left_out:
        slim["annotationsLeftOut"] = left_out
    return slim


def _pod_spec(spec: JsonObject, *, is_ours: bool) -> JsonObject:
    slim = {key: spec[key] for key in _POD_SPEC if key in spec}
    for part in ("initContainers", "containers"):
        if spec.get(part):
            slim[part] = [_container(each, is_ours=is_ours) for each in spec[part]]
    if spec.get("volumes"):
        slim["volumes"] = [_volume(each) for each in spec["volumes"]]
    return slim


def _container(container: JsonObject, *, is_ours: bool) -> JsonObject:
    slim = {key: container[key] for key in _CONTAINER if key in container}
    if is_ours:
        slim |= {key: list(container[key]) for key in ("command", "args") if container.get(key)}
    if container.get("env"):
        slim["environment"] = [str(each.get("name", "")) for each in container["env"]]
    mounts = container.get("volumeMounts") or []
    if mounts:
        slim["mounts"] = {str(each.get("mountPath", "")): str(each.get("name", "")) for each in mounts}
    return slim


def _volume(volume: JsonObject) -> JsonObject:
    """A volume by its kind and, where it is an object of the API server or a path of the host, by its name."""
    kinds = sorted(key for key in volume if key != "name")
    source = volume[kinds[0]] if kinds and isinstance(volume[kinds[0]], dict) else {}
    named = {
        "name" if key == "secretName" else key: source[key] for key in ("name", "secretName", "path") if key in source
    }
    return {"name": volume.get("name", ""), "kind": kinds[0] if kinds else "", **({"of": named} if named else {})}


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(part) or []


def _part(found: Mapping[str, Any], name: str) -> JsonObject:
    part = found.get(name)
    return part if isinstance(part, dict) else {}
