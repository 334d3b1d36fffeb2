"""``gcushare uncordon-card``, as the umbrella command finds it."""

from gcushare.cli.cordon.command import uncordon_main as main

__all__ = ["main"]
