"""NVIDIA GPU, with the names of Aliyun's gpushare."""

from gcushare.vendors.vendor import (
    ClaimNames,
    DeviceNodes,
    EnvironmentNames,
    InspectForm,
    LibraryBinding,
    RecordKeys,
    Vendor,
)

VENDOR = Vendor(
    name="aliyun",
    device_word="GPU",
    kubectl_plugin="gpushare",
    memory_resource="aliyun.com/gpu-mem",
    count_resource="aliyun.com/gpu-count",
    pods_per_count=1000,  # pods that share a card request the count too: 1k per card on the Node admits all of them
    whole_card_resource="nvidia.com/gpu",
    node_label="gpushare=true",
    plugin_socket="aliyungpushare.sock",
    whole_card_socket="aliyungpu.sock",
    url_prefix="/gpushare-scheduler",
    library=LibraryBinding(name="nvml", module="gcushare.cards.nvidia.nvml"),
    claims=ClaimNames(
        driver="aliyun.gcushare.io",
        memory_class="gpu-mem.gcushare.io",
        whole_class="gpu.gcushare.io",
        template_prefix="gpu-mem",
        extender_resource="aliyun.gcushare.io/claimed-memory",
    ),
    inspect=InspectForm(cards="devs", is_detailed=False),
    record=RecordKeys(
        card_index="ALIYUN_COM_GPU_MEM_IDX",
        card_units="ALIYUN_COM_GPU_MEM_DEV",
        pod_units="ALIYUN_COM_GPU_MEM_POD",
        assigned="ALIYUN_COM_GPU_MEM_ASSIGNED",
        assign_time="ALIYUN_COM_GPU_MEM_ASSUME_TIME",
    ),
    environment=EnvironmentNames(
        visible="NVIDIA_VISIBLE_DEVICES",
        hidden="void",
        card_index="ALIYUN_COM_GPU_MEM_IDX",
        card_units="ALIYUN_COM_GPU_MEM_DEV",
        pod_units="ALIYUN_COM_GPU_MEM_POD",
        container_units="ALIYUN_COM_GPU_MEM_CONTAINER",
    ),
    device_nodes=DeviceNodes(
        card="/dev/nvidia{index}", control=("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
    ),
    cdi_kind="nvidia.com/gpu",
    refused_reason="insufficient GPU Memory in one device",
    refused_whole_reason="insufficient whole GPU cards",
    default_unit="GiB",
    auto_units=("GiB", "MiB"),
    inventory_annotation="gcushare.io/aliyun-inventory",
    cordon_annotation="gcushare.io/aliyun-cordoned-cards",
    visible_by_uuid=True,
    multi_card_runtime=True,
    # All cards, but only the driver capability to read their state.
    plugin_environment=(("NVIDIA_VISIBLE_DEVICES", "all"), ("NVIDIA_DRIVER_CAPABILITIES", "utility")),
    tool_namespaces=("gpu-operator", "nvidia-device-plugin", "nvidia-dra-driver-gpu", "nvidia-gpu-operator"),
    name_suffix="-aliyun",
)
