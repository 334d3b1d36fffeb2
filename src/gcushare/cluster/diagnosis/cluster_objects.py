"""Reads the objects other than nodes and pods: policies, schedulers' configurations, reports, certificates, claims."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from gcushare.cluster.diagnosis.facts import CertificateFacts, ClaimsFacts, LimitRange, PolicyFacts, Quota
from gcushare.cluster.diagnosis.schedulers import CONFIG_MAP_WORD, SchedulerFacts, config_map_of, parse_configuration
from gcushare.cluster.programs import SeenPod, flag
from gcushare.cluster.reader import Reader
from gcushare.cluster.rights import Area
from gcushare.core.errors import RemoteContractError
from gcushare.kube.resources import CLAIMS_API, CONFIG_MAPS, DEVICE_CLASSES, RESOURCE_SLICES, JsonObject, Resource
from gcushare.wire import contracts
from gcushare.wire.certificates import first_end
from gcushare.wire.documents.node_report import NodeReport, decode_node_reports
from gcushare.wire.dra.device_classes import extended_resources
from gcushare.wire.objects import Node, ObjectMeta


class _Object(msgspec.Struct, frozen=True):
    """An object of any kind, as far as it is read here."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JsonObject = {}
    data: dict[str, str] = {}


_LIMIT_RANGES = Resource("api/v1", "limitranges", LimitRange)
_QUOTAS = Resource("api/v1", "resourcequotas", Quota)
_SECRETS = Resource("api/v1", "secrets", _Object)
_NAMESPACES = Resource("api/v1", "namespaces", _Object, namespaced=False)
_SLICES_OF_ALL_DRIVERS = Resource(CLAIMS_API, "resourceslices", _Object, namespaced=False)

_ENFORCED_LEVEL = "pod-security.kubernetes.io/enforce"
_CERTIFICATES = ("tls.crt", contracts.CLIENT_CERT, "ca.crt")


async def read_policies(reader: Reader) -> tuple[PolicyFacts, ...]:
    """Read the admission policies, and whether a binding makes them deny; none if the cluster has no such kind."""
    policies, bindings = await asyncio.gather(
        reader.list_if_allowed(Area.POLICIES, _admission("validatingadmissionpolicies")),
        reader.list_if_allowed(Area.POLICIES, _admission("validatingadmissionpolicybindings")),
    )
    return _policies(policies, [each for each in bindings if "Deny" in (each.spec.get("validationActions") or [])])


async def read_drivers(reader: Reader) -> dict[str, frozenset[str]]:
    """Read which drivers publish ResourceSlices of each node; none if the cluster has no such kind."""
    found: dict[str, set[str]] = {}
    for each in await reader.list_if_allowed(Area.SLICES, _SLICES_OF_ALL_DRIVERS):
        found.setdefault(str(each.spec.get("nodeName", "")), set()).add(str(each.spec.get("driver", "")))
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
            read(_NAMESPACES),
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
            each.metadata.name
            for each in namespaces
            if each.metadata.labels.get(contracts.CLAIMS_LABEL) == contracts.CLAIMS_ENABLED
        ),
        quotas=tuple(quotas),
        limit_ranges=tuple(limit_ranges),
    )


async def read_security_levels(reader: Reader, names: Iterable[str]) -> dict[str, str]:
    """Read which Pod Security level each of these namespaces enforces; those that enforce none are left out."""
    places = sorted(set(names))
    found = await asyncio.gather(
        *(reader.attempt(Area.NAMESPACES, partial(reader.client.get, _NAMESPACES, name)) for name in places)
    )
    levels = {each.metadata.name: each.metadata.labels.get(_ENFORCED_LEVEL, "") for each in found if each is not None}
    return {name: level for name, level in levels.items() if level}


def _admission(plural: str) -> Resource[_Object]:
    return Resource("apis/admissionregistration.k8s.io/v1", plural, _Object, namespaced=False)


def _policies(policies: Iterable[_Object], bindings: Iterable[_Object]) -> tuple[PolicyFacts, ...]:
    """Describe policies; those that one of these bindings names take effect."""
    bound = {str(each.spec.get("policyName", "")) for each in bindings}
    named = ((each.metadata.name, msgspec.json.encode(each.spec).decode()) for each in policies)
    return tuple(PolicyFacts(name=name, text=text, denies=name in bound) for name, text in named)


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
            return facts if text is None else _from_text(facts, text, f"{CONFIG_MAP_WORD}{namespace}/{name}")
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


async def _config_map_data(reader: Reader, namespace: str, name: str) -> dict[str, str]:
    found = await reader.get_if_allowed(Area.CONFIG_MAPS, CONFIG_MAPS, namespace, name)
    return {} if found is None else found.data


async def read_certificates(reader: Reader, pods: Sequence[SeenPod]) -> tuple[CertificateFacts, ...]:
    """Read when the certificates in our programs' Secrets expire; nothing else of a Secret is kept."""
    mounted = {
        (pod.metadata.namespace, each.secret.secret_name)
        for pod in pods
        for each in pod.spec.volumes
        if each.secret is not None
    }

    async def read(namespace: str, name: str) -> list[CertificateFacts]:
        found = await reader.get_if_allowed(Area.SECRETS, _SECRETS, namespace, name)
        data = {} if found is None else found.data
        return [_certificate(f"Secret {namespace}/{name}, {key}", data[key]) for key in _CERTIFICATES if key in data]

    found = await asyncio.gather(*(read(*place) for place in sorted(mounted)))
    return tuple(each for certificates in found for each in certificates)


def _certificate(subject: str, text: str) -> CertificateFacts:
    try:
        return CertificateFacts(subject=subject, not_after=first_end(base64.b64decode(text)))
    except (RemoteContractError, binascii.Error) as failure:
        return CertificateFacts(subject=subject, problem=str(failure))
