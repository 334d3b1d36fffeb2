"""Keys like ours that no program reads are named, with what they may be meant to be; all others are left alone."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire import annotations as keys
from gcushare.wire.contracts import SERVE_LABEL
from gcushare.wire.objects import Container, Node, ObjectMeta, Pod, PodResourceClaim, PodSpec, ResourceRequirements
from gcushare.wire.unread_keys import find_foreign_request, unread_keys_of_node, unread_keys_of_pod, unread_resources

CORDON = ENFLAME.cordon_annotation


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("gcushare.io/node-polcy", keys.NODE_POLICY),
        ("GCUShare.io/Memory-Limit", keys.MEMORY_LIMIT),
        ("gcushare.io/avoid_cards", keys.AVOID_CARDS),
        ("gcushare/whole-card-policy", keys.WHOLE_CARD_POLICY),
        ("gpushare.io/compute-share", keys.COMPUTE_SHARE),
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


def pod_with_limits(limits: dict[str, str], annotations: dict[str, str] | None = None) -> Pod:
    containers = (Container(name="c", resources=ResourceRequirements(limits=dict(limits))),)
    return Pod(metadata=ObjectMeta(annotations=annotations or {}), spec=PodSpec(containers=containers))


@pytest.mark.parametrize(
    ("resource", "meant"),
    [
        *((odd, "aliyun.com/gpu-mem") for odd in ("aliyun.com/gpu_mem", "nvidia.com/gpu-mem", "Aliyun.com/GPU-Mem")),
        *((f"enflame.{odd}", "enflame.com/gcu-memory") for odd in ("com/gcu-mem", "com/gpu-mem", "cn/gcu-memory")),
        ("enflame.com/gcu-counts", "enflame.com/gcu-count"),
        *((f"nvidia.com/{other}", "") for other in ("gpu", "mig-1g.5gb", "gpumem")),
        *((other, "") for other in ("aliyun.com/gpu-mem", "koordinator.sh/gpu-memory", "enflame.com/gcu-core", "cpu")),
        ("example.com/gpu-mem", ""),
    ],
)
def test_a_misspelt_resource_is_named_with_what_it_may_be_meant_to_be(resource: str, meant: str) -> None:
    said = unread_resources(pod_with_limits({resource: "4"}))
    assert said == ((f"{resource}: no node has it; did you mean {meant}?",) if meant else ())


def test_a_count_alone_is_named_unless_cards_come_by_a_claim() -> None:
    count, memory = ENFLAME.count_resource, ENFLAME.memory_resource
    said = (f"{count} alone gives no card; ask for {memory}",)
    assert unread_resources(pod_with_limits({count: "1"})) == said
    assert unread_resources(pod_with_limits({count: "1", memory: "0"})) == said
    assert unread_resources(pod_with_limits({count: "1", memory: "4"})) == ()
    claiming = pod_with_limits({count: "1"})
    spec = msgspec.structs.replace(claiming.spec, resource_claims=(PodResourceClaim(name="cards"),))
    assert unread_resources(msgspec.structs.replace(claiming, spec=spec)) == ()


@pytest.mark.parametrize(
    ("limits", "annotations", "said"),
    [
        ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}, {}, "HAMi (nvidia.com/gpumem)"),
        ({"nvidia.com/gpu": "1"}, {"gpu-fraction": "0.5"}, "KAI-Scheduler (gpu-fraction)"),
        ({"nvidia.com/gpumem": "3000", "aliyun.com/gpu-mem": "3"}, {}, "None"),
        ({"nvidia.com/gpu": "1"}, {}, "None"),
    ],
)
def test_a_request_in_another_systems_words_is_named(
    limits: dict[str, str], annotations: dict[str, str], said: str
) -> None:
    assert str(find_foreign_request(pod_with_limits(limits, annotations), ALIYUN)) == said
