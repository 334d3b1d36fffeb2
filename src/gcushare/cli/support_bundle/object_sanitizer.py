"""Kubernetes objects as they go into a bundle: each kind's fields by name, and the form that each text may have; pure.

Nothing that people write freely is among them: no annotations but ours, no values of environment variables, no command
lines but the settings of our programs, no messages but what ``sentences`` knows, none of what a container said when it
ended. How many such things there were is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from gcushare.cli.support_bundle.known_words import cut_to_known
from gcushare.cli.support_bundle.log_filter import own_words
from gcushare.cli.support_bundle.object_shapes import (
    COMMAND_WORDS,
    CONTAINER,
    ENVIRONMENT,
    EVENT,
    FLAG_VALUE,
    FLAGS,
    LEASE,
    METADATA,
    MODE,
    NODE,
    POD_SPEC,
    POD_STATUS,
    REPORT,
    SERVICE,
    SOURCE,
    VOLUME_KINDS,
    WORKLOAD_SPEC,
    WORKLOAD_STATUS,
)
from gcushare.cli.support_bundle.redact import is_secret_name
from gcushare.cli.support_bundle.shapes import NAME, PATH, Left, Shape
from gcushare.core.errors import RemoteContractError
from gcushare.wire.documents.node_report import NODE_REPORT

JsonObject = dict[str, Any]


def slim_node(node: JsonObject) -> JsonObject:
    """A node: our labels, taints, resources, conditions, versions."""
    return _counted(node, _kept(NODE, node))


def slim_pod(pod: JsonObject, *, is_ours: bool, names: Collection[str] = ()) -> JsonObject:
    """A pod; settings, volumes and mounts only of our own programs; ``names`` may stand in its status's message."""
    status = _part(pod, "status")
    slim = {
        "metadata": _kept(METADATA, _part(pod, "metadata")),
        "spec": _pod_spec(_part(pod, "spec"), is_ours=is_ours),
        "status": _kept(POD_STATUS, status) | _message(status, names),
    }
    return _counted(pod, slim)


def slim_workload(workload: JsonObject) -> JsonObject:
    """A Deployment or DaemonSet of ours."""
    spec = _part(workload, "spec")
    template = _part(_part(spec, "template"), "spec")
    slim = {
        "metadata": _kept(METADATA, _part(workload, "metadata")),
        "spec": {**_kept(WORKLOAD_SPEC, spec), "template": _pod_spec(template, is_ours=True)},
        "status": _kept(WORKLOAD_STATUS, _part(workload, "status")),
    }
    return _counted(workload, slim)


def slim_event(event: JsonObject, names: Collection[str] = ()) -> JsonObject:
    """An event: what happened to whom, how often and when; of its message what is known."""
    return _kept(EVENT, event) | _message(event, names)


def slim_service(service: JsonObject) -> JsonObject:
    """A Service: where it leads."""
    return _counted(service, _kept(SERVICE, service))


def slim_lease(lease: JsonObject) -> JsonObject:
    """A Lease: who holds it since when."""
    return _counted(lease, _kept(LEASE, lease))


def slim_config_map(found: JsonObject, names: Collection[str] = ()) -> JsonObject:
    """A ConfigMap of ours: its keys, and what the config managers report in theirs."""
    data = _part(found, "data")
    slim = {
        "metadata": _kept(METADATA, _part(found, "metadata")),
        "keys": sorted(key for key in data if NAME(key) is not Left.OUT),
    }
    mode = MODE(data.get("mode"))
    reports = {key: _report(value, names) for key, value in data.items() if key.startswith("node.")}
    if mode is not Left.OUT:
        slim["mode"] = mode
    if reports:
        slim["reports"] = {key: report for key, report in reports.items() if NAME(key) is not Left.OUT}
    return _counted(found, slim)


def _report(value: Any, names: Collection[str]) -> JsonObject:
    try:
        report = _kept(REPORT, NODE_REPORT.read(value) if isinstance(value, str) else None)
    except RemoteContractError:
        return {}
    return {key: own_words(part, names) for key, part in report.items()}


def secrets_of(pod: JsonObject) -> Iterator[str]:
    """Values in a pod's environment that are secret by their names; they may stand in its log too."""
    for container in _containers(_part(pod, "spec")):
        for variable in container.get("env") or []:
            value = variable.get("value")
            if isinstance(value, str) and is_secret_name(str(variable.get("name", ""))):
                yield value


def slim_words(words: Sequence[Any]) -> list[str]:
    """A command line: the programs' names, and the flags that are known to hold no secret."""
    kept = [str(word) for word, before in zip(words, ["", *words], strict=False) if _is_known(str(word), str(before))]
    left_out = len(words) - len(kept)
    return [*kept, f"({left_out} left out)"] if left_out else kept


def _is_known(word: str, before: str) -> bool:
    name, _, value = word.partition("=")
    if word.startswith("-") and name.lstrip("-") in FLAGS.split():
        return FLAG_VALUE(value) is not Left.OUT
    if before.startswith("-") and before.lstrip("-") in FLAGS.split() and not word.startswith("-"):
        return FLAG_VALUE(word) is not Left.OUT
    return word.rpartition("/")[2] in COMMAND_WORDS


def _message(found: JsonObject, names: Collection[str]) -> JsonObject:
    message = found.get("message")
    return {"message": cut_to_known(message, names)} if isinstance(message, str) and message else {}


def _counted(found: JsonObject, slim: JsonObject) -> JsonObject:
    """Say how many labels and annotations of others there were: that there are some explains much."""
    before, after = _part(found, "metadata"), _part(slim, "metadata")
    left_out = {name: len(_part(before, name)) - len(_part(after, name)) for name in ("labels", "annotations")}
    counts = {f"{name}LeftOut": count for name, count in left_out.items() if count}
    return {**slim, "metadata": {**{name: part for name, part in after.items() if part != {}}, **counts}}


def _pod_spec(spec: JsonObject, *, is_ours: bool) -> JsonObject:
    slim = _kept(POD_SPEC, spec)
    for part in ("initContainers", "containers"):
        if spec.get(part):
            slim[part] = [_container(item, is_ours=is_ours) for item in spec[part]]
    if is_ours and spec.get("volumes"):
        slim["volumes"] = [_volume(item) for item in spec["volumes"]]
    return slim


def _container(container: JsonObject, *, is_ours: bool) -> JsonObject:
    slim = _kept(CONTAINER, container)
    if is_ours:
        slim |= {key: slim_words(container[key]) for key in ("command", "args") if container.get(key)}
        mounts = [(PATH(item.get("mountPath")), NAME(item.get("name"))) for item in container.get("volumeMounts") or []]
        if mounts:
            slim["mounts"] = {path: name for path, name in mounts if Left.OUT not in (path, name)}
    variables = [str(item.get("name", "")) for item in container.get("env") or []]
    if variables:
        known = [name for name in variables if name in ENVIRONMENT]
        slim["environment"] = {"known": known, "others": len(variables) - len(known)}
    return slim


def _volume(volume: JsonObject) -> JsonObject:
    """A volume by its kind and, where it is an object of the API server or a path of the host, by its name."""
    kind = next((item for item in VOLUME_KINDS if item in volume), "other")
    named = _kept(SOURCE, volume.get(kind))
    name = NAME(volume.get("name"))
    return {"name": "" if name is Left.OUT else name, "kind": kind, **({"of": named} if named else {})}


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(part) or []


def _kept(shape: Shape, value: Any) -> JsonObject:
    kept = shape(value)
    return kept if isinstance(kept, dict) else {}


def _part(found: Mapping[str, Any], name: str) -> JsonObject:
    part = found.get(name)
    return part if isinstance(part, dict) else {}
