"""The extender's HTTP routes."""
