"""The kubelet's side of the plugin: its service, its registration, and what the kubelet says that it allocated."""
