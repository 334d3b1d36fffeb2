"""How much evidence turns a card sick in tests: the programs' own defaults."""

from __future__ import annotations

from gcushare.cards.health import HealthPolicy

POLICY = HealthPolicy()
