"""Which card each number means that pods of this node hold, when the plugin starts. Pure.

The kubelet stores the answer that it gave a container, and gives it again whenever that container starts, also after a
reboot. So its checkpoint says which card a container has, and no pod's author can write there.
"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.core.cards import Card, Inventory
from gcushare.core.errors import RemoteContractError
from gcushare.device_plugin.pods.allocations import KubeletAllocations, StoredAnswer
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.grant_form import read_given
from gcushare.vendors import Vendor
from gcushare.wire.annotations import CARD_UUID
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos.services import read_message


def find_held_cards(
    store: PodStore, kept: KubeletAllocations, vendor: Vendor, former: Inventory | None
) -> dict[str, Card]:
    """Find the cards, by uuid, whose number (``index``) pods hold or were bound to get.

    ``kept`` is the kubelet's checkpoint. A checkpoint keeps entries of pods that have ended, so a number counts only if
    ``store`` says that a pod has it, and the answers of known pods count first. What no answer names is read from the
    inventory that the Node had (``former``), and last from pods' records.
    """
    wanted = store.cards_wanted()
    uuids: dict[int, str] = {}
    for number, uuid in _told(store, kept, vendor, former):
        if number in wanted and uuid not in uuids.values():
            uuids.setdefault(number, uuid)
    known = {card.uuid: card for card in former.cards} if former is not None else {}
    return {uuid: numbered(known.get(uuid), number, uuid) for number, uuid in uuids.items()}


def _told(
    store: PodStore, kept: KubeletAllocations, vendor: Vendor, former: Inventory | None
) -> Iterator[tuple[int, str]]:
    """Numbers with the uuids of their cards, the most certain first."""
    live = store.entries.keys()
    for answer in sorted(kept.answers, key=lambda each: each.pod not in live):
        yield from _read_answer(answer, vendor)
    for card in former.cards if former is not None else ():
        yield card.index, card.uuid
    for entry in store.entries.values():
        if entry.record is not None and entry.may_be_assigned:
            yield from zip(entry.record.card_indexes, entry.annotations.get(CARD_UUID, "").split(","), strict=False)


def _read_answer(answer: StoredAnswer, vendor: Vendor) -> Iterator[tuple[int, str]]:
    try:
        given = read_message(pb.ContainerAllocateResponse, answer.body)
    except RemoteContractError:
        return  # What the kubelet stored for another version of its API says nothing about cards.
    names = (device.name for device in given.cdi_devices)
    yield from read_given(vendor, answer.numbers, given.envs, names).items()


def numbered(card: Card | None, number: int, uuid: str) -> Card:
    """A card as it was published last under this number; of any other only the uuid is known."""
    if card is None or card.index != number:
        return Card(index=number, uuid=uuid, memory_bytes=0)
    return Card(**{name: getattr(card, name) for name in Card.__struct_fields__})
