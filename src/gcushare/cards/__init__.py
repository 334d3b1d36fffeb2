"""The only way to hardware: EFML, NVML and simulated cards, each behind the ports of ``gcushare.cards.ports``.

It has sources that list cards and read their health and their use, and a monitor that turns readings into card states.
It does not know Kubernetes, units or pods. It imports ``core``, ``vendors`` and ``wire``; the programs import it.

``monitor.CardMonitor`` is what a program runs; ``selection.open_source`` turns ``--cards`` into its source. A vendor's
library is loaded only in ``worker``, a child process that may hang or crash without harm to its parent. This module
imports nothing, so that the child stays small.
"""
