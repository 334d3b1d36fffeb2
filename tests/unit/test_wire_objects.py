"""Kubernetes JSON into our objects and back, a plugin's /status of another release, and when certificates end."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import pytest

from gcushare.core.errors import RemoteContractError
from gcushare.wire.certificates import first_end
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS, PluginStatus
from gcushare.wire.objects import Event, Lease, LeaseSpec, ListOf, Node, ObjectMeta, Pod
from tests.extender_objects import on_card, pod_document
from tests.timing import assert_no_square
from tests.unit.certificates import certificate_pem
from tests.unit.status_documents import FIRST

T = TypeVar("T")
JsonObject = dict[str, Any]


def decode(kind: type[T], document: object) -> T:
    return msgspec.json.decode(json.dumps(document), type=kind)


def pod_json() -> JsonObject:
    """A pod as the API server sends it, with much that is not read here."""
    document = pod_document("train-1", node="node-1", record=on_card(3, 4), phase="Running", namespace="team-1")
    document["metadata"] |= {
        "resourceVersion": "500001",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train", "uid": "u"}],
        "managedFields": [{"manager": "m", "fieldsV1": {"f:metadata": {"f:annotations": {}}}}],
    }
    document["spec"] |= {"priority": 7, "initContainers": [{"name": "proxy", "restartPolicy": "Always", "image": "i"}]}
    document["status"]["containerStatuses"] = [{"name": "main", "containerID": "containerd://ab", "restartCount": 2}]
    return document


def test_a_pod_keeps_what_is_declared_and_skips_the_rest() -> None:
    pod = decode(Pod, pod_json())
    assert pod.key == "team-1/train-1"
    assert (pod.spec.node_name, pod.spec.priority, pod.status.phase) == ("node-1", 7, "Running")
    assert pod.spec.containers[0].resources.limits["enflame.com/gcu-memory"] == 4
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert pod.status.container_statuses[0].restart_count == 2
    assert pod.metadata.owner_references[0].kind == "ReplicaSet"


@pytest.mark.parametrize("quantity", ["4", "4Gi", 4, 4.5, -1, 10**18])
def test_a_quantity_stays_as_it_was_written(quantity: str | float) -> None:
    pod = decode(Pod, {"spec": {"containers": [{"resources": {"limits": {"enflame.com/gcu-memory": quantity}}}]}})
    kept = pod.spec.containers[0].resources.limits["enflame.com/gcu-memory"]
    assert kept == quantity
    assert type(kept) is type(quantity)


def test_a_node_answers_for_its_address_and_readiness() -> None:
    addresses = [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.5"}]
    conditions = [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}]
    node = decode(Node, {"status": {"addresses": addresses, "conditions": conditions}})
    assert (node.internal_ip, node.is_ready) == ("10.0.0.5", True)
    assert (decode(Node, {}).internal_ip, decode(Node, {}).is_ready) == (None, False)


@pytest.mark.parametrize(("items", "count"), [([{}, {}], 2), ([], 0), (None, 0)])
def test_a_list_may_be_empty_in_either_way_of_go(items: list[JsonObject] | None, count: int) -> None:
    page = decode(ListOf[Pod], {"metadata": {"resourceVersion": "5", "continue": "token"}, "items": items})
    assert (len(page.entries), page.metadata.continue_) == (count, "token")


def test_what_is_written_has_kubernetes_names_and_no_empty_fields() -> None:
    spec = LeaseSpec(holder_identity="", lease_duration_seconds=1, lease_transitions=0)
    lease = Lease(api_version="coordination.k8s.io/v1", kind="Lease", metadata=ObjectMeta(name="l"), spec=spec)
    assert json.loads(msgspec.json.encode(lease)) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l"},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 0},
    }
    assert msgspec.json.encode(Event(reason="x")) == b'{"reason":"x"}'


def parse(document: dict[str, Any]) -> PluginStatus:
    return PLUGIN_STATUS.read(json.dumps(document).encode())


def test_the_first_plugins_document_is_read() -> None:
    status = parse(FIRST)
    ((pod,), (card,)) = status.pods, status.cards
    assert (status.problems, pod.recorded_cards, pod.held_by_card) == ({"registration": "refused"}, None, {0: 4})
    assert (card.mode, card.holders, card.use, pod.cards, pod.whole) == ("", (), None, (), False)
    assert (status.driver, status.modes, status.foreign_containers, status.watch_age_seconds) == ("", (), 0, None)


@pytest.mark.parametrize("field", sorted(FIRST))
def test_a_document_without_what_every_plugin_reported_is_another_programs(field: str) -> None:
    with pytest.raises(RemoteContractError, match=f"a status of gcushare-device-plugin cannot be read: .*`{field}`"):
        parse({name: value for name, value in FIRST.items() if name != field})


IN_PEM = b"-----BEGIN CERTIFICATE-----\n%b\n-----END CERTIFICATE-----"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(datetime(2030, 2, 3, 4, 5, 6, tzinfo=UTC), id="UTCTime"),
        pytest.param(datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC), id="the last UTCTime"),
        pytest.param(datetime(2050, 1, 1, tzinfo=UTC), id="the first GeneralizedTime"),
    ],
)
def test_the_end_of_a_certificate_is_read_to_the_second(end: datetime) -> None:
    assert first_end(certificate_pem(end=end)) == end


def test_a_chain_ends_with_its_first_link() -> None:
    sooner, later = datetime(2030, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC)
    chain = certificate_pem(end=later, name="x" * 60) + b"text between\n" + certificate_pem(end=sooner)
    assert first_end(chain) == sooner


@pytest.mark.parametrize(
    ("pem", "words"),
    [
        pytest.param(b"", "no PEM certificate", id="empty"),
        pytest.param(b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----", "no PEM certificate", id="a key"),
        pytest.param(IN_PEM % b"!!", "no PEM certificate", id="no base64"),
        pytest.param(IN_PEM % b"A===", "not X.509", id="a wrong length"),
        pytest.param(IN_PEM % b"MAA=", "not X.509", id="an empty sequence"),
        pytest.param(IN_PEM % b"AgEB", "not X.509", id="a number"),
    ],
)
def test_what_is_no_certificate_is_refused(pem: bytes, words: str) -> None:
    with pytest.raises(RemoteContractError, match=words):
        first_end(pem)


def test_every_cut_of_a_certificate_is_refused() -> None:
    whole = certificate_pem(days=10)
    head, body, tail = whole.partition(b"\n")[0], b"".join(whole.splitlines()[1:-1]), whole.splitlines()[-1]
    for length in range(0, 120, 4):
        with pytest.raises(RemoteContractError):
            first_end(b"\n".join((head, body[:length], tail)))


@pytest.mark.parametrize("part", [b" ", b"-----BEGIN CERTIFICATE-----"])
def test_a_long_file_without_an_end_takes_no_more_time_than_its_length(part: bytes) -> None:
    def read(count: int) -> None:
        with pytest.raises(RemoteContractError, match="no PEM certificate"):
            first_end(b"-----BEGIN CERTIFICATE-----" + part * count)

    assert_no_square(read, 200)
