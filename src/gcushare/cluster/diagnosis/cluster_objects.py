"""Reads the objects other than nodes and pods: policies, schedulers' configurations, reports, certificates, claims."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from gcushare.cluster.diagnosis.facts import CertificateFacts, ClaimsFacts, LimitRange, PolicyFacts, QuotaFacts
from gcushare.cluster.diagnosis.schedulers import (
    CONFIG_MAP_WORD,
    SchedulerFacts,
    config_map_of,
    parse_configuration,
)
from gcushare.cluster.programs import SeenPod, flag
from gcushare.cluster.reader import Reader
from gcushare.cluster.rights import Area
from gcushare.core.errors import RemoteContractError
from gcushare.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    NAMESPACES,
    RESOURCE_SLICES,
    SLICES_OF_ALL_DRIVERS,
    JsonObject,
    Resource,
)
from gcushare.wire import contracts
from gcushare.wire.certificates import first_end
from gcushare.wire.documents.node_report import NodeReport, decode_node_reports
from gcushare.wire.dra.device_classes import extended_resources
from gcushare.wire.objects import Node

_LIMIT_RANGES: Resource[JsonObject] = Resource("api/v1", "limitranges", dict)
_QUOTAS: Resource[JsonObject] = Resource("api/v1", "resourcequotas", dict)
_SECRETS: Resource[JsonObject] = Resource("api/v1", "secrets", dict)

_ENFORCED_LEVEL = "pod-security.kubernetes.io/enforce"
_CERTIFICATES = ("tls.crt", contracts.CLIENT_CERT, "ca.crt")


async def read_policies(reader: Reader) -> tuple[PolicyFacts, ...]:
    """Read the admission policies, and whether a binding makes them deny; none if the cluster has no such kind."""
    policies, bindings = await asyncio.gather(
        reader.list_if_allowed(Area.POLICIES, _admission("validatingadmissionpolicies")),
        reader.list_if_allowed(Area.POLICIES, _admission("validatingadmissionpolicybindings")),
    )
    return _policies(policies, [each for each in bindings if "Deny" in (_spec(each).get("validationActions") or [])])


async def read_drivers(reader: Reader) -> dict[str, frozenset[str]]:
    """Read which drivers publish ResourceSlices of each node; none if the cluster has no such kind."""
    found: dict[str, set[str]] = {}
    for each in await reader.list_if_allowed(Area.SLICES, SLICES_OF_ALL_DRIVERS):
        found.setdefault(str(_spec(each).get("nodeName", "")), set()).add(str(_spec(each).get("driver", "")))
    return {node: frozenset(drivers) for node, drivers in found.items()}


async def read_claims(reader: Reader, nodes: Iterable[Node], extenders: Sequence[SeenPod]) -> ClaimsFacts | None:
    """Read what nodes that serve claims need; None without such nodes, because the rights may be missing then."""
    labelled = any(node.metadata.labels.get(contracts.SERVE_LABEL) == contracts.SERVE_CLAIMS for node in nodes)
    are_kept = any(flag(pod, "claims") == "true" for pod in extenders)
    if not (labelled or are_kept):
        return None
    read = partial(reader.list_if_allowed, Area.CLAIMS)
    objects, slices = await asyncio.gather(
        asyncio.gather(
            read(DEVICE_CLASSES),
            read(_admission("mutatingadmissionpolicies")),
            read(_admission("mutatingadmissionpolicybindings")),
            read(NAMESPACES),
            read(_QUOTAS),
            read(_LIMIT_RANGES),
        ),
        reader.list_if_allowed(Area.CLAIMS, RESOURCE_SLICES),
    )
    classes, policies, bindings, namespaces, quotas, limit_ranges = objects
    return ClaimsFacts(
        are_kept=are_kept,
        slices=tuple(slices),
        classes=extended_resources(classes),
        policies=_policies(policies, bindings),
        namespaces=frozenset(
            _name(each)
            for each in namespaces
            if _mapping(_mapping(each.get("metadata")).get("labels")).get(contracts.CLAIMS_LABEL)
            == contracts.CLAIMS_ENABLED
        ),
        quotas=tuple(
            QuotaFacts(
                namespace=str(_mapping(each.get("metadata")).get("namespace", "")),
                name=_name(each),
                bounded=frozenset(_mapping(_spec(each).get("hard"))),
            )
            for each in quotas
        ),
        limit_ranges=tuple(msgspec.convert(each, LimitRange, strict=False) for each in limit_ranges),
    )


async def read_security_levels(reader: Reader, names: Iterable[str]) -> dict[str, str]:
    """Read which Pod Security level each of these namespaces enforces; those that enforce none are left out."""
    places = sorted(set(names))
    found = await asyncio.gather(
        *(reader.attempt(Area.NAMESPACES, partial(reader.client.get, NAMESPACES, name)) for name in places)
    )
    labels = (_mapping(_mapping((each or {}).get("metadata")).get("labels")) for each in found)
    levels = ((name, str(each.get(_ENFORCED_LEVEL, ""))) for name, each in zip(places, labels, strict=True))
    return {name: level for name, level in levels if level}


def _admission(plural: str) -> Resource[JsonObject]:
    return Resource("apis/admissionregistration.k8s.io/v1", plural, dict, namespaced=False)


def _policies(policies: Iterable[JsonObject], bindings: Iterable[JsonObject]) -> tuple[PolicyFacts, ...]:
    """Describe policies; those that one of these bindings names take effect."""
    bound = {str(_spec(each).get("policyName", "")) for each in bindings}
    return tuple(
        PolicyFacts(name=_name(each), text=msgspec.json.encode(each.get("spec")).decode(), denies=_name(each) in bound)
        for each in policies
    )


async def read_schedulers(
    reader: Reader, pods: Sequence[SeenPod], given_config: str | None
) -> tuple[SchedulerFacts, ...]:
    """Read how every visible kube-scheduler is configured; one given by hand stands for those that are not visible."""

    async def read(pod: SeenPod) -> SchedulerFacts:
        # A policy outranks a configuration.
        path = flag(pod, "policy-config-file") or flag(pod, "config") or ""
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
        extenders, profiles = parse_configuration(text)
    except RemoteContractError as failure:
        return replace(facts, source=source, problem=str(failure))
    return replace(facts, source=source, extenders=extenders, profiles=profiles)


async def read_reports(reader: Reader, namespaces: Sequence[str]) -> tuple[NodeReport, ...]:
    """Read what the config managers report of their nodes' schedulers."""
    found = await asyncio.gather(*(_config_map_data(reader, each, contracts.CONFIG_MANAGER) for each in namespaces))
    return tuple(report for data in found for report in decode_node_reports(data))


async def _config_map_data(reader: Reader, namespace: str, name: str) -> JsonObject:
    return _mapping((await reader.get_if_allowed(Area.CONFIG_MAPS, CONFIG_MAPS, namespace, name) or {}).get("data"))


async def read_certificates(reader: Reader, pods: Sequence[SeenPod]) -> tuple[CertificateFacts, ...]:
    """Read when the certificates in our programs' Secrets expire; nothing else of a Secret is kept."""
    mounted = {
        (pod.metadata.namespace, each.secret.secret_name)
        for pod in pods
        for each in pod.spec.volumes
        if each.secret is not None
    }

    async def read(namespace: str, name: str) -> list[CertificateFacts]:
        data = _mapping((await reader.get_if_allowed(Area.SECRETS, _SECRETS, namespace, name) or {}).get("data"))
        return [
            _certificate(f"Secret {namespace}/{name}, {key}", str(data[key])) for key in _CERTIFICATES if key in data
        ]

    found = await asyncio.gather(*(read(*place) for place in sorted(mounted)))
    return tuple(each for certificates in found for each in certificates)


def _certificate(subject: str, text: str) -> CertificateFacts:
    try:
        return CertificateFacts(subject=subject, not_after=first_end(base64.b64decode(text)))
    except (RemoteContractError, binascii.Error) as failure:
        return CertificateFacts(subject=subject, problem=str(failure))


def _name(found: JsonObject) -> str:
    return str(_mapping(found.get("metadata")).get("name", ""))


def _spec(found: JsonObject) -> JsonObject:
    return _mapping(found.get("spec"))


def _mapping(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}
