"""Why a pod has no card: the explanation, the Event on the pod, the counts for metrics."""
