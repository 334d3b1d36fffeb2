"""What a verb returns to its caller: the body of the HTTP answer, and the labels that metrics count it under."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer to kube-scheduler. ``result``, ``vendor`` and ``reason`` are labels of `gcushare_extender_results`.

    ``reason``: why it is a refusal or an error; empty for all others.
    """

    body: bytes
    result: str
    vendor: str
    reason: str = ""
