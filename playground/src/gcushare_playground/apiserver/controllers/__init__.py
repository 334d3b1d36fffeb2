"""The controllers that a cluster needs to look alive: workloads make pods, services get endpoints, owners are missed.

They run in the API server double's process and write through its registry, so their writes obey the same rules as
everybody's; they take no part in faults, tokens or rights. One task runs them all, one object at a time.
"""

from __future__ import annotations

from gcushare_playground.apiserver.controllers.manager import ControllerManager

__all__ = ["ControllerManager"]
