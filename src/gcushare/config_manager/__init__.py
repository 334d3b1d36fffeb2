"""Make kube-scheduler call the extender, safely, and put everything back.

It edits the manifest of a static pod, or a systemd unit. A managed control plane needs none of this: there the chart
runs a second scheduler. `plan.decide` and `scheduler_config` are pure functions from texts to a plan. `host` and
`plan.execute` read and change the host. `extender_address` and `node_reports` call the API server. `manager` joins
these for one scheduler, and `reconcile` is the DaemonSet's loop, with the Lease for one node at a time.
"""
