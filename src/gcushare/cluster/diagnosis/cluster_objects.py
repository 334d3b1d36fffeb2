"""Reads the objects other than nodes and pods: policies, configurations of schedulers, reports, certificates."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from gcushare.cluster.diagnosis.facts import CertificateFacts, PolicyFacts
from gcushare.cluster.diagnosis.schedulers import (
    CONFIG_MAP_WORD,
    SchedulerFacts,
    config_file_of,
    config_map_of,
    parse_extenders,
)
from gcushare.cluster.programs import SeenPod
from gcushare.cluster.reader import Reader
from gcushare.cluster.rights import Area
from gcushare.core.errors import RemoteContractError
from gcushare.kube.resources import CONFIG_MAPS, SLICES_OF_ALL_DRIVERS, Resource
from gcushare.wire.certificates import first_end
from gcushare.wire.contracts import CLIENT_CERT, CONFIG_MANAGER
from gcushare.wire.documents.node_report import NodeReport, decode_node_reports

JsonObject = dict[str, Any]

_ADMISSION = "apis/admissionregistration.k8s.io/v1"
POLICIES: Resource[JsonObject] = Resource(_ADMISSION, "validatingadmissionpolicies", dict, namespaced=False)
BINDINGS: Resource[JsonObject] = Resource(_ADMISSION, "validatingadmissionpolicybindings", dict, namespaced=False)
SECRETS: Resource[JsonObject] = Resource("api/v1", "secrets", dict)

_CERTIFICATES = ("tls.crt", CLIENT_CERT, "ca.crt")


async def read_policies(reader: Reader) -> tuple[PolicyFacts, ...]:
    """Read the admission policies, and whether a binding makes them deny; none if the cluster has no such kind."""
    nothing: list[JsonObject] = []

    async def read(resource: Resource[JsonObject]) -> list[JsonObject]:
        return await reader.attempt(Area.POLICIES, lambda: reader.client.list_all(resource), nothing)

    policies, bindings = await asyncio.gather(read(POLICIES), read(BINDINGS))
    denied = {
        str(spec.get("policyName", ""))
        for spec in (_mapping(each.get("spec")) for each in bindings)
        if "Deny" in (spec.get("validationActions") or [])
    }
    named = ((str(_mapping(each.get("metadata")).get("name", "")), each.get("spec")) for each in policies)
    return tuple(
        PolicyFacts(name=name, text=msgspec.json.encode(spec).decode(), denies=name in denied) for name, spec in named
    )


async def read_drivers(reader: Reader) -> dict[str, frozenset[str]]:
    """Read which drivers publish ResourceSlices of each node; none if the cluster has no such kind."""
    nothing: list[JsonObject] = []
    found: dict[str, set[str]] = {}
    for each in await reader.attempt(Area.SLICES, lambda: reader.client.list_all(SLICES_OF_ALL_DRIVERS), nothing):
        spec = _mapping(each.get("spec"))
        found.setdefault(str(spec.get("nodeName", "")), set()).add(str(spec.get("driver", "")))
    return {node: frozenset(drivers) for node, drivers in found.items()}


async def read_schedulers(
    reader: Reader, pods: Sequence[SeenPod], given_config: str | None
) -> tuple[SchedulerFacts, ...]:
    """Read how every visible kube-scheduler is configured; one given by hand stands for those that are not visible."""

    async def read(pod: SeenPod) -> SchedulerFacts:
        path = config_file_of(pod)
        place = config_map_of(pod, path) if path else None
        facts = SchedulerFacts(name=pod.key, node=pod.spec.node_name, config_file=path)
        if place is not None:
            namespace, (name, key) = pod.metadata.namespace, place
            text = (await _config_map_data(reader, namespace, name)).get(key)
            return facts if text is None else _from_text(facts, str(text), f"{CONFIG_MAP_WORD}{namespace}/{name}")
        return _from_text(facts, given_config, "--scheduler-config") if given_config and path else facts

    found = await asyncio.gather(*(read(pod) for pod in pods))
    if not found and given_config:
        facts = SchedulerFacts(name="(not visible)", config_file="--scheduler-config")
        return (_from_text(facts, given_config, "--scheduler-config"),)
    return tuple(found)


def _from_text(facts: SchedulerFacts, text: str, source: str) -> SchedulerFacts:
    try:
        return replace(facts, source=source, extenders=parse_extenders(text))
    except RemoteContractError as failure:
        return replace(facts, source=source, problem=str(failure))


async def read_reports(reader: Reader, namespaces: Sequence[str]) -> tuple[NodeReport, ...]:
    """Read what the config managers report of their nodes' schedulers."""
    found = await asyncio.gather(*(_config_map_data(reader, each, CONFIG_MANAGER) for each in namespaces))
    return tuple(report for data in found for report in decode_node_reports(data))


async def _config_map_data(reader: Reader, namespace: str, name: str) -> JsonObject:
    empty: JsonObject = {}
    read = partial(reader.client.get, CONFIG_MAPS, name, namespace=namespace)
    found = await reader.attempt(Area.CONFIG_MAPS, read, empty)
    return _mapping(found.get("data"))


async def read_certificates(reader: Reader, pods: Sequence[SeenPod]) -> tuple[CertificateFacts, ...]:
    """Read when the certificates in our programs' Secrets expire; nothing else of a Secret is kept."""
    mounted = {
        (pod.metadata.namespace, each.secret.secret_name)
        for pod in pods
        for each in pod.spec.volumes
        if each.secret is not None
    }
    found = await asyncio.gather(*(_read_certificates_of(reader, *place) for place in sorted(mounted)))
    return tuple(each for certificates in found for each in certificates)


async def _read_certificates_of(reader: Reader, namespace: str, name: str) -> list[CertificateFacts]:
    async def read() -> Mapping[str, Any]:
        found = await reader.client.get(SECRETS, name, namespace=namespace)
        data = _mapping(found.get("data"))
        return {key: data[key] for key in _CERTIFICATES if key in data}

    empty: Mapping[str, Any] = {}
    data = await reader.attempt(Area.SECRETS, read, empty)
    return [_certificate(f"Secret {namespace}/{name}, {key}", str(text)) for key, text in data.items()]


def _certificate(subject: str, text: str) -> CertificateFacts:
    try:
        return CertificateFacts(subject=subject, not_after=first_end(base64.b64decode(text)))
    except (RemoteContractError, binascii.Error) as failure:
        return CertificateFacts(subject=subject, problem=str(failure))


def _mapping(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}
