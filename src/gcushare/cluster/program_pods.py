"""Pods and Services with what says which program runs there, how it was started, and where it answers."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import field

from gcushare.wire.foreign import Int
from gcushare.wire.objects import Container, ContainerStatus, ObjectMeta, Pod, PodSpec, PodStatus


class Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port that a container declares."""

    container_port: Int = 0
    name: str = ""


class Mount(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a volume is seen in a container."""

    name: str = ""
    mount_path: str = ""


class _ConfigMapSource(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class _SecretSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    secret_name: str = ""


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume that comes from an object of the API server."""

    name: str = ""
    config_map: _ConfigMapSource | None = None
    secret: _SecretSource | None = None


class Variable(msgspec.Struct, frozen=True, gc=False):
    """An environment variable with a value of its own; one that comes from elsewhere has none here."""

    name: str = ""
    value: str = ""


class SeenContainer(Container, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A container with its command line."""

    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    env: tuple[Variable, ...] = ()
    volume_mounts: tuple[Mount, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The command line, as far as the pod says it."""
        return (*self.command, *self.args)


class SeenSpec(PodSpec, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A pod's spec with its command lines and volumes."""

    containers: tuple[SeenContainer, ...] = ()
    init_containers: tuple[SeenContainer, ...] = ()
    volumes: tuple[Volume, ...] = ()
    service_account_name: str = ""


class SeenStatus(PodStatus, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A pod's status with its address."""

    pod_ip: str = field(default="", name="podIP")


class SeenPod(Pod, frozen=True, gc=False, kw_only=True, rename="camel"):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: SeenSpec = SeenSpec()
    status: SeenStatus = SeenStatus()

    def containers(self) -> Iterator[SeenContainer]:
        """Every container, init containers first."""
        yield from self.spec.init_containers
        yield from self.spec.containers

    @property
    def is_ready(self) -> bool:
        """Whether its readiness probe passes."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)

    @property
    def restarts(self) -> int:
        """How often its containers were started again."""
        statuses: tuple[ContainerStatus, ...] = self.status.container_statuses
        return sum(each.restart_count for each in statuses)


class ServicePort(msgspec.Struct, frozen=True, rename="camel"):
    """A port of a Service."""

    port: Int = 0
    name: str = ""
    node_port: Int = 0


class _ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    cluster_ip: str = field(default="", name="clusterIP")
    type: str = "ClusterIP"
    ports: tuple[ServicePort, ...] = ()


class Service(msgspec.Struct, frozen=True):
    """A Service: where kube-scheduler is to call."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _ServiceSpec = _ServiceSpec()
