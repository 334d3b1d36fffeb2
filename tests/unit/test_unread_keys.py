"""Keys like ours that no program reads are named, with what they may be meant to be; all others are left alone."""

from __future__ import annotations

import pytest

from gcushare.vendors import ENFLAME
from gcushare.wire import annotations as keys
from gcushare.wire.contracts import SERVE_LABEL
from gcushare.wire.objects import Node, ObjectMeta, Pod
from gcushare.wire.unread_keys import unread_keys_of_node, unread_keys_of_pod

CORDON = ENFLAME.cordon_annotation


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("gcushare.io/node-polcy", keys.NODE_POLICY),
        ("gcushare.io/use-card", keys.USE_CARDS),
        ("GCUShare.io/Memory-Limit", keys.MEMORY_LIMIT),
        ("gcushare.io/avoid_cards", keys.AVOID_CARDS),
        ("gcushare/whole-card-policy", keys.WHOLE_CARD_POLICY),
        ("gpushare.io/compute-share", keys.COMPUTE_SHARE),
        ("gcushare.com/cards", keys.CARDS),
    ],
)
def test_a_misspelt_key_of_a_pod_is_named_with_the_right_one(key: str, meant: str) -> None:
    said = f"{key}: no program reads it; did you mean the annotation {meant}?"
    assert unread_keys_of_pod(Pod(metadata=ObjectMeta(annotations={key: "x"}))) == (f"annotation {said}",)
    assert unread_keys_of_pod(Pod(metadata=ObjectMeta(labels={key: "x"}))) == (f"label {said}",)


def test_a_key_like_none_of_ours_is_named_with_all_that_are_accepted_and_a_pod_shows_few() -> None:
    many = {f"gcushare.io/x{number}": "" for number in range(99)}
    found = unread_keys_of_pod(Pod(metadata=ObjectMeta(annotations=many, labels=many)))
    assert len(found) == 8
    assert all(keys.NODE_POLICY in each and keys.COMPUTE_SHARE in each for each in found)


def test_our_own_keys_and_those_of_others_are_left_alone() -> None:
    ours = [value for name, value in vars(keys).items() if name.isupper() and str(value).startswith("gcushare.io/")]
    others = ["hami.io/node-scheduler-policy", "volcano.sh/cards", "node-policy", "gpushare.com/pool", "/", "cards"]
    assert unread_keys_of_pod(Pod(metadata=ObjectMeta(annotations=dict.fromkeys([*ours, *others], "x")))) == ()
    pod = Pod(metadata=ObjectMeta(labels={"gcushare.io/pool": "a", "app": "node-policy"}))
    assert unread_keys_of_pod(pod) == ()


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        (ObjectMeta(labels={SERVE_LABEL: "Claims"}), f"label {SERVE_LABEL}=Claims: only 'claims' has an effect"),
        (ObjectMeta(labels={"gpushare": "yes"}), "label gpushare=yes: only 'true' has an effect"),
        (ObjectMeta(labels={ENFLAME.label_key: "True"}), f"label {ENFLAME.label_key}=True: only 'true'"),
        (ObjectMeta(labels={"gcushare.io/server": "claims"}), f"did you mean the label {SERVE_LABEL}?"),
        (ObjectMeta(annotations={SERVE_LABEL: "claims"}), f"annotation {SERVE_LABEL}: no program reads it; did you"),
        (ObjectMeta(annotations={"gcushare.io/cordoned-cards": "0"}), f"did you mean the annotation {CORDON}?"),
        (ObjectMeta(labels={CORDON: "0"}), f"label {CORDON}: no program reads it; did you mean the annotation"),
    ],
)
def test_a_key_of_a_node_without_effect_is_named(meta: ObjectMeta, words: str) -> None:
    (found,) = unread_keys_of_node(Node(metadata=meta), (ENFLAME,))
    assert words in found


def test_what_belongs_on_a_node_is_left_alone() -> None:
    annotations = {ENFLAME.inventory_annotation: "{}", CORDON: "0", "gcushare.io/aliyun-inventory": "{}"}
    labels = {SERVE_LABEL: "claims", "gcushare.io/claims-order": "3", "gcushare.io/pool": "a", "gpushare": "true"}
    labels[ENFLAME.label_key] = "false"
    assert unread_keys_of_node(Node(metadata=ObjectMeta(annotations=annotations, labels=labels)), (ENFLAME,)) == ()
