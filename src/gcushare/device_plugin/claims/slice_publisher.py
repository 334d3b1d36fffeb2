"""Keep the node's ResourceSlice as it should be, also after others change it.

The kubelet deletes all slices of its node when it starts, and a driver's when that has been away for a while; the watch
brings that here and the slice is written again. One slice holds all cards, so no reader sees half of a change.
"""

from __future__ import annotations

import logging
import random

import msgspec

from gcushare.core.errors import NotFoundError
from gcushare.core.log_fields import fields
from gcushare.device_plugin.publishing import Publisher
from gcushare.kube.client import KubeClient
from gcushare.kube.collections import ObjectCache
from gcushare.kube.patches import Patch, PatchKind, Precondition
from gcushare.kube.resources import RESOURCE_SLICES
from gcushare.wire.dra.slices import ResourceSlice, SliceSpec, new_slice
from gcushare.wire.objects import ObjectMeta, OwnerReference

logger = logging.getLogger(__name__)

_MAX_NODE_CHARS = 180
"""Of a node's name in its slice's: names may have 253 characters in all."""


class SlicePublisher(Publisher):
    """Writes one driver's slice of one node; a handler of the watch of those slices."""

    def __init__(self, client: KubeClient, driver: str, node: str, rng: random.Random) -> None:
        super().__init__(rng, "slice", "the ResourceSlice could not be written")
        self._client = client
        self._node = node
        self._prefix = f"{node[:_MAX_NODE_CHARS].rstrip('-.')}-{driver}-"
        self._owner: tuple[OwnerReference, ...] = ()
        self._wanted: SliceSpec | None = None
        self._rng = rng
        self._slices: ObjectCache[ResourceSlice] = ObjectCache(lambda _before, _after: self._wake.set())
        self._is_listed = False

    @property
    def published(self) -> int:
        """Slices that exist now."""
        return len(self._slices.objects)

    @property
    def is_current(self) -> bool:
        """Whether the slice says what it should, and is the only one; or there is none if none is wanted."""
        if self._wanted is None or not self._is_listed:
            return False
        standing = [_with_generation(each.spec, 0) for each in self._slices.objects.values()]
        return standing == ([self._wanted] if self._wanted.devices else [])

    def publish(self, spec: SliceSpec, node_uid: str) -> None:
        """Have this slice, or none if it has no devices, and no other of ours; the Node of this uid owns it."""
        self._wanted = spec
        self._owner = (OwnerReference(api_version="v1", kind="Node", name=self._node, uid=node_uid),)
        self._wake.set()

    def hold(self) -> None:
        """Leave the slice as others have it, until one is to be published again."""
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
        if wanted is None or not self._is_listed or self.is_current:
            return False
        standing = list(self._slices.objects.values())
        generation = 1 + max((each.spec.pool.generation for each in standing), default=0)
        if wanted.devices:
            # First: readers use no slice of an older generation, so the others count no more.
            kept = next((each for each in standing if each.metadata.name.startswith(self._prefix)), None)
            await self._put(_with_generation(wanted, generation), kept)
            standing = [each for each in standing if each is not kept]
        for each in standing:
            try:
                await self._client.delete(
                    RESOURCE_SLICES, each.metadata.name, precondition=Precondition(each.metadata.uid)
                )
            except NotFoundError:
                logger.debug("a slice to delete was gone already %s", fields(slice=each.metadata.name))
            self._slices.deleted(each)
        # An answer may have come after the end of its slice, which nothing else will report.
        self._wake.set()
        facts = fields(cards=len(wanted.devices), generation=generation, deleted=len(standing))
        logger.info("published the slice %s", facts)
        return True

    async def _put(self, spec: SliceSpec, existing: ResourceSlice | None) -> None:
        """Update this slice, or create one."""
        if existing is not None:
            # A merge patch: lists are replaced whole, and the version keeps a second driver from being overwritten.
            version = Precondition(resource_version=existing.metadata.resource_version)
            body = {"sharedCounters": None, **msgspec.to_builtins(spec)}
            patch = Patch(PatchKind.MERGE, {"metadata": version.metadata(), "spec": body})
            try:
                self._slices.answered(await self._client.patch(RESOURCE_SLICES, existing.metadata.name, patch))
                return
            except NotFoundError:
                self._slices.deleted(existing)
        # Any node may create slices of any name for itself, so a name that could be foreseen may be taken.
        name = f"{self._prefix}{self._rng.getrandbits(32):08x}"
        metadata = ObjectMeta(name=name, owner_references=self._owner)
        self._slices.answered(await self._client.create(RESOURCE_SLICES, new_slice(metadata, spec)))


def _with_generation(spec: SliceSpec, generation: int) -> SliceSpec:
    return msgspec.structs.replace(spec, pool=msgspec.structs.replace(spec.pool, generation=generation))
