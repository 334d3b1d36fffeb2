"""The kubelet's gRPC APIs: full method names, written out so that a search finds them, limits, and message readers."""

from __future__ import annotations

from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from gcushare.core.errors import RemoteContractError

M = TypeVar("M", bound=Message)

DEVICE_PLUGIN_VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"

REGISTRATION_SERVICE: Final = "v1beta1.Registration"
REGISTER: Final = "/v1beta1.Registration/Register"

GET_DEVICE_PLUGIN_OPTIONS: Final = "/v1beta1.DevicePlugin/GetDevicePluginOptions"
LIST_AND_WATCH: Final = "/v1beta1.DevicePlugin/ListAndWatch"
GET_PREFERRED_ALLOCATION: Final = "/v1beta1.DevicePlugin/GetPreferredAllocation"
ALLOCATE: Final = "/v1beta1.DevicePlugin/Allocate"
PRE_START_CONTAINER: Final = "/v1beta1.DevicePlugin/PreStartContainer"

POD_RESOURCES_SERVICE: Final = "v1.PodResourcesLister"
POD_RESOURCES_LIST: Final = "/v1.PodResourcesLister/List"

PLUGIN_REGISTRATION_SERVICE: Final = "pluginregistration.Registration"
GET_INFO: Final = "/pluginregistration.Registration/GetInfo"
NOTIFY_REGISTRATION_STATUS: Final = "/pluginregistration.Registration/NotifyRegistrationStatus"
DRA_PLUGIN_TYPE: Final = "DRAPlugin"

DRA_VERSION: Final = "v1.DRAPlugin"
"""The service of a DRA driver as its registration names it."""
DRA_SERVICE: Final = "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin"
NODE_PREPARE_RESOURCES: Final = "NodePrepareResources"
NODE_UNPREPARE_RESOURCES: Final = "NodeUnprepareResources"

KUBELET_RECEIVE_LIMIT_BYTES: Final = 4_194_304
"""The largest message that a released kubelet accepts from a plugin: gRPC's default."""

POD_RESOURCES_ANSWER_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""The largest answer that the kubelet's own client of the pod resources API accepts, and so does ours."""


def short_name(method: str) -> str:
    """Return the last part of a full method name, the key under which gRPC's generic handlers expect it."""
    return method.rpartition("/")[2]


def read_message(kind: type[M], body: bytes) -> M:
    """Read a message of this kind.

    Raises:
        RemoteContractError: the bytes are not such a message.
    """
    message = kind()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise RemoteContractError(f"the kubelet's {kind.__name__} cannot be read: {error}") from error
    return message


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Read a number before ``end``; returns it and the position after it.

    Raises:
        RemoteContractError: it does not end there, or has more than 64 bits.
    """
    value = shift = 0
    while position < end and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise RemoteContractError(f"the kubelet's message has a broken number at byte {position}")
