"""What keeps Cluster Autoscaler from counting nodes with cards as it should."""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cluster.diagnosis.checks.views import VendorNode, vendor_nodes
from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, info
from gcushare.core.wording import span
from gcushare.wire.contracts import STARTUP_TAINT

GPU_LABELS = (
    "accelerator",
    "aliyun.accelerator/nvidia_name",
    "baidu/nvidia_name",
    "cloud.google.com/gke-accelerator",
    "cloud.tencent.com/tke-accelerator",
    "cluster-api/accelerator",
    "k8s.amazonaws.com/accelerator",
    "kubernetes.azure.com/accelerator",
    "node.kubernetes.ovhcloud.com/gpu",
)
"""By these Cluster Autoscaler knows nodes with GPUs, each on its cloud: the constants GPULabel of its providers (1.36).
Such a node is not ready for it before it has the resource."""
GPU_RESOURCE = "nvidia.com/gpu"
YOUNG_S = 600.0


def check_gpu_labels(facts: Facts) -> Iterator[Finding]:
    """A GPU label on a node whose cards are offered as memory alone: the autoscaler waits for whole GPUs."""
    for each in vendor_nodes(facts):
        label = next((key for key in GPU_LABELS if key in each.node.metadata.labels), None)
        if label and each.inventory is not None and each.node.status.allocatable.get(GPU_RESOURCE, "0") == "0":
            yield each.warning(
                "autoscaler-gpu-label",
                f"it has the label {label} and offers no {GPU_RESOURCE}: Cluster Autoscaler takes it for a node whose "
                "GPUs are not there yet, and with a few of them it adds and removes no nodes at all",
                f"if Cluster Autoscaler manages it: leave {label} out of the node group, or have the plugin serve "
                "whole cards too (mode: both)",
            )


def check_startup_taint(facts: Facts) -> Iterator[Finding]:
    """Whether a new node has the startup taint, and loses it."""
    for each in vendor_nodes(facts):
        has_none = each.inventory is None and not each.problem
        is_tainted = any(taint.key == STARTUP_TAINT for taint in each.node.spec.taints)
        age_s = facts.age_s(each.node.metadata.creation_timestamp)
        if is_tainted and _offers(each) and (age_s is None or age_s > YOUNG_S):
            yield each.error(
                "startup-taint-stays",
                f"its cards are offered, and it still has the taint {STARTUP_TAINT}: no pod is placed there",
                "set autoscaling.startupTaint of the extender's chart, which has the extender remove it, or remove it: "
                f"kubectl taint node {each.name} {STARTUP_TAINT}-",
            )
        elif not is_tainted and each.is_labelled and has_none and age_s is not None and age_s < YOUNG_S:
            yield info(
                "startup-taint-missing",
                each.subject,
                f"it joined {span(age_s)} ago and offers no cards yet: until then Cluster Autoscaler may add further "
                "nodes for the same pods",
                f"if Cluster Autoscaler manages it: give its node group the taint {STARTUP_TAINT}:NoSchedule, and set "
                "autoscaling.startupTaint of the extender's chart",
            )


def _offers(each: VendorNode) -> bool:
    """Whether pods can be placed on its cards by what the kubelet counts, or by claims."""
    if each.inventory is None or not each.inventory.cards:
        return False
    resources = (each.vendor.memory_resource, each.vendor.whole_card_resource)
    counted = (each.node.status.allocatable.get(resource, "0") != "0" for resource in resources)
    return each.serves_claims or any(counted)
