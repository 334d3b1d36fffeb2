"""Gathers the input of all checks through the API server; independent parts concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gcushare._version import __version__
from gcushare.cluster.cluster_flags import WhereSettings
from gcushare.cluster.diagnosis import cluster_objects
from gcushare.cluster.diagnosis.facts import ExtenderFacts, Facts, PluginFacts, ReplicaFacts
from gcushare.cluster.metrics_text import MetricsPage, parse_figures
from gcushare.cluster.programs import (
    SEEN_NODE,
    SEEN_NODES,
    SEEN_POD,
    SERVICES,
    ProgramAddress,
    ProgramKind,
    ReportingNode,
    SeenPod,
    flag,
    program_of,
    proxied_extender_page,
    proxied_pod,
    proxied_service,
    vendor_of_plugin,
)
from gcushare.cluster.reader import ANSWER_S, Reader, naming_node
from gcushare.cluster.rights import Area
from gcushare.core.errors import ForbiddenError, GcushareError
from gcushare.kube.resources import LEASES, PODS
from gcushare.vendors import VENDORS_BY_NAME
from gcushare.wire.contracts import EXTENDER

_OF_NODES = (None, ProgramKind.PLUGIN)
"""Pods of another node than the one asked for that are left out: other people's, and the programs of that node."""
CONCERNED = (b"gcu", b"gpu", b"GPU_MEM", b"kube-scheduler", b"_VISIBLE_DEVICES")
"""One of these stands in the JSON of every pod that asks for cards, carries a record, runs one of the programs or
chooses what it sees."""


async def gather(reader: Reader, where: WhereSettings) -> Facts:
    """Gather the facts.

    Raises:
        ConfigError: a scheduler's configuration is named that cannot be read.
        GcushareError: the API server does not answer at all, or the node asked for does not exist.
    """
    scheduler_config = where.read_scheduler_config()
    namespace = where.extender_service.namespace
    server_version = await reader.learn_time()
    nodes, pods, policies, drivers = await asyncio.gather(
        _read_nodes(reader, where.node),
        _read_pods(reader, where.node),
        cluster_objects.read_policies(reader),
        cluster_objects.read_drivers(reader),
    )
    programs: dict[ProgramKind, list[SeenPod]] = {each: [] for each in ProgramKind}
    for pod in pods:
        if (program := program_of(pod)) is not None:
            programs[program].append(pod)
    ours = [*programs[ProgramKind.EXTENDER], *programs[ProgramKind.CONFIG_MANAGER]]
    namespaces = dict.fromkeys((namespace, *(pod.metadata.namespace for pod in programs[ProgramKind.CONFIG_MANAGER])))
    plugins, extender, schedulers, reports, certificates = await asyncio.gather(
        _ask_plugins(reader, [pod for pod in programs[ProgramKind.PLUGIN] if pod.is_bound]),
        _read_extender(reader, where, programs[ProgramKind.EXTENDER]),
        cluster_objects.read_schedulers(reader, programs[ProgramKind.SCHEDULER], scheduler_config),
        cluster_objects.read_reports(reader, tuple(namespaces)),
        cluster_objects.read_certificates(reader, ours),
    )
    with_host_paths = [*programs[ProgramKind.PLUGIN], *programs[ProgramKind.CONFIG_MANAGER]]
    claims, levels = await asyncio.gather(
        cluster_objects.read_claims(reader, nodes, programs[ProgramKind.EXTENDER]),
        # Where none of them runs, it may be that they are refused; the charts install all into one namespace.
        cluster_objects.read_security_levels(reader, [p.metadata.namespace for p in with_host_paths] or [namespace]),
    )
    return Facts(
        now=reader.now(),
        server_version=server_version,
        own_version=__version__,
        scope=where.node,
        nodes=nodes,
        pods=pods,
        programs={program: tuple(members) for program, members in programs.items() if members},
        plugins=plugins,
        claims=claims,
        extender=extender,
        schedulers=schedulers,
        reports=reports,
        policies=policies,
        certificates=certificates,
        drivers=drivers,
        security_levels=levels,
        unread=tuple(dict.fromkeys(reader.unread)),
    )


async def _read_nodes(reader: Reader, name: str | None) -> tuple[ReportingNode, ...]:
    if name is not None:
        with naming_node(name):  # one that does not exist is the caller's error, not a finding
            return (await reader.client.get(SEEN_NODES, name),)
    found = await reader.list_part(Area.NODES, SEEN_NODES, SEEN_NODE.read)
    return tuple(sorted(found, key=lambda node: node.metadata.name))


async def _read_pods(reader: Reader, node: str | None) -> tuple[SeenPod, ...]:
    """Read the pods that concern us. With a ``node``: its pods, and our programs on any node."""
    found = await reader.list_part(Area.PODS, PODS, SEEN_POD.read, CONCERNED)
    kept = (pod for pod in found if node is None or pod.spec.node_name == node or program_of(pod) not in _OF_NODES)
    return tuple(sorted(kept, key=lambda pod: pod.key))


async def _ask_plugins(reader: Reader, pods: Sequence[SeenPod]) -> tuple[PluginFacts, ...]:
    """Ask every running plugin for its status; facts of the others have the state of their pods."""
    asked = [pod for pod in pods if pod.status.phase == "Running"]
    answers = {pod.key: answer for pod, answer in await reader.ask_plugins(asked, timeout_s=ANSWER_S)}
    facts = []
    for pod in pods:
        vendor, status = vendor_of_plugin(pod), answers.get(pod.key)
        if isinstance(status, ForbiddenError):
            reader.miss(Area.PLUGINS, status)
            status = None
        if status is None or isinstance(status, GcushareError):
            facts.append(PluginFacts(pod=pod, vendor=vendor, problem=str(status or "")))
            continue
        # Its pod may say nothing of the vendor: a settings file, a variable or the cards themselves may have decided.
        facts.append(PluginFacts(pod=pod, vendor=VENDORS_BY_NAME.get(status.vendor, vendor), status=status))
    return tuple(facts)


async def _read_extender(reader: Reader, where: WhereSettings, pods: Sequence[SeenPod]) -> ExtenderFacts:
    reader.progress("asking the scheduler extender")
    namespace, name = where.extender_service.namespace, where.extender_service.name
    service = await reader.get_if_allowed(Area.SERVICE, SERVICES, namespace, name)
    problem = ""
    if service is not None:
        try:
            await proxied_service(reader.client, service).get("/version", timeout_s=ANSWER_S)
        except ForbiddenError as refusal:
            reader.miss(Area.EXTENDER, refusal)
        except GcushareError as failure:
            problem = str(failure)
    lease = None
    if electing := next((pod for pod in pods if flag(pod, "no-leader-elect") is None), None):
        of_lease = flag(electing, "lease-namespace") or electing.metadata.namespace
        lease = await reader.get_if_allowed(Area.LEASES, LEASES, of_lease, flag(electing, "lease-name") or EXTENDER)
    replicas = await _ask_replicas(reader, pods)
    if not replicas and service is not None and reader.may_read(Area.EXTENDER) and not problem:
        endpoint = proxied_service(reader.client, service)
        replicas = [await _ask_replica(reader, endpoint, f"behind Service {where.extender_service}")]
    return ExtenderFacts(
        replicas=tuple(replicas),
        service=service,
        service_name=str(where.extender_service),
        service_problem=problem,
        lease=lease,
    )


async def _ask_replicas(reader: Reader, pods: Sequence[SeenPod]) -> list[ReplicaFacts]:
    """Ask every running pod of the extender; the facts of the others have the state of their pods."""

    async def ask(pod: SeenPod) -> ReplicaFacts:
        if pod.status.phase != "Running":
            return ReplicaFacts(name=pod.key, pod=pod, problem=f"its pod is {pod.status.phase or 'Pending'}")
        return await _ask_replica(reader, proxied_pod(reader.client, pod), pod.key, pod)

    return await asyncio.gather(*(ask(pod) for pod in pods))


async def _ask_replica(reader: Reader, endpoint: ProgramAddress, name: str, pod: SeenPod | None = None) -> ReplicaFacts:
    """Ask one extender for its version, and for its figures, which its pod has on another port."""
    figures = MetricsPage(())
    try:
        version = await reader.ask(endpoint, "/version")
        if pod is not None:
            metrics = await reader.ask(proxied_extender_page(reader.client, pod), "/metrics")
            figures = parse_figures(metrics.decode("utf-8", errors="replace"))
    except ForbiddenError as refusal:
        reader.miss(Area.PLUGINS, refusal)  # pods/proxy, as of the plugins
        return ReplicaFacts(name=name, pod=pod)
    except GcushareError as failure:
        return ReplicaFacts(name=name, pod=pod, problem=str(failure))
    release = version.decode("utf-8", errors="replace").strip().removeprefix("v")[:40]
    return ReplicaFacts(name=name, pod=pod, version=release, figures=figures)
