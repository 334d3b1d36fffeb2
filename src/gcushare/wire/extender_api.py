"""kube-scheduler's extender protocol: JSON over HTTP, decoded only as far as it is used, answers built as bytes.

Here are filter, prioritize and bind; preempt is in ``extender_preempt``.

Source: k8s.io/kube-scheduler/extender/v1, whose Go structs carry no tags, so that the keys are capitalised; requests
are written in the order Pod, Nodes, NodeNames. kube-scheduler samples nodes and writes their names in the order in
which its goroutines come to them, so hardly any list is like one before, and none is remembered. Of a pod only its
identity is decoded: what it asks for is the API server's to say, not a caller's.

Reading a request takes less than 20 ms of one core whatever it holds. What grows faster with a body than its bytes do
(values in lists and objects) is counted before it is decoded: a comma stands between any two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from gcushare.core.errors import RemoteContractError
from gcushare.core.nodes import PodRef

T = TypeVar("T")

MAX_POD_BYTES = 3 << 19
"""1.5 MiB, the most that etcd stores of one object: a larger pod is none of the API server's."""

MAX_BIND_BYTES = 16 << 10
"""Four names: a tenth of it, were every character escaped."""

MAX_WHOLE_BYTES = 3 << 20
"""A request of filter or prioritize that is not written as kube-scheduler writes one with names of nodes."""

MAX_VALUES = 200_000
"""Values in a list or an object of such a request, and of one of preempt; decoding takes up to 0.1 µs for each."""

SPARE_NODES = 1000
"""Nodes that a request may name beside twice those that our watch has seen: the scheduler's may be ahead of it."""

_MAX_NAME_BYTES = 256
"""A name in its list: 253 characters, its quotes and a comma."""

ABSENT = msgspec.Raw(b"null")
_NODE_LIST = b'{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[%b]}'
_NAMES_KEY = b',"NodeNames":['
_MAX_REASON = 200


def largest_filter(most_nodes: int) -> int:
    """Bytes of the largest request of filter or prioritize about so many nodes."""
    return max(MAX_WHOLE_BYTES, MAX_POD_BYTES + most_nodes * _MAX_NAME_BYTES)


class _Meta(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class PodHead(msgspec.Struct, frozen=True, gc=False):
    """A pod or a node, of which the identity is read."""

    metadata: _Meta = _Meta()

    @property
    def ref(self) -> PodRef:
        return PodRef(self.metadata.uid, self.metadata.namespace, self.metadata.name)


@dataclass(frozen=True, slots=True)
class FilterArguments:
    """The request of filter and prioritize. ``node_names`` and ``nodes`` are JSON; None for the one not sent.

    ``pod``: whoever sent it may have written any; look it up before anything is done. ``written``: the part of the
    request that holds the pod, as it came.
    """

    pod: PodRef
    nodes: bytes | None
    node_names: bytes | None
    written: bytes


class _FilterArguments(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    pod: PodHead
    nodes: msgspec.Raw = ABSENT
    node_names: msgspec.Raw = ABSENT


@dataclass(frozen=True, slots=True)
class BindArguments:
    """The request of bind."""

    pod: PodRef
    node: str


class _BindArguments(msgspec.Struct, frozen=True, gc=False):
    pod_name: str = msgspec.field(name="PodName")
    pod_namespace: str = msgspec.field(name="PodNamespace")
    pod_uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


class _NodeList(msgspec.Struct, frozen=True, gc=False):
    items: list[msgspec.Raw] | None = None


class _FilterResult(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    nodes: msgspec.Raw
    node_names: list[str] | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str = ""


class _HostScore(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    host: str
    score: int


@dataclass(frozen=True, slots=True)
class NodeItem:
    """A whole Node object of a request, as it was written; for schedulers that do not know us to cache nodes."""

    name: str
    raw: bytes


_filter_decoder = msgspec.json.Decoder(_FilterArguments)
_bind_decoder = msgspec.json.Decoder(_BindArguments)
_names_decoder = msgspec.json.Decoder(list[str])
_nodes_decoder = msgspec.json.Decoder(_NodeList)
_item_decoder = msgspec.json.Decoder(PodHead)
encode_json = msgspec.json.Encoder().encode


class FilterDecoder:
    """Reads requests of filter and prioritize. Both come for one pod in a row, written alike: it is read once."""

    def __init__(self) -> None:
        self._written = b""
        self._head: _FilterArguments | None = None
        self._pod = PodRef("", "", "")

    def decode(self, body: bytes) -> FilterArguments:
        """Read a request; the same pod is returned as long as its bytes are the same.

        Raises:
            RemoteContractError: not JSON, not the protocol, or too large; says where.
        """
        return self._split(body) or _read_filter_arguments(body)

    def _split(self, body: bytes) -> FilterArguments | None:
        """Cut the list of names off the end, where kube-scheduler writes it, so that it need not be scanned.

        Sound whatever the pod contains: the text cannot stand inside a JSON string, whose quotes are escaped, and when
        it is found inside an object of the pod, what comes before it is not JSON with one brace added. Then, or when
        the list is not last, returns None. The list itself is checked by whoever reads it.
        """
        start = body.find(_NAMES_KEY)
        if start < 0 or not body.endswith(b"]}"):
            return None
        if start > MAX_POD_BYTES:
            raise RemoteContractError(
                f"the Pod of the request takes {start} bytes; at most {MAX_POD_BYTES} are accepted, as etcd stores"
            )
        written, head = body[:start], self._head
        if head is None or written != self._written:
            try:
                head = _filter_decoder.decode(written + b"}")
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return None
            self._written, self._head, self._pod = written, head, head.pod.ref
        return FilterArguments(self._pod, _present(head.nodes), body[start + len(_NAMES_KEY) - 1 : -1], written)


def _read_filter_arguments(body: bytes) -> FilterArguments:
    what = "filter arguments {Pod, Nodes, NodeNames}"
    check_size(body, MAX_WHOLE_BYTES, what)
    whole = decode_call(_filter_decoder, body, what)
    return FilterArguments(whole.pod.ref, _present(whole.nodes), _present(whole.node_names), body)


def check_size(body: bytes, most_bytes: int, what: str) -> None:
    """Refuse what would take long to decode, without decoding it.

    Raises:
        RemoteContractError: more bytes or values than are accepted.
    """
    if len(body) > most_bytes:
        raise RemoteContractError(f"{len(body)} bytes are too many for {what}; at most {most_bytes} are accepted")
    values = body.count(b",") + 1
    if values > MAX_VALUES:
        raise RemoteContractError(f"{values} values are too many for {what}; at most {MAX_VALUES} are accepted")


def _present(raw: msgspec.Raw) -> bytes | None:
    return None if bytes(raw) == b"null" else bytes(raw)


def decode_bind_arguments(body: bytes) -> BindArguments:
    """Read the request of bind.

    Raises:
        RemoteContractError: not JSON, not the protocol, too large, or a field is empty.
    """
    what = "bind arguments {PodName, PodNamespace, PodUID, Node}"
    check_size(body, MAX_BIND_BYTES, what)
    arguments = decode_call(_bind_decoder, body, what)
    if not (arguments.pod_name and arguments.pod_namespace and arguments.pod_uid and arguments.node):
        raise RemoteContractError(f"bind arguments {body[:200]!r} leave PodName, PodNamespace, PodUID or Node empty")
    pod = PodRef(arguments.pod_uid, arguments.pod_namespace, arguments.pod_name)
    return BindArguments(pod, arguments.node)


def decode_names(raw: bytes, most: int) -> list[str]:
    """Read a list of at most so many node names.

    Raises:
        RemoteContractError: not a list of strings, or more of them than that.
    """
    count = raw.count(b",") + 1
    if count > most or len(raw) > most * _MAX_NAME_BYTES:
        raise too_many_nodes(count, most)
    return decode_call(_names_decoder, raw, "a list of node names")


def decode_node_items(raw: bytes, most: int) -> list[NodeItem]:
    """Read the nodes, at most so many, of a NodeList, keeping each as it was written.

    Raises:
        RemoteContractError: not a NodeList, or more of them than that.
    """
    items = decode_call(_nodes_decoder, raw, "a NodeList").items or []
    if len(items) > most:
        raise too_many_nodes(len(items), most)
    return [NodeItem(decode_call(_item_decoder, bytes(item), "a Node").metadata.name, bytes(item)) for item in items]


def too_many_nodes(count: int, most: int) -> RemoteContractError:
    """The error for a request that names ``count`` nodes."""
    return RemoteContractError(
        f"{count} nodes in one request; at most {most} are accepted: twice as many as the API server has, and "
        f"{SPARE_NODES} that may be new"
    )


@dataclass(frozen=True, slots=True)
class AskedNodes:
    """The distinct nodes of a request of filter or prioritize, in its order; the answer is written in its form.

    ``items``: whole Node objects by name, as they came; None where the request has names alone.
    """

    names: dict[str, None]
    items: dict[str, bytes] | None = None

    def encode_answer(
        self, named: Collection[str], failed: dict[str, str] | None = None, unresolvable: dict[str, str] | None = None
    ) -> bytes:
        """Write filter's answer: the nodes that stay, and the others with the reasons."""
        if self.items is None:
            nodes, names = bytes(ABSENT), list(named)
        else:
            nodes, names = _NODE_LIST % b",".join([self.items[name] for name in named]), None
        return encode_json(_FilterResult(msgspec.Raw(nodes), names, failed or {}, unresolvable or {}))


def decode_asked_nodes(arguments: FilterArguments, most: int) -> AskedNodes:
    """Read the nodes of a request, at most so many.

    Raises:
        RemoteContractError: neither a list of names nor a NodeList, or more nodes than that.
    """
    if arguments.node_names is not None:
        return AskedNodes(dict.fromkeys(decode_names(arguments.node_names, most)))
    items = {item.name: item.raw for item in decode_node_items(arguments.nodes or b"{}", most)}
    return AskedNodes(dict.fromkeys(items), items)


def encode_scores(names: Iterable[str], scores: Iterable[int]) -> bytes:
    """Write prioritize's answer: a score from 0 to 10 for each name."""
    return encode_json(list(map(_HostScore, names, scores)))


def encode_error(message: str) -> bytes:
    """Write an answer of filter, bind or preempt that says only what went wrong."""
    return encode_json({"Error": message})


BIND_DONE = b'{"Error":""}'
"""The answer of a bind that succeeded."""


def decode_call(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, what: str) -> T:
    """Read ``what`` from bytes.

    Raises:
        RemoteContractError: not JSON, or of another shape; quotes the beginning.
    """
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteContractError(f"{bytes(body)[:80]!r} is not {what}: {str(error)[:_MAX_REASON]}") from error
