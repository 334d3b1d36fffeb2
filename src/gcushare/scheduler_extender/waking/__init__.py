"""Wake waiting pods for which room appeared: kube-scheduler tries a pod again after an annotation on it changed."""
