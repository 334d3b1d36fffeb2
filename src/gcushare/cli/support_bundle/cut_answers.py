"""Cuts findings and programs' answers down to known fields; pure.

Our own sentences stay without what they quote, and documents keep the fields that their decoders declare.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from gcushare.cli.support_bundle.log_filter import cut_metrics
from gcushare.cli.support_bundle.redact import ELLIPSIS, own_document, own_words
from gcushare.cli.terminal.findings_text import document, versions
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding
from gcushare.cluster.diagnosis.schedulers import ConfiguredExtender, SchedulerFacts
from gcushare.core.errors import RemoteContractError
from gcushare.vendors import VENDORS
from gcushare.wire.annotations import record_keys

_VERSION = re.compile(r"v?\d[\w.+-]{0,79}|", re.ASCII)
_RESOURCE = re.compile(r"[A-Za-z0-9][\w./-]{0,316}", re.ASCII)

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
    """Remove quotations from findings."""
    return [
        replace(item, subject=own_words(item.subject, names), problem=own_words(item.problem, names))
        for item in findings
    ]


def findings_document(facts: Facts, findings: Sequence[Finding]) -> dict[str, Any]:
    """The document of ``gcushare doctor -o json``; ``findings`` are cut already."""
    # What answers at a port may call itself anything: only what has the form of a version stays.
    return document(facts, findings) | {"versions": _releases(versions(facts))}


def _releases(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _releases(each) for name, each in found.items()}
    return found if isinstance(found, str) and _VERSION.fullmatch(found) else ELLIPSIS


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
    return {
        "url": f"{urlsplit(found.url).scheme}://{host}:{port}{path}" if host and port else "",
        "resources": [name for name in found.resources if _RESOURCE.fullmatch(name)],
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
    if not said or not _VERSION.fullmatch(said):
        raise RemoteContractError("this is no version")
    return f"{said}\n"


def cut_figures(body: bytes, names: Collection[str]) -> str:
    return cut_metrics(body.decode("utf-8", errors="replace"))
