"""The doctor's healthy cluster, made to serve claims: plugin, slices, DeviceClasses, policy; no scheduler calls us."""

from __future__ import annotations

import msgspec

from gcushare.core.cards import SERVES_CLAIMS, Inventory
from gcushare.core.units import parse_memory_unit
from gcushare.device_plugin.claims.slice_plan import SlicePlan
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import DEVICE_PLUGIN, SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.dra.slices import new_slice
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.objects import ObjectMeta
from gcushare_playground.apiserver.objects import JsonObject
from tests.api_objects import an_object
from tests.builders import cards
from tests.protocol.doctor_rig import EXTENDER, NODE, PLUGIN, SERVICE, SYSTEM, DoctorRig, program_pod, status

NAMES = ENFLAME.claims
DRIVER, SLICE, POLICY = "plugin-x", "slice-0", "gcushare-claims-enflame"
INVENTORY = Inventory(unit=parse_memory_unit("1"), cards=(*cards(16, 16),), modes=(SERVES_CLAIMS,))


def device_class(name: str, resource: str = "") -> JsonObject:
    spec = {"extendedResourceName": resource} if resource else {}
    return an_object("DeviceClass", name, spec=spec)


def serve_claims(rig: DoctorRig) -> None:
    """Have the node serve claims in place of resources; nothing is wrong then."""

    def change(node: JsonObject) -> None:
        node["metadata"]["labels"][SERVE_LABEL] = SERVE_CLAIMS
        node["metadata"]["annotations"][ENFLAME.inventory_annotation] = encode_inventory(INVENTORY)
        for part in ("capacity", "allocatable"):
            node["status"][part] = {"cpu": "64"}

    rig.change_node(change)
    rig.delete("pods", PLUGIN, SYSTEM)
    rig.delete("pods", EXTENDER, SYSTEM)
    rig.put_pod(program_pod(EXTENDER, SERVICE, rig.extender.port, "--claims", "--verbs=off", node="master"))
    rig.plugin.pages["/status"] = status(modes=[SERVES_CLAIMS])
    rig.put_pod(program_pod(DRIVER, DEVICE_PLUGIN, rig.plugin.port, "--vendor=enflame", node=NODE))
    spec = SlicePlan(ENFLAME, NODE).build(INVENTORY, (0, 1))
    rig.put(msgspec.to_builtins(new_slice(ObjectMeta(name=SLICE), spec)))
    rig.put(device_class(NAMES.memory_class))
    rig.put(device_class(NAMES.whole_class, ENFLAME.whole_card_resource))
    mutations = [f"gcushare-{NAMES.template_prefix}"]
    rig.put(an_object("MutatingAdmissionPolicy", POLICY, spec={"mutations": mutations}))
    rig.put(an_object("MutatingAdmissionPolicyBinding", POLICY, spec={"policyName": POLICY}))
