"""The command lines of Aliyun's gpushare-device-plugin-v2 and of the Go gcushare-device-plugin."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.runtime.settings.old_flags import GLOG_FLAGS, OldFlag, left_out, refused, refused_switch

_NOT_THE_KUBELETS_PORT = (
    "pods come from the API server's watch and from podresources, the kubelet's own port is not asked"
)

OLD_FLAGS: Mapping[str, OldFlag] = {
    **GLOG_FLAGS,
    "mps": refused_switch(
        "say --memory-limit mps, which also limits each process to its grant, and leave this flag out"
    ),
    "mps-pipe": left_out("--mps-root names the folder of the daemon's pipes"),
    "health-check": left_out("the cards' health is watched always", is_switch=True),
    "query-kubelet": left_out(_NOT_THE_KUBELETS_PORT, is_switch=True),
    "slice-count": refused(
        "cards are shared by memory, not in slices; say with --memory-unit what 1 in a pod's request stands for"
    ),
} | {
    name: left_out(_NOT_THE_KUBELETS_PORT)
    for name in ("kubelet-address", "kubelet-port", "client-cert", "client-key", "token", "timeout")
}
"""Their flags beside those that we have under the same name (``--memory-unit``)."""
