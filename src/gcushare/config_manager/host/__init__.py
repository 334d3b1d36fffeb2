"""The host's side of a kube-scheduler: its manifest or unit, its process, our files."""
