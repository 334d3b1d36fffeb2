"""Enflame GCU, with the names of the GCUShare manual."""

from gcushare.vendors.vendor import ClaimNames, DeviceNodes, EnvironmentNames, LibraryBinding, RecordKeys, Vendor

VENDOR = Vendor(
    name="enflame",
    device_word="GCU",
    kubectl_plugin="gcushare",
    memory_resource="enflame.com/gcu-memory",
    count_resource="enflame.com/gcu-count",
    pods_per_count=1,  # the manual shows the plain number of cards, and its pods do not request the count
    whole_card_resource="enflame.com/gcu",
    node_label="enflame.com/gcushare=true",
    plugin_socket="enflamegcushare.sock",
    whole_card_socket="enflamegcu.sock",
    url_prefix="/gcushare-scheduler",
    library=LibraryBinding(name="efml", module="gcushare.cards.enflame.efml"),
    claims=ClaimNames(
        driver="enflame.gcushare.io",
        memory_class="gcu-memory.gcushare.io",
        whole_class="gcu.gcushare.io",
        template_prefix="gcu-memory",
        extender_resource="enflame.gcushare.io/claimed-memory",
    ),
    record=RecordKeys(
        card_index="enflame.com/gcu-device-id",
        card_units="enflame.com/gcu-device-memory",
        pod_units="enflame.com/gcu-device-memory-request",
        assigned="enflame.com/gcu-device-assigned",
        assign_time="enflame.com/gcu-device-assign-time",
    ),
    environment=EnvironmentNames(
        visible="ENFLAME_VISIBLE_DEVICES",
        card_index="ENFLAME_COM_GCU_MEM_IDX",
        card_units="ENFLAME_COM_GCU_MEM_DEV",
        pod_units="ENFLAME_COM_GCU_MEM_POD",
        container_units="ENFLAME_COM_GCU_MEM_CONTAINER",
    ),
    device_nodes=DeviceNodes(card="/dev/gcu{index}", control=("/dev/gcuctl",)),
    cdi_kind="enflame.com/gcu",
    refused_reason="insufficient GCU Memory in one gcu device",
    refused_whole_reason="insufficient whole GCU cards",
    default_unit="1",
    auto_units=("1", "0.1", "0.01", "0.001"),
    inventory_annotation="gcushare.io/enflame-inventory",
    cordon_annotation="gcushare.io/enflame-cordoned-cards",
    visible_by_uuid=False,
    multi_card_runtime=True,
    plugin_environment=(("ENFLAME_VISIBLE_DEVICES", "all"),),
    name_suffix="",
)
