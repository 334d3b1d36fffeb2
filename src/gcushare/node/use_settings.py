"""What the settings of cards, over-use and memory limits ask of each other, for every program that has all three."""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.node.card_source_settings import CardSourceSettings
from gcushare.node.mps.mps_settings import MPS_LIBRARY, MemoryLimit, MpsSettings
from gcushare.node.over_use.over_use_settings import Action, OverUseSettings
from gcushare.vendors import VENDORS


def use_conflicts(cards: CardSourceSettings, over_use: OverUseSettings, limits: MpsSettings) -> Iterator[str]:
    """No pod is evicted on figures that are not read, and a dry run needs something to rehearse."""
    is_evicting = over_use.over_use is Action.EVICT
    if is_evicting and not cards.pod_use:
        yield "--over-use evict needs --pod-use: what each pod uses is not known without it"
    if limits.memory_limit is MemoryLimit.MPS and cards.vendor.library.name != MPS_LIBRARY:
        able = " or ".join(vendor.name for vendor in VENDORS if vendor.library.name == MPS_LIBRARY)
        yield f"--memory-limit mps limits memory of NVIDIA cards: give --vendor {able}, or --memory-limit none"
    if over_use.dry_run and not is_evicting:
        yield "--dry-run says what --over-use evict would do: give that too, or leave --dry-run out"
