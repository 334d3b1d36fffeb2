"""Make kube-scheduler call the extender, safely, and put everything back.

For a static pod it edits the manifest, for a systemd unit the unit; a managed control plane needs none of this, since
the chart brings a second scheduler. `plan.decide` and `scheduler_config` are pure: texts and values in, a plan out.
`host.files`, `host.probe` and `plan.execute` touch the host, `cluster` the API server; `reconcile` is the DaemonSet's
loop.
"""
