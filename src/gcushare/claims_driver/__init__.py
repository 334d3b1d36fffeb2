"""The claims driver."""
