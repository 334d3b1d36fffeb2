"""``gcushare cordon-card``, as the umbrella command finds it."""

from gcushare.cli.cordon.command import cordon_main as main

__all__ = ["main"]
