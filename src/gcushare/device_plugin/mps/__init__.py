"""A limit of memory on NVIDIA cards through MPS: the node's control daemon, and what containers are given to use it."""
