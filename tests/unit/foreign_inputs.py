"""Every decoder of bytes that another program, or a person, wrote; see test_foreign_inputs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml  # type: ignore[import-untyped]  # its C reader is ten times as fast as ruamel's

from gcushare.cards.process_owners import find_pod_uid
from gcushare.cards.simulated.file import parse_simulated_cards
from gcushare.cards.worker.messages import ANSWER, REQUEST, CardAnswer, decode_answer
from gcushare.cli.support_bundle.cut_objects import EVENT as BUNDLE_EVENT
from gcushare.cli.support_bundle.log_filter import LOG_LINE
from gcushare.cluster.diagnosis.schedulers import parse_configuration
from gcushare.cluster.programs import SEEN_NODE, SEEN_POD
from gcushare.config_manager.host.paths_and_record import RECORD, parse_record
from gcushare.config_manager.scheduler_config.yaml_text import YamlText
from gcushare.config_manager.scheduler_config.yaml_tree import plain_value
from gcushare.core.errors import ConfigError, DeviceError, GcushareError, Refused, RemoteContractError
from gcushare.device_plugin.kubelet.checkpoint import CHECKPOINT_FILE, read_checkpoint, read_registered
from gcushare.kube.client import PAGE, VERSION, object_decoder
from gcushare.kube.connection.exec_plugin import CREDENTIAL
from gcushare.kube.connection.kubeconfig import parse_kubeconfig
from gcushare.kube.connection.watch_lines import EVENT
from gcushare.kube.errors import FailedRequest as KubeAttempt
from gcushare.kube.errors import HttpFailure, error_of_answer, parse_status
from gcushare.scheduler_extender.claims.service import NAMESPACE
from gcushare.scheduler_extender.dashboard.token_reviews import Review
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import OVER_USE_NOTE, decode_over_use, decode_record
from gcushare.wire.certificates import first_end
from gcushare.wire.documents.explain import EXPLANATION
from gcushare.wire.documents.inspect import INSPECT, decode_document
from gcushare.wire.documents.node_report import NODE_REPORT
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS
from gcushare.wire.dra.checkpoint import CHECKPOINT as CLAIMS_CHECKPOINT
from gcushare.wire.dra.claims import POD_WITH_CLAIMS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from gcushare.wire.dra.slices import RESOURCE_SLICE
from gcushare.wire.extender_api import FilterDecoder, decode_asked_nodes, decode_bind_arguments
from gcushare.wire.extender_preempt import decode_preempt_arguments
from gcushare.wire.kubelet.plugin_messages import decode_allocate_request, decode_preferred_request
from gcushare.wire.kubelet.pod_resources import decode_holdings
from gcushare.wire.nodes import INVENTORY, decode_inventory, node_cards
from gcushare.wire.objects import HEAD, KIND, NODE, POD, STATUS
from gcushare.wire.pod_options import pod_options
from gcushare.wire.pods import pod_assignment, pod_request
from gcushare.wire.protos import deviceplugin_pb2, podresources_pb2
from gcushare.wire.protos.dra_pb2 import Claim as PrepareClaim
from gcushare.wire.protos.dra_pb2 import NodePrepareResourcesRequest
from gcushare.wire.protos.services import read_message
from gcushare.wire.untrusted_json import BoundedJsonDecoder
from gcushare.wire.untrusted_yaml import load_yaml
from tests.unit.status_documents import FIRST


@dataclass(frozen=True, slots=True)
class Decoder:
    """``read`` takes any bytes and returns a value or raises ``error``; ``examples`` are read without one."""

    read: Callable[[bytes], object]
    examples: tuple[bytes, ...]
    error: type[GcushareError] | tuple[type[GcushareError], ...] = RemoteContractError


DOCUMENTS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "recorded" / "foreign-documents.yaml").read_text()
)
CARDS, A_POD = DOCUMENTS["cards"], DOCUMENTS["pod"]
A_NODE = {
    "metadata": {"name": "n", "uid": "u", "annotations": {ENFLAME.inventory_annotation: json.dumps(CARDS)}},
    "status": {"capacity": {"enflame.com/gcu-memory": "32", "enflame.com/gcu-count": "2"}},
}
A_STATUS = FIRST | {
    "cards": [FIRST["cards"][0] | {"numaNode": 0}],
    "pods": [FIRST["pods"][0] | {"recordedCards": [0], "assigned": True}],
}
AN_EXTENDER = (
    "extenders:\n- urlPrefix: http://a/b\n  managedResources: [{name: enflame.com/gcu-memory}]\n  bindVerb: b\n"
)


def encoded(document: object) -> bytes:
    return json.dumps(document).encode()


def text_of(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """A decoder that takes text which was decoded before, as a file's or an answer's."""
    return lambda body: read(body.decode("utf-8", errors="replace"))


def any_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """A decoder that must take any ``str`` that Python has, halves of surrogates among them."""
    return lambda body: read(body.decode("utf-8", errors="surrogateescape"))


def _pod_whole(body: bytes) -> object:
    """What the extender does with a pod of the watch."""
    pod = POD.read(body)
    try:
        return pod_options(pod.metadata.annotations), pod_request(pod, ENFLAME), pod_assignment(pod, ENFLAME)
    except Refused as refusal:
        return refusal


def _node_whole(body: bytes) -> object:
    node = NODE.read(body)
    return node_cards(ENFLAME, node.metadata.annotations, node.status.capacity)


def _in_annotation(key: str, read: Callable[[dict[str, str]], object]) -> Callable[[bytes], object]:
    return lambda body: read({key: body.decode("utf-8", errors="surrogateescape")})


def _checkpoint(body: bytes) -> object:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubelet_internal_checkpoint"
        path.write_bytes(body)
        record = read_checkpoint(path, "r", "r-whole")
        return record.pods, record.held_ids(0), record.cards(whole=True, without=()), read_registered(path, "r")


def _holdings(body: bytes) -> object:
    from gcushare.device_plugin.pods.allocations import KubeletAllocations

    record = KubeletAllocations("podresources")
    for found in decode_holdings(body, "r", "r-whole"):
        record.add(found.pod, found.container, found.ids)
        record.add_whole(found.pod, found.container, found.whole_ids)
    return record.held_ids(0), record.memory, record.foreign


def _pod_resources(*ids: str) -> bytes:
    answer = podresources_pb2.ListPodResourcesResponse()
    container = answer.pod_resources.add(name="p", namespace="d").containers.add(name="c")
    for each in ids:
        container.devices.add(resource_name="r", device_ids=[each])
    return answer.SerializeToString()


def _preferred() -> bytes:
    request = deviceplugin_pb2.PreferredAllocationRequest()
    request.container_requests.add(
        available_deviceIDs=["000", "001"], must_include_deviceIDs=["000"], allocation_size=1
    )
    return request.SerializeToString()


def _allocate() -> bytes:
    request = deviceplugin_pb2.AllocateRequest()
    request.container_requests.add(devices_ids=["000", "0é"])
    return request.SerializeToString()


def _filtered(body: bytes) -> object:
    asked = decode_asked_nodes(FilterDecoder().decode(body), 100)
    return list(asked.names), asked.items


def _preempt(body: bytes) -> object:
    found = {name: each.read() for name, each in decode_preempt_arguments(body, 100).proposals.items()}
    return msgspec.json.encode({name: each.violations for name, each in found.items()})


def _manifest(text: str) -> object:
    return plain_value(YamlText.parse(text, "manifest").root)


def _refused_by_api_server(body: bytes) -> object:
    raise error_of_answer(KubeAttempt("GET /", False), HttpFailure(429, body))


JSON_DECODERS: dict[BoundedJsonDecoder[Any], bytes] = {
    INVENTORY: encoded(CARDS),
    PLUGIN_STATUS: encoded(A_STATUS | DOCUMENTS["claims part of a status"]),
    CLAIMS_CHECKPOINT: encoded(DOCUMENTS["claims checkpoint"]),
    RESOURCE_CLAIM: encoded(DOCUMENTS["claim"]),
    RESOURCE_SLICE: encoded(DOCUMENTS["slice"]),
    RESOURCE_CLAIM_TEMPLATE: encoded(DOCUMENTS["template"]),
    POD_WITH_CLAIMS: encoded(DOCUMENTS["pod with claims"]),
    NAMESPACE: encoded({"metadata": {"name": "d", "uid": "u", "labels": {"gcushare.io/claims": "enabled"}}}),
    NODE: encoded(A_NODE),
    POD: encoded(A_POD),
    HEAD: encoded(A_NODE),
    STATUS: encoded({"code": 409, "reason": "Conflict", "details": {"retryAfterSeconds": 1}}),
    EVENT: encoded({"type": "ADDED", "object": A_POD}),
    PAGE: encoded({"metadata": {"resourceVersion": "1"}, "items": [A_POD]}),
    CREDENTIAL: encoded(
        {"apiVersion": "v1", "kind": "K", "status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}}
    ),
    CHECKPOINT_FILE: encoded(DOCUMENTS["kubelet checkpoint"]),
    REQUEST: b'{"operation": "read", "slot": 1}',
    ANSWER: b'{"result": 3}',
    RECORD: encoded(DOCUMENTS["record of a change"]),
    NODE_REPORT: b'{"state": "applied", "reason": ""}',
    LOG_LINE: b'{"time": "t", "level": "INFO", "message": "started"}',
    OVER_USE_NOTE: encoded(DOCUMENTS["over-use"]),
    BUNDLE_EVENT: encoded({"involvedObject": {"kind": "Pod", "name": "p"}, "count": 2, "reason": "Started"}),
    SEEN_NODE: encoded(A_NODE),
    SEEN_POD: encoded(A_POD),
    KIND: b'{"kind": "Pod"}',
    VERSION: b'{"gitVersion": "v1.36.0"}',
    EXPLANATION: encoded(DOCUMENTS["explanation"]),
    INSPECT: encoded(DOCUMENTS["inspect document"]),
    object_decoder(Review): (
        b'{"status": {"authenticated": true, "allowed": true, "user": {"username": "a", "groups": ["g"]}}}'
    ),
}
"""Every ``BoundedJsonDecoder`` of the programs, with a document that it reads."""

OF_WORKER = (RemoteContractError, DeviceError)
"""What a worker answers may be a failure of the card, or of the library."""

DECODERS: dict[str, Decoder] = {
    "over-use annotation": Decoder(any_text(decode_over_use), (encoded(DOCUMENTS["over-use"]),)),
    "inventory annotation": Decoder(any_text(decode_inventory), (encoded(CARDS),)),
    "node of the watch": Decoder(_node_whole, (encoded(A_NODE),)),
    "pod of the watch": Decoder(_pod_whole, (encoded(A_POD),)),
    "record annotation": Decoder(
        _in_annotation(ENFLAME.record.card_index, lambda found: decode_record(ENFLAME, found)), (b"0", b"0,1", b"15")
    ),
    "kubelet checkpoint": Decoder(_checkpoint, (encoded(DOCUMENTS["kubelet checkpoint"]),), DeviceError),
    "podresources": Decoder(_holdings, (_pod_resources("000", "001", "0é", "card-1"), _pod_resources("000", "0 \t"))),
    "preparing claims": Decoder(
        lambda body: read_message(NodePrepareResourcesRequest, body),
        (NodePrepareResourcesRequest(claims=[PrepareClaim(uid="u", name="n", namespace="d")]).SerializeToString(),),
    ),
    "preferred allocation": Decoder(decode_preferred_request, (_preferred(),)),
    "allocate": Decoder(decode_allocate_request, (_allocate(),)),
    "filter": Decoder(
        _filtered, (encoded({"Pod": A_POD, "NodeNames": ["n"]}), encoded({"Pod": A_POD, "Nodes": {"items": [A_NODE]}}))
    ),
    "bind": Decoder(decode_bind_arguments, (b'{"PodName":"p","PodNamespace":"d","PodUID":"u","Node":"n"}',)),
    "preempt": Decoder(
        _preempt,
        (encoded({"Pod": A_POD, "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 1}}}),),
    ),
    "extender's inspect document": Decoder(decode_document, (encoded(DOCUMENTS["inspect document"]),)),
    "config manager's record": Decoder(
        lambda body: parse_record(body, "r"), (encoded(DOCUMENTS["record of a change"]),), ConfigError
    ),
    "worker's answer": Decoder(
        lambda body: decode_answer(body, CardAnswer), (b'{"result": {"left_out": null}}',), OF_WORKER
    ),
    "worker's number": Decoder(lambda body: decode_answer(body, int), (b'{"result": 3}',), OF_WORKER),
    "refusal of an API server": Decoder(parse_status, (b'{"code": 404}', b"<html>")),
    "error of an API server": Decoder(
        lambda body: error_of_answer(KubeAttempt("GET /", False), HttpFailure(429, b"", body.decode("latin-1"))),
        (b"1", "²".encode("latin-1")),
    ),
    "refusal of an API server, as an error": Decoder(_refused_by_api_server, (), GcushareError),
    "certificate": Decoder(first_end, ()),
    "control group": Decoder(text_of(find_pod_uid), (b"0::/kubepods/pod12345678-1234-1234-1234-123456789abc/x\n",)),
    "YAML": Decoder(any_text(lambda text: load_yaml(text, "f")), (b"a: [1, 2.5, {b: &x c, d: *x}]\n",)),
    "simulated cards": Decoder(
        any_text(lambda text: parse_simulated_cards(text, "f").report()),
        (b"cards: [{memory: 16GiB, processes: {1: 2}}]",),
        ConfigError,
    ),
    "kubeconfig": Decoder(
        any_text(lambda text: parse_kubeconfig(text, "f")),
        (b"clusters: [{name: c, cluster: {server: 's'}}]\nusers: [{name: u, user: {token: t}}]\n",),
        ConfigError,
    ),
    "scheduler's configuration": Decoder(any_text(parse_configuration), (AN_EXTENDER.encode(),)),
    "manifest": Decoder(
        any_text(_manifest), (b"kind: Pod\nspec:\n  containers:\n  - name: &a c\n    command: [*a]\n",), ConfigError
    ),
}
"""Every function through which such bytes reach a program, up to the values that the program works with."""

for _json, _example in JSON_DECODERS.items():
    DECODERS[f"JSON: {_json.what}, as {getattr(_json.kind, '__name__', _json.kind)}"] = Decoder(_json.read, (_example,))
