"""The node's pods: what they ask for, what their annotations say, what the kubelet gave them."""
