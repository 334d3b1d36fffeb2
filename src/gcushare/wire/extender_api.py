"""kube-scheduler's extender protocol: filter, prioritize and bind. For preempt see ``extender_preempt``.

JSON over HTTP. Requests are decoded only as far as they are used; answers are built as bytes.

Source: k8s.io/kube-scheduler/extender/v1. Its Go structs have no tags, so the keys are capitalised, and requests have
the order Pod, Nodes, NodeNames. Lists of names are not cached: kube-scheduler samples nodes and writes their names in
the order in which its goroutines finish, so hardly any list repeats. Only a pod's identity is decoded. Its request is
read from the API server, because a caller cannot be trusted with it.

Reading any request takes less than 20 ms of one core. Decoding time grows faster with the number of values in lists and
objects than with bytes, so values are counted first, by the commas between them. Keys that are not known are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from gcushare.core.assignments import PodRef
from gcushare.core.errors import RemoteContractError
from gcushare.core.wording import counted

T = TypeVar("T")

MAX_POD_BYTES = 3 << 19
"""1.5 MiB: etcd's limit for one object. A larger pod cannot be from the API server."""

MAX_BIND_BYTES = 16 << 10
"""Ten times what four names take, even if every character is escaped."""

MAX_WHOLE_BYTES = 3 << 20
"""A filter or prioritize request in another form than kube-scheduler's with node names."""

MAX_VALUES = 200_000
"""Values in the lists and objects of such a request or of a preempt request. Decoding takes up to 0.1 µs for each."""

SPARE_NODES = 1000
"""Nodes that a request may name in addition to twice those in our watch, which may be behind the scheduler's."""

_MAX_NAME_BYTES = 256
"""A name in a list: 253 characters, two quotes and a comma."""

ABSENT = msgspec.Raw(b"null")
_NODE_LIST = b'{"kind":"NodeList","apiVersion":"v1","metadata":{},"items":[%b]}'
_NAMES_KEY = b',"NodeNames":['
_MAX_REASON = 200
FULLWIDTH_PERCENT = "\uff05"


def largest_filter(most_nodes: int) -> int:
    """The largest accepted filter or prioritize request for a number of nodes, in bytes."""
    return max(MAX_WHOLE_BYTES, MAX_POD_BYTES + most_nodes * _MAX_NAME_BYTES)


class _PodMeta(msgspec.Struct, frozen=True, gc=False):
    name: str
    namespace: str
    uid: str


class PodHead(msgspec.Struct, frozen=True, gc=False):
    """The identity of a pod; the rest is not decoded."""

    metadata: _PodMeta

    @property
    def ref(self) -> PodRef:
        return PodRef(self.metadata.uid, self.metadata.namespace, self.metadata.name)


@dataclass(frozen=True, slots=True)
class FilterArguments:
    """A filter or prioritize request. ``node_names`` and ``nodes`` are JSON; the one that was not sent is None.

    ``pod`` is what the client claims: look the pod up before acting on it. ``written`` is the unchanged part of the
    request that contains the pod.
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
    pod: PodRef
    node: str


class _BindArguments(msgspec.Struct, frozen=True, gc=False):
    pod_name: str = msgspec.field(name="PodName")
    pod_namespace: str = msgspec.field(name="PodNamespace")
    pod_uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


class _NodeMeta(msgspec.Struct, frozen=True, gc=False):
    name: str


class _NodeHead(msgspec.Struct, frozen=True, gc=False):
    metadata: _NodeMeta


class _NodeList(msgspec.Struct, frozen=True, gc=False):
    items: list[msgspec.Raw] | None


class _FilterResult(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    nodes: msgspec.Raw
    node_names: list[str] | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: dict[str, str]
    error: str = ""


class _HostScore(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    host: str
    score: int


_filter_decoder = msgspec.json.Decoder(_FilterArguments)
_bind_decoder = msgspec.json.Decoder(_BindArguments)
_names_decoder = msgspec.json.Decoder(list[str])
_nodes_decoder = msgspec.json.Decoder(_NodeList)
_item_decoder = msgspec.json.Decoder(_NodeHead)
encode_json = msgspec.json.Encoder().encode


class FilterDecoder:
    """Reads filter and prioritize requests. Both follow each other with an identical pod, which is decoded once."""

    def __init__(self) -> None:
        self._written = b""
        self._head: _FilterArguments | None = None
        self._pod = PodRef("", "", "")

    def decode(self, body: bytes) -> FilterArguments:
        """Read a request. Returns the same pod object while the pod's bytes are the same.

        Raises:
            RemoteContractError: not JSON, not the protocol, or too large.
        """
        if (found := self._split(body)) is not None:
            return found
        what = "filter arguments {Pod, Nodes, NodeNames}"
        check_size(body, MAX_WHOLE_BYTES, what)
        whole = decode_call(_filter_decoder, body, what)
        return FilterArguments(whole.pod.ref, _present(whole.nodes), _present(whole.node_names), body)

    def _split(self, body: bytes) -> FilterArguments | None:
        """Cut off the list of names at the end, where kube-scheduler writes it, without scanning it.

        This is safe for any pod. The key cannot occur inside a JSON string, because quotes are escaped there. If it
        occurs inside an object of the pod, the text before it is not valid JSON with one closing brace added. Returns
        None in that case, or if the list is not last. The reader of the list checks the list.
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


def check_size(body: bytes, most_bytes: int, what: str) -> None:
    """Refuse a body that would take long to decode, without decoding it.

    Raises:
        RemoteContractError: too many bytes or values.
    """
    if len(body) > most_bytes:
        raise RemoteContractError(f"{len(body)} bytes are too many for {what}; at most {most_bytes} are accepted")
    values = body.count(b",") + 1
    if values > MAX_VALUES:
        raise RemoteContractError(f"{values} values are too many for {what}; at most {MAX_VALUES} are accepted")


def _present(raw: msgspec.Raw) -> bytes | None:
    return None if bytes(raw) == b"null" else bytes(raw)


def decode_bind_arguments(body: bytes) -> BindArguments:
    """Read a bind request.

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


def too_many_nodes(count: int, most: int) -> RemoteContractError:
    """The error for a request with ``count`` nodes."""
    return RemoteContractError(
        f"{counted(count, 'node')} in one request; at most {most} are accepted: twice as many as the API server "
        f"has, and {SPARE_NODES} that may be new"
    )


@dataclass(frozen=True, slots=True)
class AskedNodes:
    """The distinct nodes of a filter or prioritize request, in its order. The answer has the request's form.

    ``items`` are the unchanged Node objects by name; None if the request has names only.
    """

    names: dict[str, None]
    items: dict[str, bytes] | None = None

    def encode_answer(
        self, named: Collection[str], failed: dict[str, str] | None = None, unresolvable: dict[str, str] | None = None
    ) -> bytes:
        """Encode the answer to filter: the fitting nodes, and the others with their reasons."""
        if self.items is None:
            nodes, names = bytes(ABSENT), list(named)
        else:
            nodes, names = _NODE_LIST % b",".join([self.items[name] for name in named]), None
        return encode_json(_FilterResult(msgspec.Raw(nodes), names, failed or {}, unresolvable or {}))


def decode_asked_nodes(arguments: FilterArguments, most: int) -> AskedNodes:
    """Read at most ``most`` nodes of a request: names, or whole nodes if the extender is not set to cache nodes.

    Raises:
        RemoteContractError: neither a list of names nor a NodeList, or too many nodes.
    """
    if (raw := arguments.node_names) is not None:
        count = raw.count(b",") + 1
        if count > most or len(raw) > most * _MAX_NAME_BYTES:
            raise too_many_nodes(count, most)
        names = decode_call(_names_decoder, raw, "a list of node names")
        return AskedNodes(dict.fromkeys(names))
    items = decode_call(_nodes_decoder, arguments.nodes or b'{"items":null}', "a NodeList").items or []
    if len(items) > most:
        raise too_many_nodes(len(items), most)
    nodes = {decode_call(_item_decoder, bytes(item), "a Node").metadata.name: bytes(item) for item in items}
    return AskedNodes(dict.fromkeys(nodes), nodes)


def encode_scores(names: Iterable[str], scores: Iterable[int]) -> bytes:
    """Encode the answer to prioritize: a score from 0 to 10 for each name."""
    return encode_json(list(map(_HostScore, names, scores)))


def encode_error(message: str) -> bytes:
    """Encode an error as the answer to filter or bind.

    kube-scheduler takes it as a format for its Event (and up to some version for its error too), but as it is for the
    pod's condition. No number of percent signs is right in all, so a sign that looks alike stands for each.
    """
    return encode_json({"Error": message.replace("%", FULLWIDTH_PERCENT)})


BIND_DONE = b'{"Error":""}'
"""The answer to a successful bind."""


def decode_call(decoder: msgspec.json.Decoder[T], body: bytes | msgspec.Raw, what: str) -> T:
    """Decode a request or a part of it. ``what`` describes it in errors.

    Raises:
        RemoteContractError: not JSON, or another shape. The message quotes the beginning.
    """
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteContractError(f"{bytes(body)[:80]!r} is not {what}: {str(error)[:_MAX_REASON]}") from error
