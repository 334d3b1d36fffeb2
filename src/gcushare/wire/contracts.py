"""Names, ports, labels and Secret keys that the programs, their charts and the commands share.

Ports count down from 32767, the last of a cluster's default NodePort range. Each program has its own, so that several
may use the host's network on one node.
"""

from __future__ import annotations

EXTENDER = "gcushare-scheduler-extender"
"""The program, its Service, its Deployment and its Lease."""
DEVICE_PLUGIN = "gcushare-device-plugin"
"""The program, and the prefix of the names of its DaemonSets and pods."""
CONFIG_MANAGER = "gcushare-config-manager"
"""The program, its DaemonSet, the ConfigMap with the desired state and every node's report, and the Lease whose holder
may change its node's scheduler."""
NAMESPACE = "kube-system"
"""The default namespace of all programs."""

PLUGIN_PORT = 32767
"""The device plugin's port: status, metrics, health."""
EXTENDER_PORT = 32766
"""The extender's first port: the scheduler's calls as in the manual, version, inspect, explain."""
VERBS_PORT = 32764
"""The extender's second port: the scheduler's four verbs over mutual TLS (the config manager's own port is 32765)."""
PAGE_PORT = 32763
"""The extender's third port: the page, metrics, health."""
VERBS_PORT_NAME = "verbs"
"""Name of that port in the extender's Service."""
PROBED_PATH = "/version"
"""A path on both ports without side effects, to check whether a port answers this client."""

SCHEDULER_NAME = "gcushare-kube-scheduler"
"""The name that a client's certificate must have, as its common name or as one of its DNS names."""

CA, CA_KEY = "ca.crt", "ca.key"
SERVER_CERT, SERVER_KEY = "tls.crt", "tls.key"
CLIENT_CERT, CLIENT_KEY = "client.crt", "client.key"
"""Keys of the Secret that the extender fills. In ``ca.crt``, the first certificate signs, the second signs next, and
the third (if any) is the previous signer."""

LEADS_LABEL = "gcushare.io/leads"
"""On the extender's pod that leads, by itself: the name of its Lease. The Service for kube-scheduler selects by it."""
VENDOR_LABEL = "gcushare.io/vendor"
"""On the pods of plugins, by their chart."""
COMPONENT_LABEL, MPS_COMPONENT = "app.kubernetes.io/component", "mps-daemon"
"""On our pods, by their charts: what they are. The MPS daemon's pod has the plugin's name in its own."""
CLAIMS_LABEL, CLAIMS_ENABLED = "gcushare.io/claims", "enabled"
"""On a namespace, by its admin: its pods get claims in place of the memory resource."""
SERVE_LABEL, SERVE_CLAIMS = "gcushare.io/serve", "claims"
"""On a node, by its admin: its cards are given as claims and not as resources."""
NODE_GROUP_LABEL = "gcushare.io/node-group"
"""On a node, by its admin, and on its plugins' pods, by their chart: the group of nodes whose settings it gets."""
CLAIMS_ORDER_LABEL = "gcushare.io/claims-order"
"""On a node, by the extender: 1 to 9, nodes with a higher number are filled first."""
SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""On a node: with ``true`` Cluster Autoscaler does not remove it."""
KEPT_MARK = "gcushare.io/scale-down-disabled"
"""On a node, by the extender: the annotation before is ours, and no admin's. The names of the vendors whose cards are
held, with commas between them."""
STARTUP_TAINT = "startup-taint.cluster-autoscaler.kubernetes.io/gcushare"
"""On a new node, by its node group: Cluster Autoscaler waits for its cards. The extender removes it."""

PODS_PER_THOUSAND = 1000
"""The count per card on a Node if pods that request the count may share cards: ``8k`` means eight cards."""
