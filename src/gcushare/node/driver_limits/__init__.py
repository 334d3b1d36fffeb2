"""Limit memory on NVIDIA cards through the driver: hard limits of the control groups of pods and containers."""
