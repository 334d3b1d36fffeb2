"""What a person sees of the cluster: kubectl's tables, the inspect document, a container, the kubelet's record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from gcushare.core.errors import RetryableError
from gcushare.wire.kubelet.device_ids import cards_of_ids, decode_whole_card_id
from gcushare_playground.cluster import Cluster
from gcushare_playground.kubelet.checkpoint import CheckpointFile
from gcushare_playground.picture import JsonObject

_AS_TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
_ELISION = "......"


async def fetch_table(cluster: Cluster, path: str, *, with_namespace: bool = False) -> str:
    """Read a collection as ``kubectl get`` prints it.

    Raises:
        RetryableError: the API server does not answer.
    """
    try:
        async with cluster.http.get(cluster.api_url + path, headers=_AS_TABLE) as answer:
            table = msgspec.json.decode(await answer.read(), type=JsonObject)
    except aiohttp.ClientError as error:
        raise RetryableError(f"GET {path} failed: {error}") from error
    shown = [index for index, column in enumerate(table["columnDefinitions"]) if column["priority"] == 0]
    heads = [str(table["columnDefinitions"][index]["name"]).upper() for index in shown]
    rows = [[str(row["cells"][index]) for index in shown] for row in table.get("rows") or []]
    if with_namespace:
        heads = ["NAMESPACE", *heads]
        spaces = [row["object"]["metadata"].get("namespace", "") for row in table.get("rows") or []]
        rows = [[space, *row] for space, row in zip(spaces, rows, strict=True)]
    return align([heads, *rows])


def align(rows: Sequence[Sequence[str]]) -> str:
    """Lay rows out in columns three spaces apart, as kubectl does."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def render_inspect(document: JsonObject) -> str:
    """Lay the inspect document out as the manual prints it: cards in use and one free one, the rest as dots."""
    nodes: list[JsonObject] = document["nodes"]
    cut = [_cut_node(node) for node in nodes]
    text = msgspec.json.format(msgspec.json.encode({"nodes": cut}), indent=4).decode()
    lines = (line.replace(f'"{_ELISION}"', _ELISION) for line in text.splitlines())
    return "\n".join(lines)


def _cut_node(node: JsonObject) -> JsonObject:
    key = devices_key(node)
    devices: list[JsonObject] = node[key]
    free = [device for device in devices if not device["pods"]]
    kept: list[Any] = [device for device in devices if device["pods"] or device is free[0]]
    if len(kept) < len(devices):
        kept.append(_ELISION)
    return {**node, key: kept}


def devices_key(node: JsonObject) -> str:
    """Where a node's cards stand: the two families' documents differ."""
    return "devices" if "devices" in node else "devs"


def pods_by_card(node: JsonObject, word: str) -> dict[int, dict[str, int]]:
    """Units by pod by card, of the cards in use."""
    used = f"used{word}"
    return {
        device["id"]: {pod["name"]: pod[used] for pod in device["pods"]}
        for device in node[devices_key(node)]
        if device["pods"]
    }


@dataclass(frozen=True, slots=True)
class ContainerSight:
    """What a container was given, from its log."""

    environment: dict[str, str]
    devices: tuple[str, ...]

    def select(self, prefixes: Iterable[str]) -> str:
        """The variables that begin with one of the prefixes, and the device files, a line each."""
        starts = tuple(prefixes)
        variables = [f"{name}={value}" for name, value in self.environment.items() if name.startswith(starts)]
        return "\n".join([*variables, *self.devices])


async def fetch_sight(cluster: Cluster, namespace: str, pod: str, container: str) -> ContainerSight:
    """Read a container's log, in which the kubelet double tells what it was given."""
    lines = (await cluster.logs(namespace, pod, container)).splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "/")))
    devices = tuple(line.split()[0] for line in lines if line.startswith("/dev/"))
    return ContainerSight(variables, devices)


def kubelet_cards(cluster: Cluster, node: str, uid: str) -> dict[int, int]:
    """Count the ids that the kubelet's own checkpoint holds for a pod, by the card they name."""
    return cards_of_ids(_held_ids(cluster, node, uid, cluster.plan.vendor.memory_resource))


def kubelet_whole_cards(cluster: Cluster, node: str, uid: str) -> tuple[int, ...]:
    """The cards that the kubelet's own checkpoint says a pod has whole."""
    ids = _held_ids(cluster, node, uid, cluster.plan.vendor.whole_card_resource)
    return tuple(sorted(map(decode_whole_card_id, ids)))


def _held_ids(cluster: Cluster, node: str, uid: str, resource: str) -> list[str]:
    plan = next(each for each in cluster.plan.nodes if each.name == node)
    checkpoint = CheckpointFile(cluster.place.kubelet_dir(plan) / "device-plugins").read()
    return [
        device_id
        for entry in (checkpoint and checkpoint.entries) or ()
        if entry.pod_uid == uid and entry.resource == resource
        for part in entry.ids_by_numa.values()
        for device_id in part
    ]
