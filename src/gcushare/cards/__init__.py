"""The only way to hardware: EFML, NVML and simulated cards, each behind the ports of ``gcushare.cards.ports``.

What it is: sources that list cards, read their health and their use, and a monitor that turns readings into card
states. What it is not: it knows no Kubernetes, no units and no pods. The programs and everything above them may import
it; it imports ``core`` and ``vendors``.

``monitor.CardMonitor`` is what a program runs; ``selection.open_source`` turns ``--cards`` into its source. A vendor's
library is loaded only inside ``worker``, a child process that may hang or crash without harm to its parent. Nothing is
imported here, so that the child stays small.
"""
