"""Waiting pods for which room appeared: found, and noted on the pod so that kube-scheduler tries them again."""
