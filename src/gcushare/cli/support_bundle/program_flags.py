"""The flags that a support bundle shows of command lines; a test compares ours with the programs' declarations.

The programs are not imported here: commands for people know none of them.
"""

from __future__ import annotations

_OURS = """
application-xids card-call-timeout card-count card-library card-policy cards cdi-dir config-file confirm-after context
dashboard dashboard-readers device-list-strategy device-plugin-dir driver-dirs dry-run event-holds extender-service
extender-url fail-without-cards files-dir filter-answer h help host-root idle-timeout ignorable interval
kube-api-timeout kube-context kubeconfig kubelet-message-limit kubernetes-dir leader-elect lease-duration lease-name
lease-namespace lease-renew-deadline lease-retry listen-address listen-port log-dir log-file-count log-file-size
log-format log-level longest-wait-for-containers manifest max-connections max-request-size memory-limit memory-unit
mode mps-control mps-fallback mps-root namespace no-dry-run no-fail-without-cards no-ignorable no-leader-elect
no-pod-use no-remove-from-node no-restart no-run-mps-daemon no-status no-whole-cards node-name node-policy over-use
over-use-exempt over-use-least over-use-looks over-use-pause over-use-tolerance over-use-when page-size
pod-resources-socket pod-use poll-interval print-config proc-root recount-interval recover-after remove-from-node
request-timeout reserve restart run-mps-daemon scheduler-version status timeout tls-ca tls-cert tls-cert-file
tls-client-ca-file tls-key tls-key-file tls-server-name unhealthy-after uninstall-timeout unit vendor verbs
verbs-certificate-days verbs-client-name verbs-port verbs-reports verbs-secret verbs-server-name verbs-tls-cert-file
verbs-tls-client-ca-file verbs-tls-key-file version wait-for-pod wait-settle wait-timeout watch-stall watch-timeout
weight whole-card-policy whole-cards
"""
_SCHEDULERS = """
authentication-kubeconfig authorization-kubeconfig bind-address config feature-gates kubeconfig leader-elect
leader-elect-resource-name policy-config-file secure-port tls-cert-file tls-private-key-file v
"""
OUR_FLAGS = frozenset(_OURS.split())
"""Every flag of the device plugin, the extender and the config manager, apart from those declared secret."""
FLAGS = OUR_FLAGS | frozenset(_SCHEDULERS.split())
"""Those, and flags of kube-scheduler, none of which holds a secret."""
