"""How much evidence turns a card sick in tests: the programs' own defaults."""

from __future__ import annotations

from gcushare.cards.health import HealthPolicy

POLICY = HealthPolicy(bad_readings=3, good_readings=3, recover_after_s=30.0, event_holds_s=300.0, stale_after_s=60.0)
