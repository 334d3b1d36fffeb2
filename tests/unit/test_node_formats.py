"""What a node keeps and says on the wire stays as it was recorded: files, annotations, sockets and their messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import grpc
import grpc.aio
import pytest

from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY, Inventory
from gcushare.core.units import GIB, parse_memory_unit
from gcushare.device_plugin.claims.claim_files import CheckpointFile, ClaimCdiFiles
from gcushare.device_plugin.claims.registration import Registration
from gcushare.device_plugin.kubelet.checkpoint import read_checkpoint
from gcushare.device_plugin.kubelet.sockets import UnixSockets
from gcushare.device_plugin.plugin_settings import KubeletSettings
from gcushare.runtime.health import Heartbeat
from gcushare.vendors import ALIYUN, ENFLAME, VENDORS
from gcushare.wire.dra.checkpoint import ContainerEdits, PreparedClaim, PreparedDevice
from gcushare.wire.dra.claims import ConsumerReference
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.protos import deviceplugin_pb2, plugin_registration_pb2, services
from tests.builders import cards

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
    files = ClaimCdiFiles(tmp_path, ENFLAME.claims.driver)
    files.write(CLAIM)
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
    inventory = Inventory(unit=parse_memory_unit("1"), cards=(*cards(16, 8),), modes=(mode,))
    assert encode_inventory(inventory) == recorded(f"inventory-{mode}.json").decode()
    assert [vendor.inventory_annotation for vendor in VENDORS] == [
        "gcushare.io/enflame-inventory",
        "gcushare.io/aliyun-inventory",
    ]


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


async def _serve(socket: Path, service: str, method: str, answer: Callable[[bytes], bytes]) -> grpc.aio.Server:
    async def handle(request: bytes, _context: object) -> bytes:
        return answer(request)

    server = grpc.aio.server()
    calls = {method: grpc.unary_unary_rpc_method_handler(handle)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, calls),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    return server


async def test_the_registration_as_a_device_plugin(tmp_path: Path) -> None:
    seen: list[bytes] = []

    def answer(request: bytes) -> bytes:
        seen.append(request)
        return b""

    service, method = services.REGISTER.strip("/").split("/")
    server = await _serve(tmp_path / "kubelet.sock", service, method, answer)
    try:
        await UnixSockets().register(
            tmp_path / "kubelet.sock", ENFLAME.memory_resource, ENFLAME.plugin_socket, pre_start=True
        )
    finally:
        await server.stop(None)
    wanted = deviceplugin_pb2.RegisterRequest(
        version="v1beta1", endpoint=ENFLAME.plugin_socket, resource_name="enflame.com/gcu-memory"
    )
    wanted.options.get_preferred_allocation_available = True
    wanted.options.pre_start_required = True
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
