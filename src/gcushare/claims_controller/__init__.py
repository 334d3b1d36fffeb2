"""The program of the cluster for nodes that serve claims; it takes no part in scheduling.

It makes the ResourceClaimTemplates that pods name (``template_plan``) and keeps a label on nodes by which
kube-scheduler fills them one after the other (``node_order``). No other package imports it.
"""
