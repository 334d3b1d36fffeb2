"""Cuts Kubernetes objects, findings and programs' answers down to known fields; pure.

Objects keep the fields of ``kept_fields``. Free text of people is removed: annotations except ours, values of
environment variables, command lines except flags of our programs, messages. The numbers of removed annotations,
labels and variables are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gcushare.cli.support_bundle.kept_fields import (
    CONTAINER,
    EVENT,
    METADATA,
    NODE,
    POD_SPEC,
    POD_STATUS,
    RESOURCE,
    VERSION,
    Left,
    Shape,
    by_name,
    either,
    fields,
    text,
)
from gcushare.cli.support_bundle.log_filter import cut_metrics
from gcushare.cli.support_bundle.redact import is_secret_anywhere, is_secret_name, own_document, own_words
from gcushare.cli.terminal.findings_text import document, versions
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding
from gcushare.cluster.diagnosis.schedulers import ConfiguredExtender, SchedulerFacts
from gcushare.cluster.programs import ProgramKind
from gcushare.core.errors import RemoteContractError
from gcushare.node.container_environment import CONTAINER_BYTES
from gcushare.vendors import VENDORS
from gcushare.wire.annotations import record_keys

JsonObject = dict[str, Any]

ENVIRONMENT = {CONTAINER_BYTES} | frozenset(
    name
    for vendor in VENDORS
    for name in (
        vendor.environment.visible,
        vendor.environment.card_index,
        vendor.environment.card_units,
        vendor.environment.pod_units,
        vendor.environment.container_units,
    )
)
"""Variables that the card of a container follows from; that a pod's author sets one is worth knowing."""
_FLAG = re.compile(r"--[a-z][a-z0-9-]{0,63}|-v")
FLAG_VALUE = text(r"[\w./:,=-]{0,512}")
COMMAND_WORDS = frozenset(
    {*(program.value for program in ProgramKind), "gcushare", "python", "python3", "-m", "run", "uninstall", "apply"}
)


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
    """Reduce a command line to program names and to flags, but for those with a secret's name or a value of free text.

    Only for programs that refuse flags which they do not know.
    """
    kept = [str(word) for word, before in zip(words, ["", *words], strict=False) if _is_kept(str(word), str(before))]
    left_out = len(words) - len(kept)
    return [*kept, f"({left_out} left out)"] if left_out else kept


def _is_kept(word: str, before: str) -> bool:
    name, _, value = word.partition("=")
    if not word.startswith("-"):
        name, value = (before, word) if before.startswith("-") and "=" not in before else ("", "")
    if _FLAG.fullmatch(name) and not is_secret_name(name):
        return FLAG_VALUE(value) is not Left.OUT
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


Cut = Callable[[bytes, Collection[str]], "str | dict[str, Any]"]
"""Takes a program's answer and the names of the cluster; returns the text or the document that goes in. Raises
RemoteContractError if another program answered.
"""


def known_names(facts: Facts) -> frozenset[str]:
    """What programs may quote: names of nodes and pods that are in the bundle anyway, and our own keys."""
    pods = [name for pod in facts.pods for name in (pod.key, pod.metadata.name, pod.metadata.namespace)]
    words = [
        word
        for vendor in VENDORS
        for word in (
            *record_keys(vendor),
            *(vendor.memory_resource, vendor.count_resource, vendor.whole_card_resource),
            *(vendor.inventory_annotation, vendor.cordon_annotation, vendor.node_label, vendor.plugin_socket),
        )
    ]
    return frozenset([*pods, *words, *(node.metadata.name for node in facts.nodes)])


def cut_findings(findings: Sequence[Finding], names: Collection[str]) -> list[Finding]:
    """Remove quotations from findings, and fixes, because a fix contains the value that it replaces."""
    return [
        replace(item, subject=own_words(item.subject, names), problem=own_words(item.problem, names), fix=None)
        for item in findings
    ]


def findings_document(facts: Facts, findings: Sequence[Finding]) -> dict[str, Any]:
    """The document of ``gcushare doctor -o json``; ``findings`` are cut already."""
    # What answers at a port may call itself anything: only what has the form of a version stays.
    one = either(VERSION, text(""))
    named = by_name(r"[^\n]*", one)
    releases = fields(kubernetes=one, doctor=one, extenders=named, plugins=named, kubelets=named)
    return document(facts, findings) | {"versions": releases(versions(facts))}


def schedulers_document(facts: Facts, names: Collection[str]) -> dict[str, Any]:
    """Schedulers with their extenders, config managers' reports."""
    reports = [
        {"node": item.node, "state": own_words(item.state[:40]), "reason": own_words(item.reason, names)}
        for item in facts.reports
    ]
    return {
        "schedulers": [_scheduler(item, names) for item in facts.schedulers],
        "reports": reports,
    }


def _scheduler(found: SchedulerFacts, names: Collection[str]) -> dict[str, Any]:
    return {
        "name": found.name,
        "node": found.node,
        "configFile": found.config_file,
        "source": found.source,
        "problem": own_words(found.problem, names),
        "extenders": None if found.extenders is None else [_extender(item) for item in found.extenders],
    }


def _extender(found: ConfiguredExtender) -> dict[str, Any]:
    """An extender of a scheduler. Of a foreign address only the host: paths and queries have carried tokens."""
    host, port = found.host, found.port
    is_ours = found.path in {vendor.url_prefix for vendor in VENDORS}
    path = found.path if is_ours else ""
    resource = text(RESOURCE)
    return {
        "url": f"{urlsplit(found.url).scheme}://{host}:{port}{path}" if host and port else "",
        "resources": [name for name in found.resources if resource(name) is not Left.OUT],
        "binds": found.binds,
    }


def cut_document(read: Callable[[bytes], Any]) -> Cut:
    """Decode an answer by its declared fields and cut every text of it; a list becomes the member ``nodes``."""

    def cut(body: bytes, names: Collection[str]) -> dict[str, Any]:
        document = own_document(msgspec.to_builtins(read(body)), names)
        return {"nodes": document} if isinstance(document, list) else dict(document)

    return cut


def cut_version(body: bytes, names: Collection[str]) -> str:
    said = body.decode("utf-8", errors="replace").strip()
    if VERSION(said) is Left.OUT:
        raise RemoteContractError("this is no version")
    return f"{said}\n"


def cut_figures(body: bytes, names: Collection[str]) -> str:
    return cut_metrics(body.decode("utf-8", errors="replace"))
