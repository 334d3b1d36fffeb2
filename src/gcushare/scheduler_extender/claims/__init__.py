"""For nodes that serve claims: the templates that pods name, and the order in which kube-scheduler fills nodes."""
