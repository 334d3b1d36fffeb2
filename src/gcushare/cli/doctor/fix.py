"""Makes the changes that ``--fix`` may make: each only while what it changes is as it was seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gcushare.cli.doctor.findings import Finding, Fix, RemoveAnnotation, RemoveCapacity, ReplaceAnnotation
from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.errors import InvalidError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a change; ``problem`` is empty where it was made."""

    fix: Fix
    problem: str = ""


def fixes_of(findings: Sequence[Finding]) -> list[Fix]:
    """The changes that findings offer, each once."""
    return list(dict.fromkeys(finding.fix for finding in findings if finding.fix is not None))


async def make(client: KubeClient, fixes: Sequence[Fix]) -> list[Outcome]:
    """Make changes one after the other; one that fails stops none of the others."""
    return [await _make(client, fix) for fix in fixes]


async def _make(client: KubeClient, fix: Fix) -> Outcome:
    subresource = "status" if isinstance(fix, RemoveCapacity) else None
    try:
        await client.patch(NODES, fix.node, patch_of(fix), subresource=subresource)
    except (ConflictError, InvalidError, NotFoundError) as failure:
        return Outcome(fix, f"it has changed since it was looked at, and was left alone: {failure}")
    except GcushareError as failure:
        return Outcome(fix, str(failure))
    return Outcome(fix)


def patch_of(fix: Fix) -> Patch:
    """A JSON patch that fails where the value is no longer the one that was seen."""
    match fix:
        case RemoveAnnotation():
            return _guarded(_path("metadata", "annotations", fix.key), fix.seen, None)
        case ReplaceAnnotation():
            return _guarded(_path("metadata", "annotations", fix.key), fix.seen, fix.value)
        case RemoveCapacity():
            return _guarded(_path("status", "capacity", fix.resource), fix.seen, None)


def _guarded(path: str, seen: str, value: str | None) -> Patch:
    change: dict[str, Any] = {"op": "remove", "path": path}
    if value is not None:
        change = {"op": "replace", "path": path, "value": value}
    return Patch(PatchKind.JSON, [{"op": "test", "path": path, "value": seen}, change])


def _path(*parts: str) -> str:
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)
