"""What this program asks of the API server: the extender's address, the wish, reports, the mirror pod."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gcushare.config_manager.desired_state import ExtenderOptions, extender_settings
from gcushare.config_manager.host.launch import HealthEndpoint
from gcushare.config_manager.host.probe import Processes, Running
from gcushare.config_manager.reconcile import Desire, State
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderSettings
from gcushare.core.errors import ConfigError, NotFoundError, RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import CONFIG_MAPS, NODES, Resource
from gcushare.wire.scheduler_port import CALLS_KEY, NODE_REPORT, REPORT_KEY_PREFIX, SERVICE_PORT, Calls

SERVICES: Resource[dict[str, Any]] = Resource("api/v1", "services", dict)
_MIRROR_PODS: Resource[dict[str, Any]] = Resource("api/v1", "pods", dict)

STATE_NAME = "gcushare-config-manager"
"""Name of the ConfigMap that holds the wish and every node's report, and of the Lease that gives turns."""
MODE_KEY = "mode"


@dataclass(frozen=True, slots=True)
class ServiceName:
    """A Service of the extender."""

    namespace: str
    name: str


async def find_extender_url(client: KubeClient, service: ServiceName, scheme: str, *, port_name: str = "") -> str:
    """Find the Service's ClusterIP and port: kube-scheduler's pod cannot resolve names of the cluster.

    The port is the first one, or the one called ``port_name`` where there is one.

    Raises:
        NotFoundError: there is no such Service.
        ConfigError: it has no ClusterIP.
    """
    found = await client.get(SERVICES, service.name, namespace=service.namespace)
    spec = _mapping(found.get("spec"))
    address = str(spec.get("clusterIP") or "")
    ports = [_mapping(port) for port in _sequence(spec.get("ports"))]
    if address in ("", "None") or not ports:
        raise ConfigError(
            f"Service {service.namespace}/{service.name} has clusterIP {address!r} and {len(ports)} ports: "
            "kube-scheduler needs an address, so it must not be headless; or say one with --extender-url"
        )
    host = f"[{address}]" if ":" in address else address
    named = [port for port in ports if port_name and port.get("name") == port_name]
    return f"{scheme}://{host}:{int((named or ports)[0].get('port', 0))}"


class ClusterWishes:
    """The wish from the ConfigMap, the extender's address from its Service, the rest from the options."""

    def __init__(self, client: KubeClient, options: ExtenderOptions, namespace: str) -> None:
        self._client = client
        self._options = options
        self._namespace = namespace

    async def desire(self) -> Desire:
        """Read the wish; without a ConfigMap it is to apply: that is what this program was started for."""
        try:
            found = await self._client.get(CONFIG_MAPS, STATE_NAME, namespace=self._namespace)
        except NotFoundError:
            return Desire.APPLY
        mode = _mapping(found.get("data")).get(MODE_KEY, Desire.APPLY.value)
        try:
            return Desire(mode)
        except ValueError as error:
            words = " or ".join(repr(each.value) for each in Desire)
            raise RemoteContractError(f"ConfigMap {STATE_NAME}: {MODE_KEY} is {mode!r}, expected {words}") from error

    async def extender(self) -> ExtenderSettings:
        return await find_extender(self._client, self._options)


async def find_extender(client: KubeClient | None, options: ExtenderOptions) -> ExtenderSettings:
    """Complete the options with the Service's address, unless a URL is given.

    Raises:
        ConfigError: neither a URL nor a way to the API server.
    """
    if options.url is not None:
        return extender_settings(options, options.url)
    if client is None:
        raise ConfigError("the extender's address is not known: give --extender-url, or a way to the API server")
    namespace, _, name = options.service.partition("/")
    port_name = "" if options.tls_cert is None else SERVICE_PORT
    url = await find_extender_url(client, ServiceName(namespace, name), options.scheme, port_name=port_name)
    return extender_settings(options, url)


class ClusterReports:
    """One key per node in the ConfigMap; merge patches, so that nodes do not overwrite each other."""

    def __init__(self, client: KubeClient, namespace: str, node: str) -> None:
        self._client = client
        self._namespace = namespace
        self._node = node

    async def report(self, state: State, reason: str, calls: Calls) -> None:
        value = json.dumps({"state": state.value, CALLS_KEY: calls.value, "reason": reason})
        await _write(self._client, self._namespace, {REPORT_KEY_PREFIX + self._node: value})


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What one node told last."""

    node: str
    state: str
    reason: str


async def wish(client: KubeClient, namespace: str, desire: Desire) -> None:
    """Tell every node what to do."""
    await _write(client, namespace, {MODE_KEY: desire.value})


async def read_reports(client: KubeClient, namespace: str) -> list[NodeReport]:
    """Read what every node that still exists told last, by name."""
    try:
        found = await client.get(CONFIG_MAPS, STATE_NAME, namespace=namespace)
    except NotFoundError:
        return []
    reports = []
    for key, value in sorted(_mapping(found.get("data")).items()):
        node = key.removeprefix(REPORT_KEY_PREFIX)
        if key.startswith(REPORT_KEY_PREFIX) and await _exists(client, node):
            told = _decoded(str(value))
            reports.append(NodeReport(node, told.get("state", ""), told.get("reason", "")))
    return reports


class MirrorPods:
    """Sees the scheduler through the pod that the kubelet mirrors to the API server; needs no access to the host."""

    def __init__(self, client: KubeClient, node: str, pod: tuple[str, str] = ("kube-system", "kube-scheduler")) -> None:
        self._client = client
        self._namespace = pod[0]
        self._name = f"{pod[1]}-{node}"

    async def find(self, endpoint: HealthEndpoint) -> Running | None:
        try:
            pod = await self._client.get(_MIRROR_PODS, self._name, namespace=self._namespace)
        except NotFoundError:
            return None
        containers = [_mapping(each) for each in _sequence(_mapping(pod.get("spec")).get("containers"))]
        statuses = [_mapping(each) for each in _sequence(_mapping(pod.get("status")).get("containerStatuses"))]
        running = [each for each in statuses if "running" in _mapping(each.get("state"))]
        if not containers or not running:
            return None
        commands = [[*_sequence(each.get("command")), *_sequence(each.get("args"))] for each in containers]
        words = next((words for words in commands if "kube-scheduler" in " ".join(map(str, words[:2]))), commands[0])
        annotations = _mapping(_mapping(pod.get("metadata")).get("annotations"))
        # The mirror's spec is new before its status: only both together name an instance.
        instance = f"{annotations.get('kubernetes.io/config.hash', '')}/{running[0].get('containerID', '')}"
        return Running(instance, tuple(map(str, words)))


class FirstSeen:
    """Asks several in turn: the first that sees a scheduler answers."""

    def __init__(self, *sources: Processes) -> None:
        self._sources = sources

    async def find(self, endpoint: HealthEndpoint) -> Running | None:
        for source in self._sources:
            running = await source.find(endpoint)
            if running is not None:
                return running
        return None


async def _write(client: KubeClient, namespace: str, data: Mapping[str, str]) -> None:
    """Set keys of the ConfigMap, which is made when it is not there."""
    patch = Patch(PatchKind.MERGE, {"data": dict(data)})
    try:
        await client.patch(CONFIG_MAPS, STATE_NAME, patch, namespace=namespace)
    except NotFoundError:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": STATE_NAME}, "data": dict(data)}
        await client.create(CONFIG_MAPS, body, namespace=namespace)


async def _exists(client: KubeClient, node: str) -> bool:
    try:
        await client.get(NODES, node)
    except NotFoundError:
        return False
    return True


def _decoded(text: str) -> dict[str, str]:
    try:
        return NODE_REPORT.read(text)
    except RemoteContractError as error:
        return {"state": "unknown", "reason": f"{text[:80]!r}: {error}"}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
