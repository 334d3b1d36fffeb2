"""Gathers the snapshot: everything through the API server, what is independent at once, nothing that stops the rest."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from gcushare._version import __version__
from gcushare.cli.doctor.cluster_objects import read_certificates, read_policies, read_reports, read_schedulers
from gcushare.cli.doctor.facts import Area, ClockFacts, ExtenderFacts, Facts, Unread, lease_clock
from gcushare.cli.doctor.probe import (
    ask_plugins,
    ask_replica,
    ask_replicas,
    ask_service,
)
from gcushare.cli.doctor.read import Progress, Reader, dated
from gcushare.cli.doctor.rights import find_missing, needed_rights
from gcushare.cli.doctor.settings import WhereSettings
from gcushare.cluster.endpoints import at_address, proxied_service
from gcushare.cluster.program_pods import SeenPod, Service
from gcushare.cluster.programs import Program, flag, program_of
from gcushare.cluster.reading import list_items
from gcushare.core.errors import RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.resources import EVERYTHING, LEASES, NODES, PODS, Resource, Selector
from gcushare.wire.contracts import EXTENDER
from gcushare.wire.foreign import OBJECT_BYTES, JsonDoor
from gcushare.wire.objects import NODE, Lease, Node

SERVICES: Resource[Service] = Resource("api/v1", "services", Service)
NODE_LEASE_NAMESPACE = "kube-node-lease"
EXTENDER_LEASE = EXTENDER

_CONCERNED = (b"gcu", b"gpu", b"GPU_MEM", b"kube-scheduler")
"""One of these stands in the JSON of every pod that asks for cards, carries a record or runs one of the programs."""

SEEN_POD = JsonDoor(SeenPod, "a pod of the list", limit_bytes=OBJECT_BYTES, max_depth=None)
VERSION = JsonDoor(dict[str, str | bool | None], "the API server's version", limit_bytes=64 * 1024)


async def gather(client: KubeClient, where: WhereSettings, clock: Clock, progress: Progress) -> Facts:
    """Gather the snapshot.

    Raises:
        ConfigError: a scheduler's configuration is named that cannot be read.
        GcushareError: the API server does not answer at all, or the node asked for does not exist.
    """
    scheduler_config = where.read_scheduler_config()
    namespace, _ = where.service
    reader, server_version = await _begin(client, namespace, clock, progress)
    nodes, pods, policies = await asyncio.gather(
        _read_nodes(reader, where.node), _read_pods(reader, where.node), read_policies(reader)
    )
    programs = _by_program(pods)
    (
        (plugins, plugin_clocks),
        (extender, extender_clocks),
        node_clocks,
        schedulers,
        reports,
        certificates,
    ) = await asyncio.gather(
        ask_plugins(reader, [pod for pod in programs.get(Program.PLUGIN, ()) if pod.is_bound]),
        _read_extender(reader, where, programs.get(Program.EXTENDER, ())),
        _read_node_clocks(reader, {node.metadata.name for node in nodes if node.is_ready}),
        read_schedulers(reader, programs.get(Program.SCHEDULER, ()), scheduler_config),
        read_reports(reader, _namespaces(namespace, programs)),
        read_certificates(reader, [*programs.get(Program.EXTENDER, ()), *programs.get(Program.CONFIG_MANAGER, ())]),
    )
    return Facts(
        now=reader.now(),
        server_version=server_version,
        own_version=__version__,
        scope=where.node,
        nodes=nodes,
        pods=pods,
        programs=programs,
        plugins=plugins,
        extender=extender,
        schedulers=schedulers,
        reports=reports,
        policies=policies,
        certificates=certificates,
        clocks=(*plugin_clocks, *extender_clocks, *node_clocks),
        unread=tuple(dict.fromkeys(reader.unread)),
    )


async def _begin(client: KubeClient, namespace: str, clock: Clock, progress: Progress) -> tuple[Reader, str]:
    """Learn the server's version, its time, and what the caller may not read."""
    progress("asking the API server")
    reader = Reader(client, clock, progress)
    hello = await dated(client, clock, "/version", "version")
    reader.ahead_s, reader.within_s = hello.ahead_s or 0.0, hello.within_s
    reader.missing = await find_missing(client, needed_rights(namespace))
    reader.unread.extend(right.missing() for right in reader.missing)
    return reader, _git_version(hello.body)


async def _read_nodes(reader: Reader, name: str | None) -> tuple[Node, ...]:
    if name is not None:
        # One that does not exist is the caller's error, not a finding.
        return (await reader.client.get(NODES, name),)

    async def read() -> tuple[Node, ...]:
        found: dict[str, Node] = {}
        async with aclosing(list_items(reader.client, NODES, EVERYTHING)) as items:
            async for raw in items:
                try:
                    node = NODE.read(raw)
                except RemoteContractError as failure:
                    reader.unread.append(Unread(Area.NODES, str(failure)))
                    continue
                found[node.metadata.name] = node
                reader.progress(f"reading nodes: {len(found)}")
        return tuple(found[each] for each in sorted(found))

    return await reader.attempt(Area.NODES, "list nodes", read, ())


async def _read_pods(reader: Reader, node: str | None) -> tuple[SeenPod, ...]:
    """Read the pods that concern us; of one node, and our programs wherever they run, where a node is asked for."""

    async def read() -> tuple[SeenPod, ...]:
        found: dict[str, SeenPod] = {}
        count = 0
        async with aclosing(list_items(reader.client, PODS, EVERYTHING)) as items:
            async for raw in items:
                count += 1
                reader.progress(f"reading pods: {count}")
                if not any(word in bytes(raw) for word in _CONCERNED):
                    continue
                try:
                    pod = SEEN_POD.read(raw)
                except RemoteContractError as failure:
                    reader.unread.append(Unread(Area.PODS, str(failure)))
                    continue
                if node is None or _is_of_node(pod, node):
                    found[pod.metadata.uid or pod.key] = pod
        return tuple(sorted(found.values(), key=lambda pod: pod.key))

    return await reader.attempt(Area.PODS, "list pods", read, ())


def _is_of_node(pod: SeenPod, node: str) -> bool:
    program = program_of(pod)
    return pod.spec.node_name == node or program not in (None, Program.PLUGIN)


def _by_program(pods: tuple[SeenPod, ...]) -> dict[Program, tuple[SeenPod, ...]]:
    found: dict[Program, list[SeenPod]] = {}
    for pod in pods:
        program = program_of(pod)
        if program is not None:
            found.setdefault(program, []).append(pod)
    return {program: tuple(members) for program, members in found.items()}


def _namespaces(namespace: str, programs: dict[Program, tuple[SeenPod, ...]]) -> tuple[str, ...]:
    managers = (pod.metadata.namespace for pod in programs.get(Program.CONFIG_MANAGER, ()))
    return tuple(dict.fromkeys((namespace, *managers)))


async def _read_extender(
    reader: Reader, where: WhereSettings, pods: tuple[SeenPod, ...]
) -> tuple[ExtenderFacts, tuple[ClockFacts, ...]]:
    reader.progress("asking the scheduler extender")
    namespace, service_name = where.service
    name = where.extender_service

    async def read_service() -> Service | None:
        return await reader.client.get(SERVICES, service_name, namespace=namespace)

    right = f"get services in namespace {namespace}"
    service = await reader.attempt(Area.SERVICE, right, read_service, None)
    problem = await ask_service(reader, service) if service is not None and reader.may_read(Area.EXTENDER) else ""
    lease = await _read_lease(reader, namespace, pods)
    replicas, clocks = await ask_replicas(reader, pods)
    if where.extender_url is not None:
        async with at_address(where.extender_url) as endpoint:
            replica, clocks = await ask_replica(reader, endpoint, f"at {where.extender_url}")
        replicas = (replica,)
    elif not replicas and service is not None and not problem and reader.may_read(Area.EXTENDER):
        endpoint = proxied_service(reader.client, service)
        replica, clocks = await ask_replica(reader, endpoint, f"behind Service {name}")
        replicas = (replica,)
    facts = ExtenderFacts(
        replicas=replicas,
        service=service,
        service_name=name,
        service_problem=problem,
        lease=lease,
        url=where.extender_url or "",
    )
    return facts, clocks


async def _read_lease(reader: Reader, default_namespace: str, pods: tuple[SeenPod, ...]) -> Lease | None:
    electing = next((pod for pod in pods if flag(pod, "no-leader-elect") is None), None)
    name = (flag(electing, "lease-name") if electing is not None else None) or EXTENDER_LEASE
    namespace = (flag(electing, "lease-namespace") if electing is not None else None) or (
        electing.metadata.namespace if electing is not None else default_namespace
    )

    async def read() -> Lease | None:
        return await reader.client.get(LEASES, name, namespace=namespace)

    return await reader.attempt(Area.LEASES, f"get leases in namespace {namespace}", read, None)


async def _read_node_clocks(reader: Reader, ready: set[str]) -> tuple[ClockFacts, ...]:
    """Compare when kubelets of ready nodes say that they renewed their leases with the API server's time."""

    async def read() -> list[Lease]:
        return await reader.client.list_all(LEASES, Selector(namespace=NODE_LEASE_NAMESPACE))

    nothing: list[Lease] = []
    right = f"list leases in namespace {NODE_LEASE_NAMESPACE}"
    leases = await reader.attempt(Area.NODE_LEASES, right, read, nothing)
    now = reader.now()
    found = (lease_clock(lease, now, reader.within_s) for lease in leases if lease.metadata.name in ready)
    return tuple(each for each in found if each is not None)


def _git_version(body: bytes) -> str:
    try:
        return str(VERSION.read(body).get("gitVersion") or "")
    except RemoteContractError:
        return ""
