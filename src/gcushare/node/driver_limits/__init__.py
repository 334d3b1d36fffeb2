"""Limit memory on NVIDIA cards through the driver: hard limits of the control groups of pods and containers.

``control_groups``: where the groups of pods are, and the limit of one. ``driver_limiter``: on which cards the driver
keeps limits, and what containers get. ``pod_amounts``: how much of each card each pod may use. ``pods``: when they
are set, and what is said of them. ``pod_groups``: sets them, of a pod's group and its containers'.
"""
