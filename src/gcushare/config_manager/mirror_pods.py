"""Find the node's running kube-scheduler through the pod that the kubelet mirrors to the API server."""

from __future__ import annotations

import msgspec
from msgspec import field

from gcushare.cluster.programs import SeenSpec
from gcushare.config_manager.host.launch import HealthEndpoint, is_scheduler
from gcushare.config_manager.host.scheduler_wait import Running, SchedulerUnknownError
from gcushare.core.errors import GcushareError, NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import Resource
from gcushare.wire.objects import ObjectMeta

_HASH = "kubernetes.io/config.hash"


class _State(msgspec.Struct, frozen=True):
    running: dict[str, str] | None = None


class _ContainerStatus(msgspec.Struct, frozen=True):
    container_id: str = field(default="", name="containerID")
    state: _State = _State()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _MirrorPod(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: SeenSpec = SeenSpec()
    status: _Status = _Status()


_PODS = Resource("api/v1", "pods", _MirrorPod)


class MirrorPods:
    """Finds the scheduler in the API server; needs no access to the host."""

    def __init__(self, client: KubeClient, node: str) -> None:
        self._client = client
        self._name = f"kube-scheduler-{node}"

    async def find(self, endpoint: HealthEndpoint) -> Running | None:
        try:
            pod = await self._client.get(_PODS, self._name, namespace="kube-system")
        except NotFoundError:
            return None
        except GcushareError as error:
            raise SchedulerUnknownError(f"kube-scheduler's mirror pod cannot be read: {error}") from error
        running = [each for each in pod.status.container_statuses if each.state.running is not None]
        commands = [each.command_line for each in pod.spec.containers]
        if not commands or not running:
            return None
        # A wrapper may stand before the program.
        command = next((each for each in commands if is_scheduler(each) or is_scheduler(each[1:])), commands[0])
        # The mirror's spec is new before its status, so that only both together identify an instance.
        return Running(f"{pod.metadata.annotations.get(_HASH, '')}/{running[0].container_id}", command)
