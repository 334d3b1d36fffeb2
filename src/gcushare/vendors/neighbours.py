"""Other systems that hand out cards, and the traces that identify them. The only table of them; pure.

Source: the objects that their releases of 2026 write: HAMi 2.9, vgpu-manager 0.4, KAI-Scheduler 0.9, Volcano's vGPU
plugin 1.9, NVIDIA's device plugin and DRA driver, HAMi's DRA driver, Enflame's gcushare 3.6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """One system. ``domain`` is the domain of its vendor's whole-card resource.

    ``resources`` are in the Node's counts, ``annotations`` (beginnings of keys) on the Node, ``drivers`` in
    ResourceSlices. ``schedulers`` and ``pod_annotations`` are on its pods. ``removal`` completes the advice "keep it
    off this node: ...".
    """

    name: str
    domain: str
    removal: str
    resources: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    drivers: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    pod_annotations: tuple[str, ...] = ()


NEIGHBOURS = (
    Neighbour(
        name="HAMi",
        domain="nvidia.com",
        resources=("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
        annotations=("hami.io/node-nvidia", "4pd.io/node-nvidia"),
        drivers=("hami-core-gpu.project-hami.io",),
        schedulers=("hami-scheduler",),
        removal="remove the node's label gpu, and then these annotations, which stay behind",
    ),
    Neighbour(
        name="vgpu-manager",
        domain="nvidia.com",
        resources=("nvidia.com/vgpu-number", "nvidia.com/vgpu-memory", "nvidia.com/vgpu-cores"),
        annotations=("nvidia.com/node-device-register",),
        drivers=("manager.nvidia.com",),
        schedulers=("vgpu-scheduler",),
        removal="remove the node's label vgpu-manager",
    ),
    Neighbour(
        name="KAI-Scheduler",
        domain="nvidia.com",
        # It leaves nothing on Nodes: its reservation pods hold cards of NVIDIA's plugin. Run:ai contains it.
        schedulers=("kai-scheduler", "runai-scheduler"),
        pod_annotations=("gpu-fraction", "gpu-memory"),
        removal="exclude the node from NVIDIA's device plugin, whose cards it shares",
    ),
    Neighbour(
        name="Volcano's vGPU plugin",
        domain="nvidia.com",
        resources=("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/gpu-memory"),
        annotations=("volcano.sh/node-vgpu",),
        schedulers=("volcano",),
        removal="exclude the node from the DaemonSet volcano-device-plugin",
    ),
    Neighbour(
        name="NVIDIA's time-slicing",
        domain="nvidia.com",
        resources=("nvidia.com/gpu.shared",),
        removal="exclude the node from the DaemonSet of NVIDIA's device plugin",
    ),
    Neighbour(
        name="NVIDIA's DRA driver",
        domain="nvidia.com",
        drivers=("gpu.nvidia.com",),
        removal="exclude the node from the driver's kubelet plugin, or set resources.gpus.enabled=false in its chart",
    ),
    Neighbour(
        name="Enflame's gcushare 3.6",
        domain="enflame.com",
        resources=("enflame.com/shared-gcu", "enflame.com/drs-gcu"),
        schedulers=("gcushare-scheduler", "gcushare-scheduler-drs"),
        removal="uninstall it: its DaemonSet selects nodes by the same label as ours",
    ),
    Neighbour(
        name="HAMi",
        domain="enflame.com",
        resources=("enflame.com/gcu-core", "enflame.com/vgcu", "enflame.com/vgcu-percentage"),
        annotations=("hami.io/node-enflame", "4pd.io/node-enflame"),
        schedulers=("hami-scheduler",),
        removal="uninstall from the node the device plugin whose partitions it places",
    ),
)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A neighbour that offers the cards of a node, with the traces that show it."""

    neighbour: Neighbour
    signs: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.neighbour.name} ({', '.join(self.signs)})"


_VENDOR_PLUGINS = {
    "nvidia.com": (
        "NVIDIA's device plugin or GPU Operator",
        "with the GPU Operator by kubectl label node NODE nvidia.com/gpu.deploy.device-plugin=false --overwrite, "
        "without it by the affinity of its DaemonSet",
    ),
}
"""Names and ways out of the plugins that the vendors themselves have for whole cards, by the domain of the resource."""


def vendor_plugin(whole_card_resource: str) -> Neighbour:
    """The plugin that serves this resource where ours does not; in no table, since ours may serve it too."""
    domain = whole_card_resource.partition("/")[0]
    other = (f"another device plugin of {whole_card_resource}", "exclude the node from that plugin's DaemonSet")
    name, removal = _VENDOR_PLUGINS.get(domain, other)
    return Neighbour(name=name, domain=domain, resources=(whole_card_resource,), removal=removal)


def neighbours_of(whole_card_resource: str) -> Iterator[Neighbour]:
    """The systems that hand out the cards of one vendor, found by the domain of its whole-card resource."""
    domain = whole_card_resource.partition("/")[0]
    return (each for each in NEIGHBOURS if each.domain == domain)


def find_neighbours(
    known: Iterable[Neighbour], counts: Mapping[str, str], annotations: Mapping[str, str], drivers: Collection[str] = ()
) -> tuple[Sighting, ...]:
    """Find the systems that offer a node's cards, in the order of ``known``.

    ``counts`` are the Node's capacity or allocatable, ``drivers`` those of the node's ResourceSlices.
    """
    found = []
    for each in known:
        signs = [f"{name} {counts[name]}" for name in each.resources if counts.get(name, "0") != "0"]
        if each.annotations:
            signs += [f"annotation {key}" for key in sorted(annotations) if key.startswith(each.annotations)]
        signs += [f"ResourceSlices of {driver}" for driver in each.drivers if driver in drivers]
        if signs:
            found.append(Sighting(each, tuple(signs)))
    return tuple(found)


def describe_others(found: Iterable[Sighting]) -> str:
    """Say which systems offer the cards of this node, and what to do; "" if none does."""
    sightings = list(found)
    if not sightings:
        return ""
    advice = "; ".join(dict.fromkeys(f"{each.neighbour.name}: {each.neighbour.removal}" for each in sightings))
    return (
        f"cards of this node are also handed out by {' and '.join(map(str, sightings))}, and neither system knows what "
        f"the other gives. Keep it off this node ({advice}), or set --other-systems allow if the cards are divided"
    )


def explain_foreign_id(device_id: str) -> str:
    """Explain which system an id of another layout may be from, and what to do about it."""
    if "-_-" in device_id:
        origin = "it looks like one of Aliyun's gpushare or the Go gcushare (uuid-_-unit)"
    elif device_id.startswith(("GPU-", "MIG-")):
        origin = "it looks like one of NVIDIA's device plugin (a uuid)"
    else:
        origin = "its layout is unknown"
    return f"{origin}; the pod that holds it was started under another plugin: delete that pod to free its memory"
