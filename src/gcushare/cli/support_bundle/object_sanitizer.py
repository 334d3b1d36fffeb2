"""Reduces Kubernetes objects to the fields of ``kept_fields``; pure.

Free text of people is removed: annotations except ours, values of environment variables, command lines except known
flags of our programs, messages. The numbers of removed annotations, labels and variables are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gcushare.cli.support_bundle.kept_fields import (
    COMMAND_WORDS,
    CONTAINER,
    ENVIRONMENT,
    EVENT,
    FLAG_VALUE,
    FLAGS,
    METADATA,
    NODE,
    POD_SPEC,
    POD_STATUS,
)
from gcushare.cli.support_bundle.redact import is_secret_anywhere
from gcushare.cli.support_bundle.shapes import Left, Shape

JsonObject = dict[str, Any]


def slim_node(node: JsonObject) -> JsonObject:
    """A node: our labels, taints, resources, conditions, versions."""
    return _counted(node, _kept(NODE, node))


def slim_pod(pod: JsonObject, *, is_ours: bool) -> JsonObject:
    """A pod; settings only of our own programs."""
    slim = {
        "metadata": _kept(METADATA, _part(pod, "metadata")),
        "spec": _pod_spec(_part(pod, "spec"), is_ours=is_ours),
        "status": _kept(POD_STATUS, _part(pod, "status")),
    }
    return _counted(pod, slim)


def slim_event(event: JsonObject) -> JsonObject:
    """An event: what happened to which object, how often, when."""
    return _kept(EVENT, event)


def last_seen(event: JsonObject) -> str:
    """When an event happened last, as Kubernetes writes times; "" if it does not say.

    One of events.k8s.io that repeats says so in its series alone: its ``eventTime`` is when it began.
    """
    times = (event.get("lastTimestamp"), event.get("eventTime"), _part(event, "series").get("lastObservedTime"))
    return max(str(time or "") for time in times)


def secrets_of(pod: JsonObject) -> Iterator[str]:
    """Values in a pod's environment that are secret by their names; its log may contain them too."""
    for container in _containers(_part(pod, "spec")):
        for variable in container.get("env") or []:
            value = variable.get("value")
            if isinstance(value, str) and is_secret_anywhere(str(variable.get("name", "")), value):
                yield value


def slim_words(words: Sequence[Any]) -> list[str]:
    """Reduce a command line to program names and to flags that are known to hold no secret."""
    kept = [str(word) for word, before in zip(words, ["", *words], strict=False) if _is_known(str(word), str(before))]
    left_out = len(words) - len(kept)
    return [*kept, f"({left_out} left out)"] if left_out else kept


def _is_known(word: str, before: str) -> bool:
    name, _, value = word.partition("=")
    if word.startswith("-") and name.lstrip("-") in FLAGS:
        return FLAG_VALUE(value) is not Left.OUT
    if before.startswith("-") and before.lstrip("-") in FLAGS and not word.startswith("-"):
        return FLAG_VALUE(word) is not Left.OUT
    return word.rpartition("/")[2] in COMMAND_WORDS


def _counted(found: JsonObject, slim: JsonObject) -> JsonObject:
    """Add how many labels and annotations were removed; their existence explains much."""
    before, after = _part(found, "metadata"), _part(slim, "metadata")
    left_out = {name: len(_part(before, name)) - len(_part(after, name)) for name in ("labels", "annotations")}
    counts = {f"{name}LeftOut": count for name, count in left_out.items() if count}
    return {**slim, "metadata": {**{name: part for name, part in after.items() if part != {}}, **counts}}


def _pod_spec(spec: JsonObject, *, is_ours: bool) -> JsonObject:
    slim = _kept(POD_SPEC, spec)
    for part in ("initContainers", "containers"):
        if spec.get(part):
            slim[part] = [_container(item, is_ours=is_ours) for item in spec[part]]
    return slim


def _container(container: JsonObject, *, is_ours: bool) -> JsonObject:
    slim = _kept(CONTAINER, container)
    if is_ours:
        slim |= {key: slim_words(container[key]) for key in ("command", "args") if container.get(key)}
    variables = [str(item.get("name", "")) for item in container.get("env") or []]
    if variables:
        known = [name for name in variables if name in ENVIRONMENT]
        slim["environment"] = {"known": known, "others": len(variables) - len(known)}
    return slim


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(part) or []


def _kept(shape: Shape, value: Any) -> JsonObject:
    kept = shape(value)
    return kept if isinstance(kept, dict) else {}


def _part(found: Mapping[str, Any], name: str) -> JsonObject:
    part = found.get(name)
    return part if isinstance(part, dict) else {}
