"""The parts of a pod that a kubelet acts on, read from its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gcushare.core.quantities import parse_quantity
from gcushare_playground.amounts import FINISHED_PHASES, JsonObject


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container. ``is_init`` and ``restarts_always`` together make a sidecar."""

    name: str
    image: str
    is_init: bool
    restarts_always: bool
    limits: Mapping[str, Fraction]
    raw: JsonObject

    @property
    def ends_before_the_others(self) -> bool:
        """Whether this is an ordinary init container, whose devices later containers take over."""
        return self.is_init and not self.restarts_always


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod object as last seen."""

    uid: str
    namespace: str
    name: str
    phase: str
    created: str
    is_deleting: bool
    annotations: Mapping[str, str]
    containers: tuple[ContainerSpec, ...]
    """Init containers in their order, then app containers in theirs: the order of allocation."""
    raw: JsonObject

    @property
    def is_finished(self) -> bool:
        return self.phase in FINISHED_PHASES

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}"

    def claims_of(self, container: ContainerSpec) -> list[str]:
        """The claims that a container uses, by the names that the pod gives to them."""
        return [each["name"] for each in container.raw.get("resources", {}).get("claims") or []]

    def container(self, name: str) -> ContainerSpec | None:
        return next((container for container in self.containers if container.name == name), None)


def parse_pod(raw: JsonObject) -> Pod:
    """Read a pod that an API server admitted.

    Raises:
        RemoteContractError: a resource quantity is malformed.
    """
    metadata = raw["metadata"]
    return Pod(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", "default"),
        name=metadata["name"],
        phase=raw.get("status", {}).get("phase") or "Pending",
        created=metadata.get("creationTimestamp") or "",
        is_deleting=bool(metadata.get("deletionTimestamp")),
        annotations=dict(metadata.get("annotations") or {}),
        containers=tuple(_containers(raw["spec"])),
        raw=raw,
    )


def _containers(spec: JsonObject) -> Iterator[ContainerSpec]:
    for is_init, key in ((True, "initContainers"), (False, "containers")):
        for raw in spec.get(key) or []:
            resources = raw.get("resources") or {}
            yield ContainerSpec(
                name=raw["name"],
                image=raw.get("image", ""),
                is_init=is_init,
                restarts_always=is_init and raw.get("restartPolicy") == "Always",
                limits={name: parse_quantity(amount) for name, amount in (resources.get("limits") or {}).items()},
                raw=raw,
            )
