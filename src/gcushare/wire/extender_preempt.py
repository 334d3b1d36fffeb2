"""kube-scheduler's extender protocol, the preempt verb: reads the proposed victims, writes those that must end.

Source: k8s.io/kube-scheduler/extender/v1, as in ``extender_api``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from gcushare.core.assignments import PodRef
from gcushare.core.preemption.choice import Proposed
from gcushare.wire.extender_api import ABSENT, PodHead, check_size, decode_call, encode_json, too_many_nodes
from gcushare.wire.untrusted_json import Int

MAX_PREEMPT_BYTES = 4 << 20
"""65,536 uids of victims and a pod."""


class _MetaPod(msgspec.Struct, frozen=True, gc=False):
    uid: str = msgspec.field(name="UID")


class _MetaVictims(msgspec.Struct, frozen=True, gc=False):
    pods: tuple[_MetaPod, ...] | None = msgspec.field(name="Pods", default=None)
    violations: Int = msgspec.field(name="NumPDBViolations", default=0)


class _FullPod(msgspec.Struct, frozen=True, gc=False):
    class Meta(msgspec.Struct, frozen=True, gc=False):
        uid: str

    metadata: Meta

    @property
    def uid(self) -> str:
        return self.metadata.uid


class _FullVictims(msgspec.Struct, frozen=True, gc=False):
    pods: tuple[_FullPod, ...] | None = msgspec.field(name="Pods", default=None)
    violations: Int = msgspec.field(name="NumPDBViolations", default=0)


@dataclass(frozen=True, slots=True)
class Proposal:
    """The victims proposed on one node, not decoded yet. ``is_full``: whole pods instead of uids."""

    raw: msgspec.Raw
    is_full: bool

    @property
    def size(self) -> int:
        """Size in bytes: an estimate of the number of victims without decoding them."""
        return len(self.raw)

    def read(self) -> Proposed:
        """Decode the distinct victims.

        Raises:
            RemoteContractError: not the protocol.
        """
        found: _MetaVictims | _FullVictims | None
        if self.is_full:
            found = decode_call(_full_victims_decoder, self.raw, "victims {Pods}")
        else:
            found = decode_call(_meta_victims_decoder, self.raw, "victims {Pods: [{UID}]}")
        if found is None:
            return Proposed()
        return Proposed(list(dict.fromkeys(pod.uid for pod in found.pods or ())), found.violations)


@dataclass(frozen=True, slots=True)
class PreemptArguments:
    """A preempt request: the proposal of each node. Victims are decoded node by node, because there may be many."""

    pod: PodRef
    proposals: dict[str, Proposal]


class _PreemptArguments(msgspec.Struct, frozen=True, gc=False):
    pod: PodHead = msgspec.field(name="Pod")
    full: dict[str, msgspec.Raw] | None = msgspec.field(name="NodeNameToVictims", default=None)
    meta: dict[str, msgspec.Raw] | None = msgspec.field(name="NodeNameToMetaVictims", default=None)
    """What a scheduler sends if the extender is set to cache nodes."""


_preempt_decoder = msgspec.json.Decoder(_PreemptArguments)
_meta_victims_decoder = msgspec.json.Decoder(_MetaVictims | None)
_full_victims_decoder = msgspec.json.Decoder(_FullVictims | None)


def decode_preempt_arguments(body: bytes, most_nodes: int) -> PreemptArguments:
    """Read a preempt request with at most ``most_nodes`` nodes.

    Raises:
        RemoteContractError: not JSON, not the protocol, or too large.
    """
    what = "preempt arguments {Pod, NodeNameToVictims, NodeNameToMetaVictims}"
    check_size(body, MAX_PREEMPT_BYTES, what)
    arguments = decode_call(_preempt_decoder, body, what)
    nodes = len(arguments.meta or ()) + len(arguments.full or ())
    if nodes > most_nodes:
        raise too_many_nodes(nodes, most_nodes)
    proposals = {name: Proposal(raw, is_full=False) for name, raw in (arguments.meta or {}).items()}
    for name, raw in (arguments.full or {}).items():
        if raw != ABSENT:
            proposals.setdefault(name, Proposal(raw, is_full=True))
    return PreemptArguments(arguments.pod.ref, proposals)


def encode_victims(by_node: Mapping[str, Proposed]) -> bytes:
    """Encode the answer to preempt: per node the uids that must end and the number of budget violations."""
    return encode_json(
        {
            "NodeNameToMetaVictims": {
                name: {"Pods": [{"UID": uid} for uid in found.uids], "NumPDBViolations": found.violations}
                for name, found in by_node.items()
            }
        }
    )
