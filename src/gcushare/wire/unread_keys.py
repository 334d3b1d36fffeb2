"""Keys and resources that look like ours and that no program reads: misspelt, a label in place of an annotation, or
another system's words.

Keys in our domain are not refused: one of a later release may be on a pod of its time. So people must be shown them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from itertools import chain, islice

from gcushare.vendors import VENDORS, Vendor
from gcushare.vendors.neighbours import NEIGHBOURS, Sighting, neighbours_of
from gcushare.wire import annotations as keys
from gcushare.wire.contracts import KEPT_MARK, NODE_GROUP_LABEL, SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.objects import Node, ObjectMeta, Pod

_DOMAIN = "gcushare.io"
_PROGRAMS_KEYS = frozenset(
    {
        keys.CARD_UUID,
        keys.CARD_MODE,
        keys.UNITS_BY_CARD,
        keys.CORRECTED,
        keys.RECORDED_UID,
        keys.RECORDED_APART,
        keys.OVER_USE,
        keys.IDLE_SINCE,
        keys.ROOM_FOUND,
        keys.CLAIMED_RESOURCE,
        keys.CLAIMED_UNITS,
    }
)
_MOST = 8
"""Keys of one object that are shown."""
_ALIKE = 0.7
"""From this likeness on (1.0 is equal), a key is taken for a misspelt one."""
_SAME_DOMAIN = 0.8
"""The same for the domain of a resource; example.com is not like ours."""


def unread_keys_of_pod(pod: Pod) -> tuple[str, ...]:
    """Say of each key what it may be meant to be."""
    return tuple(islice(_unread(pod.metadata, keys.AUTHORS_KEYS, (), _PROGRAMS_KEYS), _MOST))


def unread_resources(pod: Pod) -> tuple[str, ...]:
    """Say of each resource that a pod asks for in vain what it may be meant to be."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    asked = dict.fromkeys(name for each in containers for name in each.resources.limits | each.resources.requests)
    found = [f"{name}: no node has it; did you mean {meant}?" for name in asked if (meant := _meant_resource(name))]
    for vendor in VENDORS if not pod.spec.resource_claims else ():
        cards = (vendor.memory_resource, vendor.whole_card_resource)
        has_cards = any(each.resources.asks_for(name) for each in containers for name in cards)
        if vendor.count_resource in asked and not has_cards:
            found.append(f"{vendor.count_resource} alone gives no card; ask for {vendor.memory_resource}")
    return tuple(found[:_MOST])


def _meant_resource(name: str) -> str:
    """The resource of ours that a name of a domain like ours may be meant to be; "" for ours and other systems'."""
    ours = {each: (each.memory_resource, each.count_resource, each.whole_card_resource) for each in VENDORS}
    known = {*chain.from_iterable(ours.values()), *chain.from_iterable(each.resources for each in NEIGHBOURS)}
    known |= {each.claims.extender_resource for each in VENDORS}
    domain, _, suffix = name.casefold().rpartition("/")
    domains = {found.partition("/")[0]: vendor for vendor, names in ours.items() for found in names}
    like = get_close_matches(domain, domains, 1, _SAME_DOMAIN)
    if name in known or not like:
        return ""
    names = {found.rpartition("/")[2]: found for found in ours[domains[like[0]]][:2]}
    close = get_close_matches(suffix.replace("_", "-"), names, 1, _ALIKE)
    return names[close[0]] if close else ""


def find_foreign_request(pod: Pod, vendor: Vendor) -> Sighting | None:
    """The system in whose words a pod asks for cards; None if there is none, or if it asks in ours too."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    if any(each.resources.asks_for(vendor.memory_resource) for each in containers):
        return None
    for other in neighbours_of(vendor.whole_card_resource):
        words = [name for name in other.resources if any(each.resources.asks_for(name) for each in containers)]
        words += [key for key in other.pod_annotations if key in pod.metadata.annotations]
        if words:
            return Sighting(other, tuple(words))
    return None


def unread_keys_of_node(node: Node, vendors: Collection[Vendor]) -> tuple[str, ...]:
    """Say of each key, and of the value of an admin's label, what has an effect. ``vendors`` are in use."""
    programs = {key for each in VENDORS for key in (each.inventory_annotation, each.cordon_annotation)} | {KEPT_MARK}
    cordons, labels = [each.cordon_annotation for each in vendors], (SERVE_LABEL, NODE_GROUP_LABEL)
    found = _unread(node.metadata, cordons, labels, programs)
    ours, given = {each.label_key: "true" for each in VENDORS} | {SERVE_LABEL: SERVE_CLAIMS}, node.metadata.labels
    values = {key: given[key] for key, value in ours.items() if given.get(key, "false") not in (value, "false")}
    wrong = [f"label {key}={value}: only {ours[key]!r} has an effect" for key, value in values.items()]
    return (*wrong, *islice(found, _MOST))


def _unread(
    meta: ObjectMeta, annotations: Collection[str], labels: Collection[str], programs: Collection[str]
) -> Iterator[str]:
    """The keys of ``meta`` that are none of these: what people may write, and what programs write as annotations."""
    names = {key.partition("/")[2]: f"the annotation {key}" for key in annotations}
    names |= {key.partition("/")[2]: f"the label {key}" for key in labels}
    for key in meta.annotations:
        if key not in annotations and key not in programs and _is_like_ours(key):
            meant = _meant(key, names)
            if meant or _DOMAIN in key.casefold():
                accepted = f"did you mean {meant}?" if meant else f"accepted: {', '.join(annotations)}"
                yield f"annotation {key}: no program reads it; {accepted}"
    for key in meta.labels:
        # Other labels of our domain may be an admin's own, to select by.
        if key not in labels and _is_like_ours(key) and (meant := _meant(key, names)):
            yield f"label {key}: no program reads it; did you mean {meant}?"


def _is_like_ours(key: str) -> bool:
    domain = key.casefold().rpartition("/")[0]
    return "gcushare" in domain or bool(get_close_matches(domain, [_DOMAIN], 1, _ALIKE))


def _meant(key: str, names: dict[str, str]) -> str:
    close = get_close_matches(key.casefold().rpartition("/")[2].replace("_", "-"), names, 1, _ALIKE)
    return names[close[0]] if close else ""
