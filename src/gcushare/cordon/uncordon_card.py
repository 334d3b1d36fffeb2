"""``gcushare uncordon-card``, as the umbrella command finds it."""

from gcushare.cordon.command import uncordon_main as main

__all__ = ["main"]
