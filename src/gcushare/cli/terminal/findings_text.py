"""Findings as text and as a document; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from gcushare.cli.terminal.screen import wrapped
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, Severity
from gcushare.cluster.programs import ProgramKind
from gcushare.core.wording import counted, one_line

DOCUMENT_VERSION = 1
_INDENT = "    "
_COLOURS = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;33m", Severity.INFO: "\x1b[1;36m"}
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def render_text(facts: Facts, findings: Sequence[Finding], *, width: int | None, color: bool) -> str:
    """Write findings for people, worst first; ``width`` None writes every finding's parts on one line each."""
    lines = [line for finding in findings for line in _lines_of(finding, width, color)]
    counts = [(sum(each.severity is severity for each in findings), severity) for severity in Severity]
    reported = ", ".join(f"{count} {severity.value}{'s' if count != 1 else ''}" for count, severity in counts if count)
    plugins = sum(each.status is not None for each in facts.plugins)
    looked = (
        f"looked at {counted(len(facts.nodes), 'node')}, {counted(plugins, 'device plugin')}, "
        f"{counted(len(facts.extender.replicas), 'extender')} and {counted(len(facts.pods), 'pod')}; "
        f"Kubernetes {facts.server_version or 'unknown'}"
    )
    return "\n".join([*lines, *_wrapped(f"{reported or 'nothing is wrong'} ({looked})", width, indent="")]) + "\n"


def _lines_of(finding: Finding, width: int | None, color: bool) -> Iterator[str]:
    word = finding.severity.value.upper()
    paint, bold, plain = (_COLOURS[finding.severity], _BOLD, _PLAIN) if color else ("", "", "")
    yield f"{paint}{word:<7}{plain} {bold}{finding.id}{plain}  {finding.subject}"
    yield from _wrapped(finding.problem, width)
    yield from _wrapped(f"→ {finding.remedy}", width)
    yield ""


def _wrapped(text: str, width: int | None, *, indent: str = _INDENT) -> list[str]:
    following = indent + ("  " if text.startswith("→") else "")
    return wrapped(one_line(text), width, first=indent, following=following)


def document(facts: Facts, findings: Sequence[Finding]) -> dict[str, Any]:
    """Findings, worst first, for programs. Fields are only added; ``version`` changes otherwise."""
    return {
        "version": DOCUMENT_VERSION,
        "time": facts.now.isoformat(),
        "node": facts.scope,
        "worst": findings[0].severity.value if findings else None,
        "findings": msgspec.to_builtins(findings),
        "lookedAt": {
            "nodes": len(facts.nodes),
            "plugins": len(facts.plugins),
            "extenders": len(facts.extender.replicas),
            "schedulers": len(facts.running(ProgramKind.SCHEDULER)),
            "pods": len(facts.pods),
        },
        "versions": versions(facts),
    }


def versions(facts: Facts) -> dict[str, Any]:
    """Which release everything is of."""
    return {
        "kubernetes": facts.server_version,
        "doctor": facts.own_version,
        "extenders": {each.name: each.version for each in facts.extender.replicas},
        "plugins": {each.node: each.status.version for each in facts.plugins if each.status is not None},
        "kubelets": {node.metadata.name: node.status.node_info.kubelet_version for node in facts.nodes},
    }
