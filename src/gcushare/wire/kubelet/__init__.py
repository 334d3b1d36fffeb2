"""Codecs for the kubelet's APIs: device ids, device lists, pod resources."""
