"""What the API server is used for: the extender's address, desired state, reports, the Lease, mirror pods."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gcushare.config_manager.host.launch import HealthEndpoint
from gcushare.config_manager.host.probe import Running, SchedulerUnseenError
from gcushare.config_manager.reconcile import Mode, State
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry, ExtenderTls
from gcushare.config_manager.settings import ExtenderOptions
from gcushare.core.errors import ConfigError, GcushareError, NotFoundError, RemoteContractError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import Clock
from gcushare.kube.election import LeaderElector, LeasePort, Tenure
from gcushare.kube.lease import LeaseTimes
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import CONFIG_MAPS, NODES, Resource
from gcushare.wire.contracts import CONFIG_MANAGER, MODE_KEY, REPORT_KEY_PREFIX, VERBS_PORT_NAME, Calls
from gcushare.wire.documents.node_report import NodeReport, decode_node_reports, encode_node_report

SERVICES: Resource[dict[str, Any]] = Resource("api/v1", "services", dict)
_MIRROR_PODS: Resource[dict[str, Any]] = Resource("api/v1", "pods", dict)

ROLLOUT_TIMES = LeaseTimes(duration_s=90, renew_deadline_s=20, retry_s=1)
"""A holder that is cut off acts for 20 s at most, the next one waits 90 s: a restart that the first began has ended by
then (`execute.RESTART_S`). A Lease that is no longer needed is released at once, so only a crash costs the wait."""


class ApiRolloutLease:
    """One node at a time: whoever holds the Lease may change its node's scheduler.

    ``beat`` is called while the turn is waited for, which takes as long as all other nodes together, and when it comes.
    """

    def __init__(
        self,
        lease: LeasePort,
        identity: str,
        *,
        times: LeaseTimes = ROLLOUT_TIMES,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._lease = lease
        self._identity = identity
        self._times = times
        self._clock = clock
        self._rng = rng
        self._beat = beat

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[Tenure]:
        """Wait until this node holds the Lease; ask what is yielded before every step, the Lease may be lost."""
        held = asyncio.Event()

        def listen(leading: bool) -> None:
            if leading:
                held.set()

        elector = LeaderElector(
            self._lease, self._identity, times=self._times, listener=listen, clock=self._clock, rng=self._rng
        )
        running = asyncio.create_task(elector.run(), name="rollout lease")
        waiting = asyncio.create_task(held.wait(), name="wait for the rollout lease")
        try:
            done: set[asyncio.Task[Any]] = set()
            while not done:
                done, _ = await asyncio.wait(
                    (running, waiting), timeout=self._times.retry_s, return_when=asyncio.FIRST_COMPLETED
                )
                self._beat()
            if running.done():
                running.result()
            yield elector
        finally:
            # Cancelling the elector releases the Lease, so that the next node need not wait it out.
            waiting.cancel()
            running.cancel()
            await asyncio.wait((running, waiting))


class ApiDesiredState:
    """The mode from the ConfigMap, the extender's address from its Service, the rest from the options."""

    def __init__(
        self,
        client: KubeClient,
        options: ExtenderOptions,
        namespace: str,
        see: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._options = options
        self._namespace = namespace
        self._see = see
        """Is shown the data of the ConfigMap at each look."""

    async def mode(self) -> Mode:
        """Read it; without a ConfigMap it is to apply: that is what this program was started for."""
        try:
            found = await self._client.get(CONFIG_MAPS, CONFIG_MANAGER, namespace=self._namespace)
        except NotFoundError:
            found = {}
        data = _mapping(found.get("data"))
        self._see(data)
        mode = data.get(MODE_KEY, Mode.APPLY.value)
        try:
            return Mode(mode)
        except ValueError as error:
            words = " or ".join(repr(each.value) for each in Mode)
            raise RemoteContractError(
                f"ConfigMap {CONFIG_MANAGER}: {MODE_KEY} is {mode!r}, expected {words}"
            ) from error

    async def extender(self) -> ExtenderEntry:
        return await find_extender(self._client, self._options)


async def find_extender(client: KubeClient | None, options: ExtenderOptions) -> ExtenderEntry:
    """Complete the options with the Service's ClusterIP and port, unless a URL is given.

    An address: kube-scheduler's pod cannot resolve names of the cluster. The port is the Service's first one; with a
    client certificate the one of the calls over mutual TLS, where there is one.

    Raises:
        ConfigError: neither a URL nor a way to the API server, a Service without ClusterIP, or unusable TLS files.
        NotFoundError: there is no such Service.
    """
    if options.extender_url is not None:
        return _build_entry(options, options.extender_url)
    if client is None:
        raise ConfigError("the extender's address is not known: give --extender-url, or a way to the API server")
    namespace, _, name = options.extender_service.partition("/")
    found = await client.get(SERVICES, name, namespace=namespace)
    spec = _mapping(found.get("spec"))
    address = str(spec.get("clusterIP") or "")
    ports = [_mapping(port) for port in _sequence(spec.get("ports"))]
    if address in ("", "None") or not ports:
        raise ConfigError(
            f"Service {namespace}/{name} has clusterIP {address!r} and {len(ports)} ports: "
            "kube-scheduler needs an address, so it must not be headless; or say one with --extender-url"
        )
    scheme = "http" if options.tls_ca is None else "https"
    host = f"[{address}]" if ":" in address else address
    named = [port for port in ports if options.tls_cert is not None and port.get("name") == VERBS_PORT_NAME]
    return _build_entry(options, f"{scheme}://{host}:{int((named or ports)[0].get('port', 0))}")


def _build_entry(options: ExtenderOptions, url: str) -> ExtenderEntry:
    """Build the entry; the TLS files are read each time, so that a renewed CA holds at the next round.

    Raises:
        ConfigError: a TLS file cannot be read, or the options do not fit together.
    """
    tls = None
    if options.tls_ca is not None:
        tls = ExtenderTls(
            ca=_pem(options.tls_ca),
            server_name=options.server_name,
            certificate=_pem(options.tls_cert),
            key=_pem(options.tls_key),
        )
    return ExtenderEntry(
        url=url,
        vendors=options.vendors,
        whole_cards=options.whole_cards,
        weight=options.weight,
        timeout_s=options.timeout,
        ignorable=options.ignorable,
        tls=tls,
    )


def _pem(path: Path | None) -> bytes:
    if path is None:
        return b""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"TLS file {str(path)!r} cannot be read: {error.strerror}") from error
    if b"-----BEGIN " not in content:
        raise ConfigError(f"TLS file {str(path)!r} is not PEM: it has no '-----BEGIN' line")
    return content


class ApiReports:
    """One key per node in the ConfigMap; merge patches, so that nodes do not overwrite each other.

    A report may be lost: whoever replaces the ConfigMap, or makes it again, takes the reports out of it. ``see`` what
    stands there, and the next report is written again.
    """

    def __init__(self, client: KubeClient, namespace: str, node: str) -> None:
        self._client = client
        self._namespace = namespace
        self._node = node
        self._standing: Mapping[str, str] = {}

    def see(self, data: Mapping[str, Any]) -> None:
        """Take in what the ConfigMap holds now."""
        self._standing = {key: text for key, text in data.items() if key == REPORT_KEY_PREFIX + self._node}

    async def report(self, state: State, reason: str, calls: Calls) -> None:
        data = encode_node_report(self._node, state.value, reason, calls)
        if data == self._standing:
            return
        # Until the answer comes, and without one, it is not known what stands there.
        self._standing = {}
        await _write(self._client, self._namespace, data)
        self._standing = data


async def write_mode(client: KubeClient, namespace: str, mode: Mode) -> None:
    """Have every node apply or recover."""
    await _write(client, namespace, {MODE_KEY: mode.value})


async def read_reports(client: KubeClient, namespace: str) -> list[NodeReport]:
    """Read the last report of every node that still exists, by name."""
    try:
        found = await client.get(CONFIG_MAPS, CONFIG_MANAGER, namespace=namespace)
    except NotFoundError:
        return []
    reports = decode_node_reports(_mapping(found.get("data")))
    return [report for report in reports if await _exists(client, report.node)]


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
        except GcushareError as error:
            raise SchedulerUnseenError(f"kube-scheduler's mirror pod cannot be read: {error}") from error
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


async def _write(client: KubeClient, namespace: str, data: Mapping[str, str]) -> None:
    """Set keys of the ConfigMap, which is made when it is not there."""
    patch = Patch(PatchKind.MERGE, {"data": dict(data)})
    try:
        await client.patch(CONFIG_MAPS, CONFIG_MANAGER, patch, namespace=namespace)
    except NotFoundError:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MANAGER}, "data": dict(data)}
        await client.create(CONFIG_MAPS, body, namespace=namespace)


async def _exists(client: KubeClient, node: str) -> bool:
    try:
        await client.get(NODES, node)
    except NotFoundError:
        return False
    return True


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
