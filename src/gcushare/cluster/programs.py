"""Our programs' pods and Services: which program a pod runs, how it was started, and where it answers HTTP."""

from __future__ import annotations

import enum
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import msgspec
from msgspec import field

from gcushare.kube.client import KubeClient
from gcushare.kube.resources import Resource
from gcushare.vendors import DEFAULT_VENDOR, VENDORS_BY_NAME, Vendor
from gcushare.wire import contracts, objects
from gcushare.wire.flags import effective, parse_flags
from gcushare.wire.own_devices import ContainerWithVariables
from gcushare.wire.pods import is_finished
from gcushare.wire.untrusted_json import OBJECT_BYTES, BoundedJsonDecoder, Int

_PLUGIN_NAMES = (contracts.DEVICE_PLUGIN, "gpushare-device-plugin")
"""Parts of the names of plugins' pods: ours, and upstream gpushare's."""
_PORT_NAME = "status"
"""The plugin's port in the charts' DaemonSet."""


class Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port that a container declares."""

    container_port: Int = 0
    name: str = ""


class Mount(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a volume is seen in a container."""

    name: str = ""
    mount_path: str = ""
    sub_path: str = ""
    sub_path_expr: str = ""


class HostPath(msgspec.Struct, frozen=True, gc=False):
    path: str = ""
    type: str = ""


class _VolumeSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    """Of a ConfigMap."""
    secret_name: str = ""


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume that comes from an object of the API server or from its host."""

    name: str = ""
    config_map: _VolumeSource | None = None
    secret: _VolumeSource | None = None
    host_path: HostPath | None = None


class SeenContainer(ContainerWithVariables, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A container with its command line."""

    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()

    @property
    def command_line(self) -> tuple[str, ...]:
        """The command line, as far as the pod says it."""
        return (*self.command, *self.args)


class SeenSpec(objects.PodSpec, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A pod's spec with its command lines and volumes."""

    containers: tuple[SeenContainer, ...] = ()
    init_containers: tuple[SeenContainer, ...] = ()
    ephemeral_containers: tuple[SeenContainer, ...] = ()
    volumes: tuple[Volume, ...] = ()


class _Waits(objects.KubeObject, frozen=True, gc=False):
    reason: str = ""


class _Ended(objects.ContainerTerminated, frozen=True, gc=False):
    reason: str = ""
    finished_at: str | None = None


class _State(objects.ContainerState, frozen=True, gc=False):
    waiting: _Waits | None = None
    terminated: _Ended | None = None


class _ContainerReport(objects.ContainerStatus, frozen=True, gc=False):
    ready: bool | None = None
    state: _State = _State()
    last_state: _State = _State()


class SeenStatus(objects.PodStatus, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A pod's status with its address, and why its containers wait or ended."""

    pod_ip: str = field(default="", name="podIP")
    container_statuses: tuple[_ContainerReport, ...] = ()
    init_container_statuses: tuple[_ContainerReport, ...] = ()


class SeenPod(objects.Pod, frozen=True, gc=False, kw_only=True, rename="camel"):
    metadata: objects.ObjectMeta = objects.ObjectMeta()
    spec: SeenSpec = SeenSpec()
    status: SeenStatus = SeenStatus()

    def containers(self) -> Iterator[SeenContainer]:
        """Every container, init containers first, those of ``kubectl debug`` last."""
        yield from self.spec.init_containers
        yield from self.spec.containers
        yield from self.spec.ephemeral_containers

    @property
    def restarts(self) -> int:
        """How often its containers were started again."""
        return sum(each.restart_count for each in self.status.container_statuses)


class _NodeInfo(objects.NodeInfo, frozen=True):
    container_runtime_version: str = ""
    kernel_version: str = ""
    os_image: str = ""


class _NodeStatus(objects.NodeStatus, frozen=True):
    node_info: _NodeInfo = _NodeInfo()


class ReportingNode(objects.Node, frozen=True):
    """A node with the versions of its software."""

    status: _NodeStatus = _NodeStatus()


class ServicePort(msgspec.Struct, frozen=True, rename="camel"):
    port: Int = 0
    name: str = ""
    node_port: Int = 0


class _ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    cluster_ip: str = field(default="", name="clusterIP")
    type: str = "ClusterIP"
    ports: tuple[ServicePort, ...] = ()


class Service(msgspec.Struct, frozen=True):
    """A Service: the address that kube-scheduler must call."""

    metadata: objects.ObjectMeta = objects.ObjectMeta()
    spec: _ServiceSpec = _ServiceSpec()


SEEN_POD = BoundedJsonDecoder(SeenPod, "a pod of the list", limit_bytes=OBJECT_BYTES, max_depth=None)
SEEN_NODE = BoundedJsonDecoder(ReportingNode, "a node of the list", limit_bytes=OBJECT_BYTES, max_depth=None)
SEEN_NODES = Resource("api/v1", "nodes", ReportingNode, namespaced=False)
PLUGIN_PODS = Resource("api/v1", "pods", SeenPod)
SERVICES = Resource("api/v1", "services", Service)


class ProgramKind(enum.Enum):
    """A program of this project, or kube-scheduler; the value is the name of its command and of its image."""

    PLUGIN = contracts.DEVICE_PLUGIN
    EXTENDER = contracts.EXTENDER
    CONFIG_MANAGER = contracts.CONFIG_MANAGER
    SCHEDULER = "kube-scheduler"


_ONE_SHOTS = frozenset({"uninstall", "--remove-from-node", "--status"})
"""Words that make a program do one thing and end."""


def program_of(pod: SeenPod) -> ProgramKind | None:
    """Which program a pod runs; None for all others, for ended pods and for one-shots."""
    container = main_container(pod)
    if container is None or is_finished(pod) or _ONE_SHOTS & set(container.command_line):
        return None
    return _program_of(container)


def is_plugin(pod: SeenPod) -> bool:
    """Whether a pod offers its node's cards: a device plugin, by its command, image or name."""
    if pod.metadata.labels.get(contracts.COMPONENT_LABEL) == contracts.MPS_COMPONENT:
        return False
    return program_of(pod) is ProgramKind.PLUGIN or any(name in pod.metadata.name for name in _PLUGIN_NAMES)


def main_container(pod: SeenPod) -> SeenContainer | None:
    """The container that runs one of the programs."""
    return next((each for each in pod.spec.containers if _program_of(each) is not None), None)


def _program_of(container: SeenContainer) -> ProgramKind | None:
    # The extender's image holds the config manager too, so the command decides if there is one.
    command = {posixpath.basename(word) for word in container.command_line[:2]}
    by_command = next((each for each in ProgramKind if each.value in command), None)
    if by_command is not None or container.command:
        return by_command
    image = posixpath.basename(container.image.partition("@")[0]).partition(":")[0]
    return next((each for each in ProgramKind if each.value == image), None)


def flag(pod: SeenPod, name: str) -> str | None:
    """The value of a flag of the program that a pod runs."""
    container = main_container(pod)
    return None if container is None else flag_of(container.command_line, name)


def flag_of(words: Sequence[str], name: str) -> str | None:
    """The value of the last ``--name=value`` or ``--name value`` of a command line; ``true`` for a bare switch."""
    flag = effective(parse_flags(words), name)
    return None if flag is None else flag.value


def vendor_of_plugin(pod: SeenPod) -> Vendor:
    """Whose cards a plugin offers, as far as its pod says; its own status is more exact."""
    name = flag(pod, "vendor") or pod.metadata.labels.get(contracts.VENDOR_LABEL, "")
    return VENDORS_BY_NAME.get(name, DEFAULT_VENDOR)


def port_of(pod: SeenPod) -> int:
    """Where a program's pod answers: by its flag, else the port named as in the charts, or the first, or ours."""
    default = contracts.EXTENDER_PORT if program_of(pod) is ProgramKind.EXTENDER else contracts.PLUGIN_PORT
    first = next((port.container_port for port in _ports_of(pod)), default)
    return _find_port(pod, "listen-port", _PORT_NAME, first)


def _find_port(pod: SeenPod, flag_name: str, port_name: str, default: int) -> int:
    reported = flag(pod, flag_name) or ""
    if reported.isdecimal() and int(reported):
        return int(reported)
    return next((port.container_port for port in _ports_of(pod) if port.name == port_name), default)


def has_tls(pod: SeenPod) -> bool:
    """Whether a program's pod answers HTTPS: it does if it is given a certificate, by flag or by variable."""
    return any(
        flag_of(container.command_line, "tls-cert-file")
        or any(variable.name == "GCUSHARE_TLS_CERT_FILE" and variable.value for variable in container.env)
        for container in _containers_of(pod)
    )


def _containers_of(pod: SeenPod) -> tuple[SeenContainer, ...]:
    """The program's own container; all of them if its command and image say nothing."""
    container = main_container(pod)
    return pod.spec.containers if container is None else (container,)


def _ports_of(pod: SeenPod) -> Iterator[Port]:
    return (port for container in _containers_of(pod) for port in container.ports)


@dataclass(frozen=True, slots=True)
class ProgramAddress:
    """A prefix of paths at some server; ``resource`` names the right that the proxy needs, empty without a proxy."""

    client: KubeClient
    prefix: str
    resource: str = ""

    async def get(self, path: str, *, timeout_s: float | None = None) -> bytes:
        """Read a page.

        Raises:
            GcushareError: the program or the API server does not answer, or the caller may not ask.
        """
        return await self.client.get_raw(f"{self.prefix}{path}", self.resource or "address", timeout_s=timeout_s)


def proxied_pod(client: KubeClient, pod: SeenPod, port: int | None = None) -> ProgramAddress:
    """A program's pod, through the API server; TLS is as the pod says, and by default the port."""
    scheme = "https" if has_tls(pod) else "http"
    namespace, name = quote(pod.metadata.namespace, safe=""), quote(pod.metadata.name, safe="")
    place = f"{scheme}:{name}:{port or port_of(pod)}"
    return ProgramAddress(client, f"/api/v1/namespaces/{namespace}/pods/{place}/proxy", "pods/proxy")


def proxied_extender_page(client: KubeClient, pod: SeenPod) -> ProgramAddress:
    """The port of an extender's pod that shows metrics."""
    return proxied_pod(client, pod, _find_port(pod, "page-port", "page", contracts.PAGE_PORT))


def proxied_service(client: KubeClient, service: Service) -> ProgramAddress:
    """The pods that are ready behind a Service, reached through the API server."""
    port = service.spec.ports[0] if service.spec.ports else None
    scheme = "https:" if port is not None and (port.name == "https" or port.port == 443) else ""
    tail = f":{port.port}" if port is not None else ""
    return named_service(client, service.metadata.namespace, f"{scheme}{service.metadata.name}{tail}")


def named_service(client: KubeClient, namespace: str, place: str) -> ProgramAddress:
    """The Service that ``place`` names as the API server's proxy reads it: ``[https:]NAME[:PORT]``."""
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/services/{quote(place, safe=':')}/proxy"
    return ProgramAddress(client, path, "services/proxy")
