"""A third vendor as somebody adds it: this file goes into ``gcushare.vendors``, the library into ``gcushare.cards``."""

from __future__ import annotations

from gcushare.vendors.vendor import ClaimNames, DeviceNodes, EnvironmentNames, LibraryBinding, RecordKeys, Vendor

VENDOR = Vendor(
    name="acme",
    device_word="NPU",
    kubectl_plugin="npushare",
    memory_resource="acme.example/npu-memory",
    count_resource="acme.example/npu-count",
    pods_per_count=1,
    whole_card_resource="acme.example/npu",
    node_label="acme.example/npushare=true",
    plugin_socket="acmenpushare.sock",
    whole_card_socket="acmenpu.sock",
    url_prefix="/npushare-scheduler",
    library=LibraryBinding(name="acmeml", module="gcushare.cards.acme_library"),
    claims=ClaimNames(
        driver="acme.gcushare.io",
        memory_class="npu-memory.gcushare.io",
        whole_class="npu.gcushare.io",
        template_prefix="npu-memory",
        extender_resource="acme.gcushare.io/claimed-memory",
    ),
    record=RecordKeys(
        card_index="acme.example/npu-index",
        card_units="acme.example/npu-units",
        pod_units="acme.example/npu-pod-units",
        assigned="acme.example/npu-assigned",
        assign_time="acme.example/npu-assign-time",
    ),
    environment=EnvironmentNames(
        visible="ACME_VISIBLE_DEVICES",
        card_index="ACME_NPU_INDEX",
        card_units="ACME_NPU_UNITS",
        pod_units="ACME_NPU_POD_UNITS",
        container_units="ACME_NPU_CONTAINER_UNITS",
    ),
    device_nodes=DeviceNodes(card="/dev/npu{index}", control=("/dev/npuctl",)),
    cdi_kind="acme.example/npu",
    refused_reason="insufficient NPU memory in one card",
    refused_whole_reason="insufficient whole NPU cards",
    default_unit="GiB",
    auto_units=("GiB", "MiB"),
    inventory_annotation="gcushare.io/acme-inventory",
    cordon_annotation="gcushare.io/acme-cordoned-cards",
    visible_by_uuid=True,
    multi_card_runtime=False,
    plugin_environment=(("ACME_VISIBLE_DEVICES", "all"),),
    name_suffix="-acme",
)
