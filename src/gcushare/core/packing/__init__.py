"""Packing: what a placement costs in room that nothing fits into, and which pods to move to get room back."""
