"""Asks the programs themselves: plugins through ``pods/proxy``, extenders through it, their Service or an address."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from gcushare.cli.doctor.facts import Area, ClockFacts, PluginFacts, ReplicaFacts, Unread
from gcushare.cli.doctor.read import ANSWER_S, Dated, Reader
from gcushare.cluster.endpoints import Endpoint, proxied_pod, proxied_service
from gcushare.cluster.metrics_text import parse_figures
from gcushare.cluster.program_pods import SeenPod, Service
from gcushare.cluster.programs import EXTENDER_PORT, STATUS_PORT, vendor_of_plugin
from gcushare.core.errors import ForbiddenError, GcushareError
from gcushare.vendors import VENDORS_BY_NAME
from gcushare.wire.documents.node_status import parse_node_status


async def ask_plugins(
    reader: Reader, pods: Sequence[SeenPod]
) -> tuple[tuple[PluginFacts, ...], tuple[ClockFacts, ...]]:
    """Ask every plugin what it believes and what its kubelet gave out."""
    done = 0

    async def ask(pod: SeenPod) -> tuple[PluginFacts, tuple[ClockFacts, ...]]:
        nonlocal done
        facts = PluginFacts(pod=pod, vendor=vendor_of_plugin(pod))
        if pod.status.phase != "Running" or not reader.may_read(Area.PLUGINS):
            return facts, ()
        endpoint = proxied_pod(reader.client, pod, STATUS_PORT)
        try:
            answer = await reader.ask(endpoint, "/status")
            status = parse_node_status(answer.body)
        except GcushareError as failure:
            _note_right(reader, Area.PLUGINS, endpoint, failure)
            return PluginFacts(pod=pod, vendor=facts.vendor, problem=str(failure)), ()
        finally:
            done += 1
            reader.progress(f"asking device plugins: {done} of {len(pods)}")
        # Its pod may say nothing of the vendor: a settings file, a variable or the cards themselves may have decided.
        vendor = VENDORS_BY_NAME.get(status.vendor, facts.vendor)
        return PluginFacts(pod=pod, vendor=vendor, status=status), reader.clock_of(
            f"the device plugin of node {pod.spec.node_name}", answer
        )

    found = await asyncio.gather(*(ask(pod) for pod in pods))
    return tuple(facts for facts, _ in found), tuple(clock for _, clocks in found for clock in clocks)


async def ask_replica(
    reader: Reader, endpoint: Endpoint, name: str, pod: SeenPod | None = None
) -> tuple[ReplicaFacts, tuple[ClockFacts, ...]]:
    """Ask one extender for its version and figures."""
    try:
        version = await reader.ask(endpoint, "/version")
        metrics = await reader.ask(endpoint, "/metrics")
        figures = parse_figures(metrics.body.decode("utf-8", errors="replace"))
    except GcushareError as failure:
        _note_right(reader, Area.EXTENDER, endpoint, failure)
        return ReplicaFacts(name=name, pod=pod, problem=str(failure)), ()
    facts = ReplicaFacts(name=name, pod=pod, version=_version_in(version), figures=figures)
    return facts, reader.clock_of(f"the scheduler extender {name}", version)


async def ask_replicas(
    reader: Reader, pods: Sequence[SeenPod]
) -> tuple[tuple[ReplicaFacts, ...], tuple[ClockFacts, ...]]:
    """Ask every extender's pod that runs; the others are told as they are."""
    if not reader.may_read(Area.PLUGINS):  # the same right, pods/proxy
        return tuple(ReplicaFacts(name=pod.key, pod=pod) for pod in pods), ()

    async def ask(pod: SeenPod) -> tuple[ReplicaFacts, tuple[ClockFacts, ...]]:
        if pod.status.phase != "Running":
            return ReplicaFacts(name=pod.key, pod=pod, problem=f"its pod is {pod.status.phase or 'Pending'}"), ()
        return await ask_replica(reader, proxied_pod(reader.client, pod, EXTENDER_PORT), pod.key, pod)

    found = await asyncio.gather(*(ask(pod) for pod in pods))
    return tuple(facts for facts, _ in found), tuple(clock for _, clocks in found for clock in clocks)


async def ask_service(reader: Reader, service: Service) -> str:
    """Ask whether anybody answers behind the Service; returns why not, empty where somebody does."""
    endpoint = proxied_service(reader.client, service)
    try:
        await endpoint.get("/version", timeout_s=ANSWER_S)
    except GcushareError as failure:
        _note_right(reader, Area.EXTENDER, endpoint, failure)
        return "" if isinstance(failure, ForbiddenError) else str(failure)
    return ""


def _note_right(reader: Reader, part: Area, endpoint: Endpoint, failure: GcushareError) -> None:
    known = {each.right for each in reader.unread}
    if isinstance(failure, ForbiddenError) and endpoint.right and endpoint.right not in known:
        reader.unread.append(Unread(part, str(failure), endpoint.right))


def _version_in(answer: Dated) -> str:
    return answer.body.decode("utf-8", errors="replace").strip().removeprefix("v")[:40]
