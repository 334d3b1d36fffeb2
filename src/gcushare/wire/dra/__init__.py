"""Objects of ``resource.k8s.io/v1``, as far as we read or write them: slices, claims and their templates.

Source: the Kubernetes API reference, resource.k8s.io/v1, as 1.34 to 1.36 send it.
"""
