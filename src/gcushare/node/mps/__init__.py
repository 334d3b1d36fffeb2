"""Limit memory on NVIDIA cards through MPS: the node's control daemon, and what containers get in order to use it."""
