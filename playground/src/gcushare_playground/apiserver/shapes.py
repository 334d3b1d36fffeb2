"""The types of the fields this server looks into: what a typed decoder would refuse is refused here with a 400.

Only those fields are listed; everything else is stored as it came.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gcushare_playground.apiserver.failures import bad_request
from gcushare_playground.apiserver.objects import JsonObject
from gcushare_playground.apiserver.resources import Resource

_Document = dict[str, Any]


class _Shape(msgspec.Struct, frozen=True, rename="camel"):
    """A part of an object; unknown fields pass."""


class _Owner(_Shape, frozen=True):
    uid: str
    kind: str
    name: str
    api_version: str
    controller: bool = False
    block_owner_deletion: bool = False


class _Metadata(_Shape, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[_Owner] = []


class _Resources(_Shape, frozen=True):
    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class _Container(_Shape, frozen=True):
    name: str = ""
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[_Document] = []
    ports: list[_Document] = []
    volume_mounts: list[_Document] = []
    resources: _Resources = _Resources()


class _PodSpec(_Shape, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    service_account: str = ""
    priority_class_name: str = ""
    restart_policy: str = ""
    termination_grace_period_seconds: int = 30
    node_selector: dict[str, str] = {}
    tolerations: list[_Document] = []
    scheduling_gates: list[_Document] = []
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    ephemeral_containers: list[_Container] = []


class _PodStatus(_Shape, frozen=True):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: list[_Document] = []
    container_statuses: list[_Document] = []


class _Pod(_Shape, frozen=True):
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _NodeSpec(_Shape, frozen=True):
    unschedulable: bool = False
    taints: list[_Document] = []


class _NodeStatus(_Shape, frozen=True):
    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    conditions: list[_Document] = []
    addresses: list[_Document] = []


class _Node(_Shape, frozen=True):
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


class _Anything(_Shape, frozen=True):
    metadata: _Metadata = _Metadata()


_SHAPES: dict[str, type[_Shape]] = {
    "pods": _Pod,
    "nodes": _Node,
}


def check_shape(resource: Resource, obj: JsonObject) -> None:
    """Refuse an object that a typed decoder could not read.

    Raises:
        ApiFailure: 400, naming the field and both types.
    """
    try:
        msgspec.convert(obj, _Anything)
        if shape := _SHAPES.get(resource.qualified):
            msgspec.convert(obj, shape)
    except msgspec.ValidationError as error:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        ) from error


def without_nulls(value: Any) -> Any:
    """Return a document without its null fields: to a typed decoder they are fields not given."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
