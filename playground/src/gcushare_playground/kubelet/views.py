"""What a container was given: the environment, devices and mounts that a real one would see inside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from gcushare.vendors import VENDORS
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare_playground.amounts import JsonObject
from gcushare_playground.kubelet.checkpoint import PodDevices
from gcushare_playground.kubelet.podspec import ContainerSpec, Pod

_EVERY_CONTAINER = (
    *("core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout"),
    *("termination-log", "tty", "urandom", "zero"),
)
"""In ``/dev`` of any container, by the OCI runtime specification and the kubelet (termination-log)."""


class DeviceView(msgspec.Struct, frozen=True, order=True):
    """A device file in the container."""

    container_path: str
    host_path: str
    permissions: str


class MountView(msgspec.Struct, frozen=True, order=True):
    """A mount in the container; ``source`` is a host path, or the name of a pod's volume."""

    container_path: str
    source: str
    read_only: bool


class ContainerView(msgspec.Struct, frozen=True):
    """One container as its runtime had to make it."""

    name: str
    image: str
    has_ended: bool
    """True from the start for an ordinary init container, which is over once the others run."""
    environment: dict[str, str]
    devices: list[DeviceView]
    mounts: list[MountView]
    annotations: dict[str, str]
    cdi_devices: list[str]
    device_ids: dict[str, list[str]]
    """Ids by resource, as the kubelet chose them."""
    started: str
    restarts: int = 0

    def render(self) -> str:
        """Return the view as text, one fact per line, for ``kubectl logs``."""
        return "".join(f"{line}\n" for line in self._lines())

    def list_devices(self) -> set[str]:
        """Names in ``/dev``: what a runtime puts into every container, and what this one was given."""
        given = {device.container_path.removeprefix("/dev/").partition("/")[0] for device in self.devices}
        return given.union(_EVERY_CONTAINER)

    def _lines(self) -> Iterator[str]:
        yield f"# {self.image or self.name}: the command is not run here; this is what the container was given"
        yield from (f"{name}={value}" for name, value in sorted(self.environment.items()))
        yield from (f"{device.container_path} {device.permissions}" for device in self.devices)
        for mount in self.mounts:
            yield f"{mount.container_path} from {mount.source} {'ro' if mount.read_only else 'rw'}"
        yield from (f"annotation {name}={value}" for name, value in sorted(self.annotations.items()))
        yield from (f"cdi {name}" for name in self.cdi_devices)
        yield from (f"{resource}: {len(ids)} ids" for resource, ids in sorted(self.device_ids.items()))


def build_view(
    pod: Pod,
    container: ContainerSpec,
    held: Iterable[PodDevices],
    claimed: Mapping[str, pb.ContainerAllocateResponse] | None = None,
    *,
    started: str,
) -> ContainerView:
    """Put together what a container gets from its spec, from the plugins' answers and from its claims' CDI files.

    ``claimed`` is what those files say, by the name that the pod gives to the claim.

    Where both name a variable, the pod's own value wins: the kubelet appends it after the plugins'. Device files that a
    container toolkit would add because of the environment are added as the toolkit would.
    """
    answers = {entry.resource: pb.ContainerAllocateResponse.FromString(entry.answer) for entry in held}
    for claim in pod.claims_of(container):
        answers[f"claim {claim}"] = (claimed or {})[claim]
    environment: dict[str, str] = {}
    for answer in answers.values():
        environment |= dict(answer.envs)
    environment |= _own_environment(pod, container)
    devices = {
        DeviceView(device.container_path, device.host_path, device.permissions)
        for answer in answers.values()
        for device in answer.devices
    }
    mounts = {
        MountView(mount.container_path, mount.host_path, mount.read_only)
        for answer in answers.values()
        for mount in answer.mounts
    }
    return ContainerView(
        name=container.name,
        image=container.image,
        has_ended=container.ends_before_the_others,
        environment=environment,
        devices=sorted(devices | set(_toolkit_devices(environment))),
        mounts=sorted(mounts | set(_own_mounts(container))),
        annotations={key: value for answer in answers.values() for key, value in answer.annotations.items()},
        cdi_devices=[device.name for answer in answers.values() for device in answer.cdi_devices],
        device_ids={entry.resource: sorted(entry.ids) for entry in held},
        started=started,
    )


def _toolkit_devices(environment: Mapping[str, str]) -> Iterator[DeviceView]:
    """Yield the device files that the vendors' container toolkits add for the cards named by index, or by "all"."""
    for vendor in VENDORS:
        words = environment.get(vendor.environment.visible, "").split(",")
        indexes = ["*" if word == "all" else word for word in words if word == "all" or word.isdecimal()]
        nodes = vendor.device_nodes
        paths = [nodes.card.format(index=index) for index in indexes] + list(nodes.control if indexes else ())
        yield from (DeviceView(path, path, "rw") for path in paths)


def _own_environment(pod: Pod, container: ContainerSpec) -> dict[str, str]:
    environment: dict[str, str] = {}
    for variable in container.raw.get("env") or []:
        source = variable.get("valueFrom")
        environment[variable["name"]] = variable.get("value", "") if source is None else _resolve(pod, source)
    return environment


def _resolve(pod: Pod, source: JsonObject) -> str:
    """Return a variable's value from the pod's own fields; other sources are named, not read."""
    path = source.get("fieldRef", {}).get("fieldPath", "")
    annotation = path.removeprefix("metadata.annotations['").removesuffix("']")
    if annotation != path:
        return pod.annotations.get(annotation, "")
    fields: dict[str, str] = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": pod.raw["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod.raw["spec"].get("serviceAccountName", "default"),
    }
    return fields.get(path) or f"({', '.join(sorted(source))} is not read here)"


def _own_mounts(container: ContainerSpec) -> Iterator[MountView]:
    for mount in container.raw.get("volumeMounts") or []:
        yield MountView(mount["mountPath"], f"volume {mount['name']}", bool(mount.get("readOnly")))
