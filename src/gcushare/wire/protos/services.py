"""Full gRPC method names of the kubelet's APIs, written out so that a search finds them."""

from __future__ import annotations

from typing import Final

DEVICE_PLUGIN_VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"

REGISTRATION_SERVICE: Final = "v1beta1.Registration"
REGISTER: Final = "/v1beta1.Registration/Register"

DEVICE_PLUGIN_SERVICE: Final = "v1beta1.DevicePlugin"
GET_DEVICE_PLUGIN_OPTIONS: Final = "/v1beta1.DevicePlugin/GetDevicePluginOptions"
LIST_AND_WATCH: Final = "/v1beta1.DevicePlugin/ListAndWatch"
GET_PREFERRED_ALLOCATION: Final = "/v1beta1.DevicePlugin/GetPreferredAllocation"
ALLOCATE: Final = "/v1beta1.DevicePlugin/Allocate"
PRE_START_CONTAINER: Final = "/v1beta1.DevicePlugin/PreStartContainer"

POD_RESOURCES_SERVICE: Final = "v1.PodResourcesLister"
POD_RESOURCES_LIST: Final = "/v1.PodResourcesLister/List"
POD_RESOURCES_GET_ALLOCATABLE: Final = "/v1.PodResourcesLister/GetAllocatableResources"
POD_RESOURCES_GET: Final = "/v1.PodResourcesLister/Get"

PLUGIN_REGISTRATION_SERVICE: Final = "pluginregistration.Registration"
GET_INFO: Final = "/pluginregistration.Registration/GetInfo"
NOTIFY_REGISTRATION_STATUS: Final = "/pluginregistration.Registration/NotifyRegistrationStatus"
DRA_PLUGIN_TYPE: Final = "DRAPlugin"

DRA_SERVICES: Final = {
    "v1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    "v1beta1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
}
"""Services of a DRA driver, the preferred one first: the name in a registration, and the gRPC service name."""
NODE_PREPARE_RESOURCES: Final = "NodePrepareResources"
NODE_UNPREPARE_RESOURCES: Final = "NodeUnprepareResources"
DRA_HEALTH_SERVICE: Final = "v1alpha1.DRAResourceHealth"
NODE_WATCH_RESOURCES: Final = "/v1alpha1.DRAResourceHealth/NodeWatchResources"

KUBELET_RECEIVE_LIMIT_BYTES: Final = 4_194_304
"""The largest message that a released kubelet accepts from a plugin: gRPC's default."""

POD_RESOURCES_ANSWER_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""The largest answer that the kubelet's own client of the pod resources API accepts, and so does ours."""


def short_name(method: str) -> str:
    """Return the last part of a full method name, the key under which gRPC's generic handlers expect it."""
    return method.rpartition("/")[2]
