"""Which card each number means that pods or claims of this node hold, when the plugin starts. Pure.

The kubelet stores the answer that it gave a container, and gives it again whenever that container starts, also after a
reboot. So its checkpoint says which card a container has, and no pod's author can write there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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

    ``kept`` is the kubelet's checkpoint. The answers of known pods count first. A checkpoint keeps entries of pods that
    have ended, so another answer counts only for a number that pods have. What no answer names is read from the
    inventory that the Node had (``former``), and last from pods' records. As long as the API server did not say which
    pods there are, each number may be one's.
    """
    wanted = store.cards_wanted()
    named = _named_numbers(store, kept, vendor, former)
    return _number(((number, uuid) for number, uuid in named if number in wanted or not store.is_listed), former)


def find_claimed_cards(given: Mapping[int, str], former: Inventory | None) -> dict[str, Card]:
    """Find the cards, by uuid, whose number (``index``) claims hold, or may have been allocated.

    ``given`` are the uuids by number that containers of prepared claims were given: they count before ``former``.
    """
    cards = former.cards if former is not None else ()
    return _number((*given.items(), *((card.index, card.uuid) for card in cards)), former)


def _number(named: Iterable[tuple[int, str]], former: Inventory | None) -> dict[str, Card]:
    """The cards of ``former`` by the first word on each number, of words that may contradict each other.

    Of a card that had another number there, or was not there, only the uuid is known.
    """
    uuids: dict[int, str] = {}
    for number, uuid in named:
        if uuid not in uuids.values():
            uuids.setdefault(number, uuid)
    known = {(card.index, card.uuid): card for card in former.cards} if former is not None else {}
    found: dict[str, Card] = {}
    for number, uuid in uuids.items():
        if (card := known.get((number, uuid))) is not None:
            found[uuid] = Card(**{name: getattr(card, name) for name in Card.__struct_fields__})
        else:
            found[uuid] = Card(index=number, uuid=uuid, memory_bytes=0)
    return found


def _named_numbers(
    store: PodStore, kept: KubeletAllocations, vendor: Vendor, former: Inventory | None
) -> Iterator[tuple[int, str]]:
    """Numbers with the uuids of their cards, the most certain first."""
    live, used = store.entries.keys(), store.cards_used
    for answer in sorted(kept.answers, key=lambda each: each.pod not in live):
        for number, uuid in _read_answer(answer, vendor):
            if answer.pod in live or number in used or not store.is_listed:
                yield number, uuid
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
