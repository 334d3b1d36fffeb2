"""Keep the node's ResourceSlices as they should be, also after others change them.

The kubelet deletes all slices of its node when it starts, and a driver's when that has been away for a while; the watch
brings that here and they are written again. All slices of a pool carry one generation, and a reader uses none of them
until it has all of the newest: so they are written together, and only if what they say changes.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gcushare.core.errors import NotFoundError
from gcushare.core.log_fields import fields
from gcushare.device_plugin.publishing import Publisher
from gcushare.kube.client import KubeClient
from gcushare.kube.collections import ObjectCache
from gcushare.kube.errors import AlreadyExistsError
from gcushare.kube.patches import Patch, PatchKind, Precondition
from gcushare.kube.resources import RESOURCE_SLICES
from gcushare.wire.dra.slices import ResourceSlice, SliceSpec, new_slice
from gcushare.wire.objects import ObjectMeta, OwnerReference

logger = logging.getLogger(__name__)

_MAX_GENERATION = 2**63 - 1
"""Kubernetes' type has no larger one. Only another program with the driver's rights can have written it."""
_MAX_NODE_CHARS = 180
"""Of a node's name in a slice's: names may have 253 characters in all."""


@dataclass(frozen=True, slots=True)
class SliceWrites:
    """What has to be written: each list by name. ``generation`` is that of all slices then."""

    generation: int
    creates: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    deletes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.creates or self.updates or self.deletes)


def slice_name(node: str, driver: str, number: int, salt: str = "") -> str:
    """The name of a node's slice; slices sort by their number. A long node name is cut, and a hash keeps it unique.

    ``salt`` is added if a slice of another node has the name already.
    """
    if len(node) > _MAX_NODE_CHARS:
        node = f"{node[:_MAX_NODE_CHARS].rstrip('-.')}-{hashlib.sha256(node.encode()).hexdigest()[:10]}"
    return f"{node}-{driver}{salt}-{number:02d}"


def plan_writes(wanted: Mapping[str, SliceSpec], known: Mapping[str, ResourceSlice]) -> SliceWrites:
    """Compare the wanted slices with the existing ones; both by the slice's name."""
    newest = max((each.spec.pool.generation for each in known.values()), default=0)
    deletes = tuple(sorted(known.keys() - wanted.keys()))
    as_known = {name: _with_generation(spec, newest) for name, spec in wanted.items()}
    if not deletes and as_known == {name: each.spec for name, each in known.items()}:
        return SliceWrites(newest)
    return SliceWrites(
        newest + 1 if newest < _MAX_GENERATION else 1,  # Kubernetes allows a driver to begin again.
        creates=tuple(sorted(wanted.keys() - known.keys())),
        updates=tuple(sorted(wanted.keys() & known.keys())),
        deletes=deletes,
    )


class SlicePublisher(Publisher):
    """Writes one driver's slices of one node; a handler of the watch of those slices."""

    def __init__(self, client: KubeClient, driver: str, node: str, rng: random.Random) -> None:
        super().__init__(rng, "slices", "the ResourceSlices could not be written")
        self._client = client
        self._driver = driver
        self._node = node
        self._owner: tuple[OwnerReference, ...] = ()
        self._wanted: dict[str, SliceSpec] | None = None
        self._rng = rng
        self._salt = ""
        self._slices: ObjectCache[ResourceSlice] = ObjectCache(lambda _before, _after: self._wake.set())
        self._is_listed = False

    @property
    def _known(self) -> dict[str, ResourceSlice]:
        """The slices that exist, by name."""
        return {each.metadata.name: each for each in self._slices.objects.values()}

    @property
    def published(self) -> int:
        """Slices that exist now."""
        return len(self._slices.objects)

    @property
    def is_current(self) -> bool:
        """Whether the slices say what they should."""
        return self._wanted is not None and self._is_listed and not plan_writes(self._wanted, self._known)

    def publish(self, specs: Sequence[SliceSpec], node_uid: str) -> None:
        """Write these slices and delete all others of ours; the Node of this uid owns them."""
        self._wanted = self._named(specs)
        self._owner = (OwnerReference(api_version="v1", kind="Node", name=self._node, uid=node_uid),)
        self._wake.set()

    def hold(self) -> None:
        """Leave the slices as others have them, until some are to be published again."""
        self._wanted = None

    def applied(self, obj: ResourceSlice) -> None:
        """Store a slice's newest state."""
        self._slices.applied(obj)

    def deleted(self, obj: ResourceSlice) -> None:
        """Remove a slice that is gone."""
        self._slices.deleted(obj)

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every slice that a full list lacks."""
        self._slices.retained(uids, version)
        self._is_listed = True
        self._wake.set()

    async def _write_changes(self) -> bool:
        wanted = self._wanted
        if wanted is None or not self._is_listed:
            return False
        known = self._known
        writes = plan_writes(wanted, known)
        if not writes:
            return False
        for name in writes.updates:
            spec = _with_generation(wanted[name], writes.generation)
            try:
                # A merge patch: lists are replaced whole, and the version keeps a second driver from being overwritten.
                version = Precondition(resource_version=known[name].metadata.resource_version)
                body = {"devices": [], "sharedCounters": [], **msgspec.to_builtins(spec)}
                merged = {key: None if value == [] else value for key, value in body.items()}
                patch = Patch(PatchKind.MERGE, {"metadata": version.metadata(), "spec": merged})
                self._slices.answered(await self._client.patch(RESOURCE_SLICES, name, patch))
            except NotFoundError:
                self._slices.deleted(known[name])
                self._slices.answered(await self._create(name, spec))
        for name in writes.creates:
            self._slices.answered(await self._create(name, _with_generation(wanted[name], writes.generation)))
        for name in writes.deletes:
            try:
                await self._client.delete(RESOURCE_SLICES, name, precondition=Precondition(known[name].metadata.uid))
            except NotFoundError:
                logger.debug("a slice to delete was gone already %s", fields(slice=name))
            self._slices.deleted(known[name])
        # An answer may have come after the end of its slice, which nothing else will report.
        self._wake.set()
        logger.info(
            "published the slices %s",
            fields(slices=len(wanted), generation=writes.generation, deleted=len(writes.deletes)),
        )
        return True

    async def _create(self, name: str, spec: SliceSpec) -> ResourceSlice:
        metadata = ObjectMeta(name=name, owner_references=self._owner)
        try:
            return await self._client.create(RESOURCE_SLICES, new_slice(metadata, spec))
        except AlreadyExistsError:
            # Any node may create slices of any name for itself: without another name it could hide our cards.
            self._salt = f"-{self._rng.getrandbits(32):08x}"
            if self._wanted is not None:
                self._wanted = self._named(tuple(self._wanted.values()))
            raise

    def _named(self, specs: Sequence[SliceSpec]) -> dict[str, SliceSpec]:
        return {slice_name(self._node, self._driver, number, self._salt): spec for number, spec in enumerate(specs)}


def _with_generation(spec: SliceSpec, generation: int) -> SliceSpec:
    return msgspec.structs.replace(spec, pool=msgspec.structs.replace(spec.pool, generation=generation))
