"""Whether a pod may stand on a node, as far as selectors, affinity and taints say; pure.

Source: ``k8s.io/component-helpers/scheduling/corev1``.
"""

from __future__ import annotations

from gcushare_playground.apiserver.objects import JsonObject, dig, labels_of
from gcushare_playground.apiserver.selectors import read_requirements

_REPELLING = ("NoSchedule", "NoExecute")


def fits(pod_spec: JsonObject, node: JsonObject) -> bool:
    """Tell whether selector and required affinity choose the node and every repelling taint is tolerated."""
    wanted = pod_spec.get("nodeSelector") or {}
    found = labels_of(node)
    return (
        all(found.get(name) == value for name, value in wanted.items())
        and _is_chosen(pod_spec, node)
        and all(_is_tolerated(taint, pod_spec) for taint in dig(node, "spec", "taints", default=[]))
    )


def _is_chosen(pod_spec: JsonObject, node: JsonObject) -> bool:
    required = dig(pod_spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_matches_term(term, node) for term in required.get("nodeSelectorTerms") or [])


def _matches_term(term: JsonObject, node: JsonObject) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    names = {"metadata.name": str(dig(node, "metadata", "name"))}
    return all(requirement.matches(labels_of(node)) for requirement in read_requirements(expressions)) and all(
        requirement.matches(names) for requirement in read_requirements(fields)
    )


def _is_tolerated(taint: JsonObject, pod_spec: JsonObject) -> bool:
    if taint.get("effect") not in _REPELLING:
        return True
    return any(_tolerates(toleration, taint) for toleration in pod_spec.get("tolerations") or [])


def _tolerates(toleration: JsonObject, taint: JsonObject) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
