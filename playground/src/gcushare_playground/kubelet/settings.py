"""What one kubelet double is: its node, its folder, and how it orders and paces its work."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gcushare.core.errors import ConfigError
from gcushare.wire.protos import services
from gcushare_playground.kubelet.podspec import Pod

AdmissionOrder = Callable[[Sequence[Pod]], Sequence[Pod]]
"""Puts the pods of one batch into the order in which they are admitted."""

_SOCKET_PATH_BYTES = 107
"""What Linux accepts for a unix socket's path."""
_SOCKET_NAME_BYTES = 24
"""Enough for the file names of the plugins known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """Settings of one node. Times are in seconds.

    Raises:
        ConfigError: the root folder is too long for sockets.
    """

    node_name: str
    root_dir: Path
    """Stands for /var/lib/kubelet."""
    order: AdmissionOrder | None = None
    """None is ``shuffled(seed)``: on a stock kubelet, too, it is not the order of binding."""
    seed: int = 0
    batch_window_s: float = 0.02
    """How long the first new pod waits for others to be admitted with it."""
    termination_s: float = 0.05
    """How long the containers of a deleted pod go on; their ids are free afterwards."""
    status_interval_s: float = 1.0
    """How often the Node is read and brought up to date; a stock kubelet takes 10, or a change of devices."""
    start_retry_s: float = 1.0
    """Wait before a container whose plugin refused its start is tried again."""
    message_limit_bytes: int = services.KUBELET_RECEIVE_LIMIT_BYTES
    """The largest message it receives from a plugin; a constant of a real kubelet's build."""
    asks_preferred: bool = True
    """Whether it calls GetPreferredAllocation; kubelets before 1.19 pick any free ids."""
    podresources: bool = True
    """Whether the pod resources socket exists at all; kubelets before 1.20 have none."""
    machine: Mapping[str, str] = field(
        default_factory=lambda: {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "512Gi", "pods": "110"}
    )
    labels: Mapping[str, str] = field(default_factory=dict)
    host_ip: str = "127.0.0.1"
    version: str = "v1.36.2"

    def __post_init__(self) -> None:
        longest = self.plugin_dir / ("x" * _SOCKET_NAME_BYTES)
        if len(str(longest).encode()) > _SOCKET_PATH_BYTES:
            raise ConfigError(
                f"root folder {str(self.root_dir)!r} leaves no room for sockets, whose paths have at most "
                f"{_SOCKET_PATH_BYTES} bytes: use a shorter one"
            )

    @property
    def plugin_dir(self) -> Path:
        return self.root_dir / "device-plugins"

    @property
    def podresources_socket(self) -> Path:
        return self.root_dir / "pod-resources" / "kubelet.sock"


def shuffled(seed: int) -> AdmissionOrder:
    """Return an order that shuffles each batch, the same way for the same seed and arrivals."""
    rng = random.Random(seed)

    def order(pods: Sequence[Pod]) -> Sequence[Pod]:
        batch = sorted(pods, key=lambda pod: (pod.created, pod.full_name))
        rng.shuffle(batch)
        return batch

    return order
