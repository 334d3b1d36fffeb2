"""The kubelet's side of the wire: device ids, device lists, pod resources."""
