"""kube-scheduler's extender protocol: JSON over HTTP, decoded only as far as it is used, answers built as bytes.

Source: k8s.io/kube-scheduler/extender/v1, whose Go structs carry no tags, so that the keys are capitalised; requests
are written in the order Pod, Nodes, NodeNames. A list of names stays raw bytes until somebody needs the names: it is
most of a request, and often the same as in the request before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from gcushare.core.errors import RemoteContractError
from gcushare.wire.foreign import Int
from gcushare.wire.objects import Pod

T = TypeVar("T")

_ABSENT = msgspec.Raw(b"null")
_NAMES_KEY = b',"NodeNames":['
_MAX_REASON = 200


@dataclass(frozen=True, slots=True)
class FilterArguments:
    """The request of filter and prioritize. ``node_names`` and ``nodes`` are JSON; None for the one not sent."""

    pod: Pod
    nodes: bytes | None
    node_names: bytes | None


class _FilterArguments(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    pod: Pod
    nodes: msgspec.Raw = _ABSENT
    node_names: msgspec.Raw = _ABSENT


class BindArguments(msgspec.Struct, frozen=True, gc=False):
    """The request of bind."""

    pod_name: str = msgspec.field(name="PodName")
    pod_namespace: str = msgspec.field(name="PodNamespace")
    pod_uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


class MetaPod(msgspec.Struct, frozen=True, gc=False):
    """A victim by its uid."""

    uid: str = msgspec.field(name="UID")


class MetaVictims(msgspec.Struct, frozen=True, gc=False):
    """The victims on one node; ``violations`` counts those whose end breaks a PodDisruptionBudget."""

    pods: tuple[MetaPod, ...] | None = msgspec.field(name="Pods", default=None)
    violations: Int = msgspec.field(name="NumPDBViolations", default=0)


class _FullPod(msgspec.Struct, frozen=True, gc=False):
    class Meta(msgspec.Struct, frozen=True, gc=False):
        uid: str

    metadata: Meta


class _FullVictims(msgspec.Struct, frozen=True, gc=False):
    pods: tuple[_FullPod, ...] | None = msgspec.field(name="Pods", default=None)
    violations: Int = msgspec.field(name="NumPDBViolations", default=0)


@dataclass(frozen=True, slots=True)
class Proposal:
    """The victims proposed on one node, as they were written; ``is_full``: with whole pods instead of uids."""

    raw: msgspec.Raw
    is_full: bool

    @property
    def size(self) -> int:
        """Bytes, which tell how many victims there are about without reading them."""
        return len(self.raw)

    def read(self) -> MetaVictims:
        """Read them, in the meta form.

        Raises:
            RemoteContractError: not the protocol.
        """
        if not self.is_full:
            return _decode(_meta_victims_decoder, self.raw, "victims {Pods: [{UID}]}") or MetaVictims()
        full = _decode(_full_victims_decoder, self.raw, "victims {Pods}") or _FullVictims()
        return MetaVictims(tuple(MetaPod(pod.metadata.uid) for pod in full.pods or ()), full.violations)


class PreemptArguments(msgspec.Struct, frozen=True, gc=False):
    """The request of preempt; a scheduler that knows the extender to cache nodes sends the meta form."""

    pod: Pod = msgspec.field(name="Pod")
    full: dict[str, msgspec.Raw] | None = msgspec.field(name="NodeNameToVictims", default=None)
    meta: dict[str, msgspec.Raw] | None = msgspec.field(name="NodeNameToMetaVictims", default=None)

    def proposals(self) -> dict[str, Proposal]:
        """The proposal of each node, whichever form was sent. Victims are read node by node: they may be very many."""
        found = {name: Proposal(raw, is_full=False) for name, raw in (self.meta or {}).items()}
        for name, raw in (self.full or {}).items():
            if raw != _ABSENT:
                found.setdefault(name, Proposal(raw, is_full=True))
        return found


class _NamedItem(msgspec.Struct, frozen=True, gc=False):
    class Meta(msgspec.Struct, frozen=True, gc=False):
        name: str = ""

    metadata: Meta


class _NodeList(msgspec.Struct, frozen=True, gc=False):
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class NodeItem:
    """A whole Node object of a request, as it was written; for schedulers that do not know us to cache nodes."""

    name: str
    raw: bytes


_filter_decoder = msgspec.json.Decoder(_FilterArguments)
_bind_decoder = msgspec.json.Decoder(BindArguments)
_preempt_decoder = msgspec.json.Decoder(PreemptArguments)
_meta_victims_decoder = msgspec.json.Decoder(MetaVictims | None)
_full_victims_decoder = msgspec.json.Decoder(_FullVictims | None)
_names_decoder = msgspec.json.Decoder(list[str])
_nodes_decoder = msgspec.json.Decoder(_NodeList)
_item_decoder = msgspec.json.Decoder(_NamedItem)
_encode = msgspec.json.Encoder().encode


class FilterDecoder:
    """Reads requests of filter and prioritize. Both come for one pod in a row, written alike: it is read once."""

    def __init__(self) -> None:
        self._written = b""
        self._head: _FilterArguments | None = None

    def decode(self, body: bytes) -> FilterArguments:
        """Read a request; the same ``Pod`` object is returned as long as its bytes are the same.

        Raises:
            RemoteContractError: not JSON or not the protocol; says where.
        """
        return self._split(body) or _read_filter_arguments(body)

    def _split(self, body: bytes) -> FilterArguments | None:
        """Cut the list of names off the end, where kube-scheduler writes it, so that nobody has to scan it.

        Sound whatever the pod contains: the text cannot stand inside a JSON string, whose quotes are escaped, and when
        it is found inside an object of the pod, what comes before it is not JSON with one brace added. Then, or when
        the list is not last, returns None. The list itself is checked by whoever reads it.
        """
        start = body.find(_NAMES_KEY)
        if start < 0 or not body.endswith(b"]}"):
            return None
        written, head = body[:start], self._head
        if head is None or written != self._written:
            try:
                head = _filter_decoder.decode(written + b"}")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return None
            self._written, self._head = written, head
        return FilterArguments(head.pod, _present(head.nodes), body[start + len(_NAMES_KEY) - 1 : -1])


def decode_filter_arguments(body: bytes) -> FilterArguments:
    """Read one request of filter or prioritize; see `FilterDecoder`."""
    return FilterDecoder().decode(body)


def _read_filter_arguments(body: bytes) -> FilterArguments:
    whole = _decode(_filter_decoder, body, "filter arguments {Pod, Nodes, NodeNames}")
    return FilterArguments(whole.pod, _present(whole.nodes), _present(whole.node_names))


def _present(raw: msgspec.Raw) -> bytes | None:
    return None if bytes(raw) == b"null" else bytes(raw)


def decode_bind_arguments(body: bytes) -> BindArguments:
    """Read the request of bind.

    Raises:
        RemoteContractError: not JSON, not the protocol, or a field is empty.
    """
    arguments = _decode(_bind_decoder, body, "bind arguments {PodName, PodNamespace, PodUID, Node}")
    if not (arguments.pod_name and arguments.pod_namespace and arguments.pod_uid and arguments.node):
        raise RemoteContractError(f"bind arguments {body[:200]!r} leave PodName, PodNamespace, PodUID or Node empty")
    return arguments


def decode_preempt_arguments(body: bytes) -> PreemptArguments:
    """Read the request of preempt.

    Raises:
        RemoteContractError: not JSON or not the protocol.
    """
    return _decode(_preempt_decoder, body, "preempt arguments {Pod, NodeNameToVictims, NodeNameToMetaVictims}")


def decode_names(raw: bytes) -> list[str]:
    """Read a list of node names.

    Raises:
        RemoteContractError: not a list of strings.
    """
    return _decode(_names_decoder, raw, "a list of node names")


def decode_node_items(raw: bytes) -> list[NodeItem]:
    """Read the nodes of a NodeList, keeping each as it was written.

    Raises:
        RemoteContractError: not a NodeList.
    """
    items = _decode(_nodes_decoder, raw, "a NodeList").items or []
    return [NodeItem(_decode(_item_decoder, bytes(item), "a Node").metadata.name, bytes(item)) for item in items]


def encode_name(name: str) -> bytes:
    """Write one name as a JSON string."""
    return _encode(name)


def encode_filter_answer(names: Iterable[bytes], failed: bytes = b"{}", hopeless: bytes = b"{}") -> bytes:
    """Write filter's answer from encoded names and from encoded {name: reason} objects."""
    return b'{"Nodes":null,"NodeNames":[%b],"FailedNodes":%b,"FailedAndUnresolvableNodes":%b,"Error":""}' % (
        b",".join(names),
        failed,
        hopeless,
    )


def encode_node_items_answer(items: Iterable[bytes], failed: bytes, hopeless: bytes) -> bytes:
    """Write filter's answer to a request that carried whole nodes: the nodes that stay, as they came."""
    return (
        b'{"Nodes":{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[%b]},"NodeNames":null,'
        b'"FailedNodes":%b,"FailedAndUnresolvableNodes":%b,"Error":""}'
    ) % (b",".join(items), failed, hopeless)


def encode_reasons(names: Iterable[bytes], reason: str) -> bytes:
    """Write {name: reason} for encoded names that all fail for the same reason."""
    tail = b":" + _encode(reason)
    joined = (tail + b",").join(names)
    return b"{" + joined + tail + b"}" if joined else b"{}"


def encode_host(name: bytes) -> bytes:
    """Write the part of a score that is the same every time; ``name`` is encoded."""
    return b'{"Host":%b,"Score":' % name


SCORE_ENDS = tuple(b"%d}" % score for score in range(11))
"""What follows ``encode_host`` for each score from 0 to 10."""


def encode_scores(scores: Iterable[bytes]) -> bytes:
    """Write prioritize's answer from scores made of ``encode_host`` and ``SCORE_ENDS``."""
    return b"[%b]" % b",".join(scores)


def encode_error(message: str) -> bytes:
    """Write an answer of filter, bind or preempt that says only what went wrong."""
    return _encode({"Error": message})


BIND_DONE = b'{"Error":""}'
"""The answer of a bind that succeeded."""


def encode_victims(by_node: Mapping[str, tuple[Sequence[str], int]]) -> bytes:
    """Write preempt's answer: per node the uids that have to end and how many budgets that breaks."""
    return _encode(
        {
            "NodeNameToMetaVictims": {
                name: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": violations}
                for name, (uids, violations) in by_node.items()
            }
        }
    )


def _decode(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, what: str) -> T:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteContractError(f"{bytes(body)[:80]!r} is not {what}: {str(error)[:_MAX_REASON]}") from error
