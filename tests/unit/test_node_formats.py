"""What a node keeps and says on the wire: as it was recorded, and read only where it can be trusted."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.cards import (
    BOTH_MODES,
    SERVES_CLAIMS,
    SERVES_MEMORY,
    Closure,
    Health,
    Inventory,
    InventoryCard,
    LeftOutCard,
    UnrecordedHolder,
)
from gcushare.core.errors import RemoteContractError
from gcushare.core.units import GIB, MEMORY_UNITS, parse_memory_unit
from gcushare.device_plugin.claims.claim_files import CheckpointFile, ClaimCdiFiles
from gcushare.device_plugin.claims.registration import Registration
from gcushare.device_plugin.kubelet.checkpoint import read_checkpoint
from gcushare.device_plugin.kubelet.sockets import UnixSockets
from gcushare.device_plugin.plugin_settings import KubeletSettings
from gcushare.runtime.health import Heartbeat
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS
from gcushare.wire.dra.checkpoint import ContainerEdits, PreparedClaim, PreparedDevice
from gcushare.wire.dra.claims import ConsumerReference
from gcushare.wire.nodes import MAX_UNRECORDED, decode_inventory, encode_inventory, node_cards
from gcushare.wire.protos import deviceplugin_pb2, plugin_registration_pb2, services
from tests.builders import cards, inventory, present

RECORDED = Path(__file__).parents[1] / "recorded" / "node"
CLAIM = PreparedClaim(
    uid="5f1c0c6e-1d0b-4f6e-9a57-0d6f5b1b6c11",
    namespace="default",
    name="c",
    devices=(PreparedDevice("card", "card-1", 1, 4 * GIB, share_id="b" * 36),),
    edits=ContainerEdits({"ENFLAME_VISIBLE_DEVICES": "1"}, ("/dev/gcu1",), ("/usr/lib/libefml.so",), {"/in": "/out"}),
    cdi_names=("enflame.com/gcu=1",),
    is_complete=True,
    users=(ConsumerReference(resource="pods", name="p", uid="u"),),
    prepared_s=1.5,
)


def recorded(name: str) -> bytes:
    return (RECORDED / name).read_bytes()


def test_the_checkpoint_of_claims(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path)
    file.write({CLAIM.uid: CLAIM})
    assert file.path.name == "checkpoint.json"
    assert file.path.read_bytes() == recorded("claims-checkpoint.json")
    assert file.read() == {CLAIM.uid: CLAIM}


def test_the_cdi_file_of_a_claim(tmp_path: Path) -> None:
    ClaimCdiFiles(tmp_path, ENFLAME.claims.driver).write(CLAIM)
    (path,) = tmp_path.iterdir()
    assert path.name == f"enflame.gcushare.io-claim-{CLAIM.uid}.json"
    assert path.read_bytes() == recorded("claim-cdi.json")


def test_the_kubelets_checkpoint() -> None:
    """A kubelet 1.36's, with a pod that shares card 1 and one that has card 0 whole."""
    found = read_checkpoint(RECORDED / "kubelet_internal_checkpoint", ENFLAME.memory_resource, "enflame.com/gcu")
    assert found.memory == {"pod-1": {"main": {1: 4}}}
    assert found.whole == {"pod-2": {"main": {0: 1}}}


@pytest.mark.parametrize("mode", [SERVES_MEMORY, SERVES_CLAIMS])
def test_the_inventory_annotation(mode: str) -> None:
    offered = Inventory(unit=parse_memory_unit("1"), cards=(*cards(16, 8),), modes=(mode,))
    assert encode_inventory(offered) == recorded(f"inventory-{mode}.json").decode()
    assert all(vendor.inventory_annotation == f"gcushare.io/{vendor.name}-inventory" for vendor in VENDORS)


def test_the_sockets_below_the_kubelets_directory() -> None:
    found = KubeletSettings(kubelet_dir=Path("/k"))
    assert str(found.pod_resources_socket) == "/k/pod-resources/kubelet.sock"
    names = [
        [str(found.device_plugin_dir / name) for name in (vendor.plugin_socket, vendor.whole_card_socket)]
        for vendor in (ENFLAME, ALIYUN)
    ]
    assert names == json.loads(recorded("sockets.json"))
    assert str(found.driver_dir("enflame.gcushare.io")) == "/k/plugins/enflame.gcushare.io"
    assert str(found.plugins_registry) == "/k/plugins_registry"


async def test_the_registration_as_a_device_plugin(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def take(request: bytes, _context: object) -> bytes:
        seen.append(request)
        return b""

    service, method = services.REGISTER.strip("/").split("/")
    handler = grpc.method_handlers_generic_handler(service, {method: grpc.unary_unary_rpc_method_handler(take)})
    server, socket = grpc.aio.server(), tmp_path / "kubelet.sock"
    server.add_generic_rpc_handlers((handler,))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    await UnixSockets().register(socket, ENFLAME.memory_resource, ENFLAME.plugin_socket, pre_start=True)
    await server.stop(None)
    wanted = deviceplugin_pb2.RegisterRequest(
        version="v1beta1", endpoint=ENFLAME.plugin_socket, resource_name="enflame.com/gcu-memory"
    )
    wanted.options.get_preferred_allocation_available = wanted.options.pre_start_required = True
    assert seen == [wanted.SerializeToString()]


async def test_the_registration_as_a_driver_of_claims(tmp_path: Path) -> None:
    socket = tmp_path / "dra.sock"
    registration = Registration(
        "enflame.gcushare.io",
        socket=socket,
        registry_socket=tmp_path / "r.sock",
        handler=grpc.method_handlers_generic_handler("d", {}),
        pulse=Heartbeat("r", 60),
    )
    found = plugin_registration_pb2.PluginInfo.FromString(await registration._get_info(b"", None))
    assert (found.type, found.name, found.endpoint) == ("DRAPlugin", "enflame.gcushare.io", str(socket))
    assert list(found.supported_versions) == ["v1.DRAPlugin"]


CARDS = st.builds(
    InventoryCard,
    index=st.integers(0, 15),
    uuid=st.text(max_size=20),
    memory_bytes=st.integers(0, 1 << 40),
    model=st.text(max_size=10),
    numa_node=st.none() | st.integers(0, 7),
    limit_problem=st.text(max_size=9),
    units=st.integers(0, 8_836 * 2),
    reserved_units=st.integers(0, 100),
    health=st.sampled_from(Health),
    reason=st.text(max_size=20),
    cordoned=st.booleans(),
    closures=st.lists(
        st.builds(Closure, use=st.sampled_from(BOTH_MODES), pod=st.text(max_size=9), until=st.integers(0, 2**40)),
        max_size=2,
    ).map(tuple),
)
HOLDERS = st.builds(
    UnrecordedHolder,
    pod=st.text(max_size=20),
    units=st.dictionaries(st.integers(0, 15), st.integers(0, 10**6)),
    whole=st.lists(st.integers(0, 15), unique=True).map(lambda cards: tuple(sorted(cards))),
)
INVENTORIES = st.builds(
    Inventory,
    unit=st.sampled_from(MEMORY_UNITS),
    cards=st.lists(CARDS, max_size=8, unique_by=lambda card: card.index).map(
        lambda cards: tuple(sorted(cards, key=lambda card: card.index))
    ),
    driver=st.text(max_size=10),
    left_out=st.lists(st.builds(LeftOutCard, index=st.integers(0, 9), uuid=st.text(), reason=st.text())).map(tuple),
    unrecorded=st.lists(HOLDERS, max_size=3, unique_by=lambda holder: holder.pod).map(
        lambda holders: tuple(sorted(holders, key=lambda holder: holder.pod))
    ),
)


TWO_CARDS = encode_inventory(inventory(16, 16))


def card_of(index: int, units: int) -> dict[str, object]:
    return {"index": index, "uuid": f"u{index}", "memory": 1, "units": units}


def counted(memory: str, count: str) -> dict[str, object]:
    return {ENFLAME.memory_resource: memory, ENFLAME.count_resource: count}


@pytest.mark.slow
@given(INVENTORIES)
def test_an_inventory_survives_the_way_through_the_annotation(drawn: Inventory) -> None:
    assert decode_inventory(encode_inventory(drawn)) == drawn


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 2}, "version 2; this program knows 1"),
        ({"unit": "GB"}, "memory unit 'GB' is not known"),
        ({"cards": "many"}, "cannot be read"),
        ({"cards": [{"index": 0, "uuid": "a", "memory": 1, "units": 1}] * 2}, "names cards twice"),
        ({"cards": [{"index": 16, "uuid": "a", "memory": 1, "units": 1}]}, r"<= 15 - at `\$\.cards\[0\]\.index`"),
        ({"cards": [card_of(0, 3_958_496)]}, "beyond a node's limits"),
        ({"cards": [card_of(0, 3_000_000), card_of(1, 2_000_000)]}, "beyond a node's limits: 2 cards with 5000000"),
        ({"cards": [card_of(index % 16, 1) for index in range(17)]}, "length <= 16"),
        ({"leftOut": [{"index": 0, "uuid": "", "reason": ""}] * 1025}, "length <= 1024"),
        ({"cards": [{"index": 0, "uuid": "a", "memory": 1, "units": 1, "health": "Odd"}]}, "Invalid enum value 'Odd'"),
        ({"unrecorded": [{"pod": "x", "units": {"-1": 4}}]}, r"Expected .*unrecorded\[0\]"),
        ({"unrecorded": [{"pod": "x", "units": {}, "whole": [-1]}]}, r"Expected .*unrecorded\[0\]"),
        ({"unrecorded": [{"pod": "x", "units": {}}] * (MAX_UNRECORDED + 1)}, f"length <= {MAX_UNRECORDED}"),
    ],
)
def test_a_document_that_cannot_be_trusted_is_refused(change: dict[str, object], why: str) -> None:
    document = {"version": 1, "unit": "GiB", "cards": [], **change}
    with pytest.raises(RemoteContractError, match=why):
        decode_inventory(json.dumps(document))


def test_whole_cards_alone_are_not_bound_by_what_the_kubelet_is_sent_of_memory_units() -> None:
    text = json.dumps({"version": 1, "unit": "0.001", "cards": [card_of(7, 48_000)], "modes": ["whole"]})
    assert decode_inventory(text).total_units == 48_000


def test_fields_of_a_newer_plugin_are_skipped() -> None:
    assert decode_inventory('{"version":1,"unit":"GiB","cards":[],"colour":"red"}').cards == ()


@pytest.mark.parametrize(
    ("words", "is_cordoned"), [("1", True), ("uuid-1", True), (" 1 , 7", True), ("uuid-1,uuid-1", True), ("", False)]
)
def test_a_card_is_cordoned_by_index_or_uuid(words: str, is_cordoned: bool) -> None:
    found = node_cards(ENFLAME, {ENFLAME.inventory_annotation: TWO_CARDS, ENFLAME.cordon_annotation: words}, {})
    assert found is not None
    assert [card.is_usable for card in found.cards] == [True, not is_cordoned]


@pytest.mark.parametrize("count", ["8", "8k"])
def test_a_node_without_inventory_is_divided_equally_as_upstream_does(count: str) -> None:
    found = present(node_cards(ENFLAME, {}, counted("128", count)))
    assert ([card.units for card in found.cards], found.unit) == ([16] * 8, None)


@pytest.mark.parametrize("capacity", [{}, counted("0", "8"), {"cpu": "4"}])
def test_a_node_without_cards_is_none_of_ours(capacity: dict[str, object]) -> None:
    assert node_cards(ENFLAME, {}, capacity) is None


@pytest.mark.parametrize(
    ("memory", "count", "named"),
    [(str(2**63 - 1), "8", f"memory {2**63 - 1}"), ("4", "1000000000", "count 1000000000")],
)
def test_what_another_system_claims_counts_within_reason(memory: str, count: str, named: str) -> None:
    with pytest.raises(RemoteContractError, match=f"gcu-{named}.* is not accepted"):
        node_cards(ENFLAME, {}, counted(memory, count))


def test_a_plugin_of_before_is_read_as_it_was() -> None:
    assert "closed" not in TWO_CARDS
    assert "unrecorded" not in TWO_CARDS
