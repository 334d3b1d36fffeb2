"""Bounds of the numbers in documents that programs exchange. Use them as the types of a struct's fields."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

MAX_INT = 2**63 - 1
Int: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=MAX_INT)]
"""A whole number as Kubernetes stores it: int64."""
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT)]
"""A number of things, or bytes."""

MAX_CARDS = 16
"""Cards of one node: as many as device ids can name."""
MAX_CARD_UNITS = 10_000_000
"""Units of one card that is handed out whole only. The kubelet's limit does not bind them: they are only shown."""
CardIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MAX_CARDS)]
CardUnits: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MAX_CARD_UNITS)]
