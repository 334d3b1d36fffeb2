"""The claims that are prepared on this node: what is granted to each, its files, and the order of the steps.

Prepare writes the checkpoint's entry, then the CDI file, then the entry as complete. Unprepare removes the file, then
the entry. So every prefix is safe: a file always has an entry, and an entry that is not complete is prepared again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gcushare.core.assignments import Assignment
from gcushare.core.cards import Inventory
from gcushare.core.errors import DeviceError, Refused, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.core.wording import index_text
from gcushare.device_plugin.claims.allocation_results import assignment_of, check_room, grant_of, read_devices
from gcushare.device_plugin.claims.claim_files import CheckpointFile, ClaimCdiFiles
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import RESOURCE_CLAIMS
from gcushare.node.grant_form import GrantForm, read_given
from gcushare.wire.dra.checkpoint import PreparedClaim, PreparedDevice, users_of
from gcushare.wire.dra.claims import ConsumerReference, ResourceClaim

logger = logging.getLogger(__name__)


async def list_claims(client: KubeClient, driver: str, pool: str) -> list[ResourceClaim]:
    """All claims that are in a pool (see ``is_in_pool``); reads a list of the whole cluster."""
    return [claim for claim in await client.list_all(RESOURCE_CLAIMS) if is_in_pool(claim, driver, pool)]


def is_in_pool(claim: ResourceClaim, driver: str, pool: str) -> bool:
    """Whether a claim is allocated devices of one pool, and reserved for a pod."""
    return bool(claim.status.reserved_for) and any(each.pool == pool for each in claim.results_of(driver))


@dataclass(eq=False)
class PreparedClaims:
    """What is prepared. Every change is one synchronous call, so that none is left half done by a cancelled one.

    ``on_change`` is called after each change of what the cards hold.
    """

    form: GrantForm
    node: str
    checkpoint: CheckpointFile
    cdi: ClaimCdiFiles

    def __post_init__(self) -> None:
        self.claims: Mapping[str, PreparedClaim] = {}
        self.asked: dict[str, str] = {}
        """By namespace and name, the uid of the claim that the kubelet asked for last and has not ended."""
        self.on_change: Callable[[], None] = lambda: None

    def load(self) -> None:
        """Read the checkpoint, and bring the CDI files in line with it: a restart of the machine removes them.

        Raises:
            RemoteContractError: the checkpoint cannot be understood, or is missing while a claim has a CDI file. The
                checkpoint is written first and lasts longer, so it was removed under running claims.
            DeviceError: the checkpoint or the folder of the CDI files cannot be read.
        """
        found = self.checkpoint.read()
        if found is None and self.cdi.exist():
            raise RemoteContractError(f"the checkpoint {self.checkpoint.path} is missing, but claims have CDI files")
        self.claims = found or {}
        self._repair_files()
        if self.claims:
            logger.info("read the checkpoint %s", fields(claims=len(self.claims)))

    def rebuild(self, found: Iterable[ResourceClaim]) -> Path | None:
        """Replace the unreadable checkpoint by the claims that the API server shows on this node; returns its copy.

        It does not show the claims of pods that were deleted by force, whose containers may still run.

        None of them counts as complete: the kubelet's next call writes its files again. Files that are there stay,
        because containers that restart need them.

        Raises:
            DeviceError: a file cannot be written; can be repeated.
        """
        names = self.form.vendor.claims
        claims: dict[str, PreparedClaim] = {}
        for claim in found:
            metadata = claim.metadata
            try:
                devices = read_devices(claim, metadata.uid, names, self.node)
            except (Refused, RemoteContractError) as error:
                facts = fields(claim=f"{metadata.namespace}/{metadata.name}", reason=error)
                logger.warning("a claim is left out of the new checkpoint %s", facts)
                continue
            claims[metadata.uid] = self._entry(claim, devices)
        aside = self.checkpoint.copy_aside()
        self._save(claims)
        self._repair_files()
        return aside

    async def wait_for_numbers(self, node_is_read: asyncio.Event, timeout_s: float, beat: Callable[[], None]) -> None:
        """Wait for the Node, which says what number each card had, or for ``timeout_s``: then the claims alone say it.

        Those that were rebuilt do not: as long as there is one, the wait goes on, with a ``beat`` each time.
        """
        while not node_is_read.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await node_is_read.wait()
            if all(each.is_complete for each in self.claims.values()):
                return
            beat()

    def is_complete(self, uid: str) -> bool:
        """Whether a claim is prepared."""
        return uid in self.claims and self.claims[uid].is_complete

    def is_moved(self, claim: ResourceClaim, uid: str) -> bool:
        """Whether a claim that is prepared was allocated other devices of this node since."""
        if not self.is_complete(uid):
            return False
        try:
            devices = read_devices(claim, uid, self.form.vendor.claims, self.node)
        except (Refused, RemoteContractError):
            return False  # it is not allocated here any more, and the pod that was given its devices may still run
        return devices != self.claims[uid].devices

    def complete(self, uid: str) -> PreparedClaim | None:
        """A claim that is prepared, with its file in place; None if it has to be prepared.

        Raises:
            DeviceError: its file is missing and cannot be written.
        """
        if not self.is_complete(uid):
            return None
        self.cdi.write(self.claims[uid])
        return self.claims[uid]

    def prepare(self, claim: ResourceClaim, uid: str, inventory: Inventory) -> PreparedClaim:
        """Prepare an allocated claim; repeatable. One that is prepared with other devices is prepared again.

        Raises:
            Refused, RemoteContractError: it is not allocated here, or its cards are taken.
            DeviceError: a file cannot be written; the kubelet calls again.
        """
        if not self.is_moved(claim, uid) and (done := self.complete(uid)) is not None:
            return done
        entry = self._entry(claim, read_devices(claim, uid, self.form.vendor.claims, self.node))
        wanted = assignment_of(entry, inventory.unit, self.node)
        others = [each for each in self.assignments(inventory) if each.pod.uid != uid]
        check_room(wanted, inventory, others, {each: claim.key for each, claim in self.claims.items()})
        grant, units = grant_of(wanted, inventory), {each.index: each.units for each in wanted.grants}
        if not grant.whole:
            self.form.check(grant.cards)
        edits = self.form.edits(grant, inventory.unit, units)
        entry = msgspec.structs.replace(entry, edits=edits, cdi_names=self.form.cdi_names(grant))
        self._save({**self.claims, uid: entry})
        self.cdi.write(entry)
        entry = msgspec.structs.replace(entry, is_complete=True)
        self._save({**self.claims, uid: entry})
        cards = index_text(each.index for each in wanted.grants)
        logger.info(
            "prepared %s",
            fields(claim=entry.key, uid=uid, card=cards, units=wanted.units, whole=wanted.grants[0].whole),
        )
        return entry

    def unprepare(self, uid: str) -> None:
        """Give a claim's devices back; repeatable, and nothing for a claim that is not known.

        Raises:
            RemoteContractError: the uid is none.
            DeviceError: a file cannot be removed or written; the kubelet calls again.
        """
        self.cdi.remove(uid)
        if uid in self.claims:
            key = self.claims[uid].key
            self._save({each: claim for each, claim in self.claims.items() if each != uid})
            logger.info("unprepared %s", fields(claim=key, uid=uid))

    def update_users(self, uid: str, users: tuple[ConsumerReference, ...]) -> None:
        """Store which pods a prepared claim is reserved for now.

        Raises:
            DeviceError: the checkpoint cannot be written.
        """
        claim = self.claims[uid]
        if claim.users != users:
            self._save({**self.claims, uid: msgspec.structs.replace(claim, users=users)})

    def cdi_ids(self, claim: PreparedClaim) -> tuple[str, ...]:
        """All CDI devices of a claim, for the kubelet's answer."""
        own = self.cdi.cdi_name(claim)
        return (own, *claim.cdi_names) if own else claim.cdi_names

    def assignments(self, inventory: Inventory) -> list[Assignment]:
        """What the claims hold, as the ledger counts it."""
        return [assignment_of(claim, inventory.unit, self.node) for claim in self.claims.values()]

    def numbers(self) -> set[int]:
        """The cards that claims hold."""
        return {device.index for claim in self.claims.values() for device in claim.devices}

    def given(self) -> dict[int, str]:
        """The uuids of the cards that claims hold, by number, by what their containers are given."""
        found: dict[int, str] = {}
        for claim in self.claims.values():
            numbers = [device.index for device in claim.devices]
            found |= read_given(self.form.vendor, numbers, claim.edits.variables, claim.cdi_names)
        return found

    def _entry(self, claim: ResourceClaim, devices: tuple[PreparedDevice, ...]) -> PreparedClaim:
        metadata = claim.metadata
        return PreparedClaim(
            uid=metadata.uid,
            namespace=metadata.namespace,
            name=metadata.name,
            devices=devices,
            users=users_of(claim),
            prepared_s=time.time(),
        )

    def _save(self, claims: dict[str, PreparedClaim]) -> None:
        self.checkpoint.write(claims)
        self.claims = claims
        self.on_change()

    def _repair_files(self) -> None:
        for claim in self.claims.values():
            if claim.is_complete:
                try:
                    self.cdi.write(claim)
                except DeviceError as error:  # the kubelet's next call for this claim says so too
                    logger.error("a claim has no CDI file %s", fields(claim=claim.key, reason=error))
        if removed := self.cdi.remove_others(self.claims):
            logger.info("removed CDI files of claims that are not prepared %s", fields(files=removed))
