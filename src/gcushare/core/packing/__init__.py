"""Packing: how much usable room a placement costs, and which pods to move to make room."""
