"""The checkpoint of claims: a file next to the socket of their driver with those that are prepared on the node."""

from __future__ import annotations

from msgspec import field

from gcushare.wire.dra.claims import ConsumerReference, ResourceClaim
from gcushare.wire.objects import KubeObject
from gcushare.wire.untrusted_json import MAX_DEPTH, BoundedJsonDecoder, Count, Int

CHECKPOINT_NAME = "checkpoint.json"
CHECKPOINT_VERSION = 1
MAX_CHECKPOINT_BYTES = 8 * 1024 * 1024
"""Some 5,000 claims; a node runs hundreds of pods."""


class PreparedDevice(KubeObject, frozen=True):
    """One device that a claim holds: ``memory_bytes`` of a card; ``whole`` if the claim asked for the whole card."""

    request: str
    device: str
    index: Count
    memory_bytes: Count = 0
    whole: bool = False
    share_id: str | None = None


class ContainerEdits(KubeObject, frozen=True):
    """What a container of the claim gets: variables, device nodes, and paths of the host, mounted read-only.

    ``folders`` are folders of the host that it may write, by their path in the container.
    """

    variables: dict[str, str] = field(default_factory=dict)
    device_nodes: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    folders: dict[str, str] = field(default_factory=dict)


class PreparedClaim(KubeObject, frozen=True):
    """A claim that is being prepared, or is prepared if ``is_complete``.

    ``cdi_names`` are devices of other CDI specifications that its containers get in addition to ours. ``users``: the
    pods that it is reserved for, as far as is known. ``prepared_s``: when, in seconds since the epoch.
    """

    uid: str
    namespace: str
    name: str
    devices: tuple[PreparedDevice, ...]
    edits: ContainerEdits = ContainerEdits()
    cdi_names: tuple[str, ...] = ()
    is_complete: bool = False
    users: tuple[ConsumerReference, ...] = ()
    prepared_s: float = 0.0

    @property
    def key(self) -> str:
        """``namespace/name``, for messages."""
        return f"{self.namespace}/{self.name}"


def users_of(claim: ResourceClaim) -> tuple[ConsumerReference, ...]:
    """The pods that a claim is reserved for: no other pod may use it, whatever its spec names."""
    return tuple(each for each in claim.status.reserved_for if each.resource == "pods")


class Checkpoint(KubeObject, frozen=True):
    """The file: the claims by uid. The driver reads only its own ``version``."""

    version: Int
    claims: dict[str, PreparedClaim] = field(default_factory=dict)


CHECKPOINT = BoundedJsonDecoder(
    Checkpoint, "the checkpoint of prepared claims", limit_bytes=MAX_CHECKPOINT_BYTES, max_depth=MAX_DEPTH
)
