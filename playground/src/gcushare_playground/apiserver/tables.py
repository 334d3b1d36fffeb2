"""Tables as the server renders them for ``kubectl get``: column definitions and a cell per column.

Source: ``pkg/printers/internalversion/printers.go`` of Kubernetes.
"""

from __future__ import annotations

from gcushare_playground.apiserver.columns import columns_of
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.apiserver.resources import Resource


def table(
    resource: Resource, objects: list[JsonObject], meta: JsonObject, include_object: str, now_s: float
) -> JsonObject:
    """Return the Table document of some objects; ages are counted from ``now_s``."""
    columns = columns_of(resource.qualified)
    rows = [
        {"cells": [column.cell(obj, now_s) for column in columns], **_row_object(resource, obj, include_object)}
        for obj in objects
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [column.definition() for column in columns],
        "rows": rows,
    }


def _row_object(resource: Resource, obj: JsonObject, include_object: str) -> JsonObject:
    match include_object:
        case "None":
            return {}
        case "Object":
            return {"object": {"kind": resource.kind, "apiVersion": resource.api_version, **obj}}
        case _:
            head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
            return {"object": {**head, "metadata": obj["metadata"]}}
