"""Keys on pods and Nodes that look like ours and that no program reads: misspelt, or a label in place of an annotation.

Keys in our domain are not refused: one of a later release may be on a pod of its time. So people must be shown them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from itertools import islice

from gcushare.vendors import VENDORS, Vendor
from gcushare.wire import annotations as keys
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.objects import Node, ObjectMeta, Pod

_DOMAIN = "gcushare.io"
_PROGRAMS_KEYS = frozenset(
    {
        keys.CARD_UUID,
        keys.CARD_MODE,
        keys.UNITS_BY_CARD,
        keys.CORRECTED,
        keys.OVER_USE,
        keys.ROOM_FOUND,
        keys.CLAIMED_RESOURCE,
        keys.CLAIMED_UNITS,
    }
)
_MOST = 8
"""Keys of one object that are shown."""
_ALIKE = 0.7
"""From this likeness on (1.0 is equal), a key is taken for a misspelt one."""


def unread_keys_of_pod(pod: Pod) -> tuple[str, ...]:
    """Say of each key what it may be meant to be."""
    return tuple(islice(_unread(pod.metadata, keys.AUTHORS_KEYS, (), _PROGRAMS_KEYS), _MOST))


def unread_keys_of_node(node: Node, vendors: Collection[Vendor]) -> tuple[str, ...]:
    """Say of each key, and of the value of an admin's label, what has an effect. ``vendors`` are in use."""
    programs = {key for each in VENDORS for key in (each.inventory_annotation, each.cordon_annotation)}
    found = _unread(node.metadata, [each.cordon_annotation for each in vendors], (SERVE_LABEL,), programs)
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
