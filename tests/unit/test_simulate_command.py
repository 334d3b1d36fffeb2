"""``gcushare simulate`` from its command line: files in, answers out."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest

from gcushare.cli.simulate.cluster import SimulatedCluster
from gcushare.cli.simulate.comparing import Comparison, mixed, nodes_needed
from gcushare.cli.simulate.live import reduce_cluster
from gcushare.cli.simulate.runs import Placer
from gcushare.cli.simulate.workload import EmptyNode, read_nodes, read_pods
from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.core.cards import SERVES_WHOLE
from gcushare.core.errors import Refused
from gcushare.core.packing.expected_fill import Demand
from gcushare.runtime.entry import ProcessContext
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import CARDS, COMPUTE_SHARE, NODE_POLICY
from gcushare.wire.objects import Container, Node, NodeStatus, ObjectMeta, Pod, PodSpec, ResourceRequirements
from tests.builders import card
from tests.extender_objects import a_node, a_pod

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"n-{number},{16000 if number % 3 else 64000},65536,{2 if number % 3 else 8},{'T4' if number % 3 else 'G2'}\n"
    for number in range(6)
)
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + "".join(
    f"p-{number},{line}\n"
    for number, line in enumerate(
        [
            *["3000,4000,1,810,"] * 5,
            *["6000,8000,1,1000,"] * 6,
            "1000,1000,1,160,T4|G2",
            "9000,9000,0,0,",
            "8000,1,8,1000,",
        ]
    )
)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv")]


def ask(*words: str) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    code = SUBCOMMANDS["simulate"].run(ProcessContext(words, {}, stdout, stderr))
    return code, stdout.getvalue(), stderr.getvalue()


def test_the_table_ranks_the_policies(files: list[str]) -> None:
    code, text, errors = ask(*files, "--load", "130%", "--policy", "spread,binpack,expected-fill")
    assert (code, errors) == (0, "")
    assert text.startswith("6 nodes, 24 cards; ")
    table = text.partition("\n\nUnplaced")[0].splitlines()
    reached = [float(line.split()[1]) for line in table if line.startswith(("spread", "binpack", "expected"))]
    assert len(reached) == 3
    assert reached == sorted(reached, reverse=True)


def test_json_has_every_policy_and_equal_calls_have_equal_answers(files: list[str]) -> None:
    code, text, _ = ask(*files, "--load", "1.3", "-o", "json")
    run = json.loads(text)["policies"]["binpack"]
    assert code == 0
    assert run["allocated"] + run["partial"] + run["idle"] == pytest.approx(1.0)
    assert sum(run["unplaced"].values()) > 0
    assert ask(*files, "--load", "1.3", "-o", "json")[1] == text


def test_what_is_wrong_with_a_file_is_said_with_its_line(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,1001\n")
    code, _, errors = ask(*files)
    assert code == 2
    assert "line 2: gpu_milli 1001 must be from 1 to 1000" in errors
    (tmp_path / "pods.csv").write_text("name,cpu\n")
    assert "lacks the columns cpu_milli, memory_mib, num_gpu, gpu_milli" in ask(*files)[2]


def test_a_line_of_nodes_that_ends_before_the_name_is_refused(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("cpu_milli,memory_mib,gpu,sn\n1,1,1\n1,1,1,b\n")
    code, _, errors = ask(*files)
    assert code == 2
    assert "line 2: sn '' is empty" in errors


def test_questions_that_exclude_each_other_are_refused(files: list[str]) -> None:
    assert "two sources" in ask(*files, "--from-cluster")[2]
    assert "name two CSV files" in ask()[2]


def test_the_nodes_that_pods_need_suffice_and_one_less_does_not(files: list[str], tmp_path: Path) -> None:
    nodes, pods = tuple(read_nodes(tmp_path / "nodes.csv")), tuple(read_pods(tmp_path / "pods.csv"))
    plan = Comparison(nodes, pods, None, ("binpack",))
    needed = nodes_needed(plan, "binpack", plan.workload())
    assert needed == mixed(nodes, len(needed))
    for count, is_enough in ((len(needed), True), (len(needed) - 1, False)):
        cluster = SimulatedCluster(mixed(nodes, count))
        placer = Placer(cluster, plan.make_policy("binpack"))
        placed = [placer.place(str(number), pod) for number, pod in enumerate(plan.workload())]
        assert (None not in placed) is is_enough
    assert f"{len(needed)} " in ask(*files, "--policy", "binpack", "--cards-needed")[1]
    for demand, words in (
        (Demand(9, 0, True), "9 whole cards"),
        (Demand(9, 7, False, 1500, 2048), "7 units on each of 9 cards, 1.5 CPUs, 2048 MiB of memory"),
        (Demand(1, 1, False, models=("H800",)), r"1 unit on each of 1 card \(only H800\)"),
    ):
        with pytest.raises(Refused, match=f"a pod of {words} fits on none"):
            nodes_needed(plan, "binpack", [demand])


def test_as_many_nodes_are_needed_as_kube_schedulers_spreading_takes(tmp_path: Path) -> None:
    """It spreads the two pods without cards, which leaves no node to the pod that needs all of one."""
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu\na,10,1000,1\nb,10,1000,1\n")
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nlarge,10,0,1,1000\n" + "small,2,0,0,0\n" * 4
    (tmp_path / "pods.csv").write_text(pods)
    files = ("--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv"))
    code, text, _ = ask(*files, "--policy", "binpack", "--cards-needed", "-o", "json")
    assert code == 0
    assert json.loads(text)["needed"]["binpack"]["nodes"] > 2


def test_a_mix_keeps_the_proportions_at_every_size() -> None:
    nodes = [EmptyNode(f"a-{n}", 1, 1, 2, "A") for n in range(6)] + [
        EmptyNode(f"b-{n}", 1, 1, 8, "B") for n in range(2)
    ]
    for count in (4, 8, 40):
        assert sum(node.model == "B" for node in mixed(nodes, count)) == count // 4


def test_a_live_cluster_is_reduced_to_its_cards_cpu_and_pods() -> None:
    node = Node(
        metadata=ObjectMeta(name="gpu-1"),
        status=NodeStatus(
            capacity={"cpu": "64", "memory": "262144Mi", ALIYUN.memory_resource: "32", ALIYUN.count_resource: "2"},
            allocatable={"cpu": "63500m", "memory": "262144Mi"},
        ),
    )

    def pod(name: str, node_name: str, **amounts: str) -> Pod:
        asked: dict[str, str | int | float] = {
            ALIYUN.memory_resource if word == "gpu" else word: amount for word, amount in amounts.items()
        }
        limits = {word: amount for word, amount in asked.items() if "/" in word}
        container = Container(name="c", resources=ResourceRequirements(limits=limits, requests=asked))
        return Pod(ObjectMeta(name=name, uid=name), PodSpec(node_name=node_name, containers=(container,)))

    pods = [pod("a", "gpu-1", cpu="2", memory="1Gi", gpu="4"), pod("b", "gpu-1", cpu="500m"), pod("c", "", gpu="8")]
    random.Random(1).shuffle(pods)
    specs, demands = reduce_cluster([node], pods, ALIYUN, [])
    assert specs == [EmptyNode("gpu-1", 63000, 262144, 2, "", 16)]
    assert sorted(demands) == [Demand(1, 4, False, 2000, 1024), Demand(1, 8)]


def test_pods_of_other_plugins_cards_are_left_out_of_a_live_cluster() -> None:
    ours = [
        a_node("memory", 16),
        a_node("whole", 16, 16, modes=(SERVES_WHOLE,)),
        a_node("sick", offered=[card(0, sick=True)]),
    ]
    others = [
        a_pod("whole-elsewhere", None, whole=8, node="theirs"),
        a_pod("memory-elsewhere", 3, node="theirs"),
        a_pod("whole-next-to-ours", None, whole=1, node="memory"),
    ]
    counted = [
        a_pod("share", 4, node="memory"),
        a_pod("on-a-sick-card", 5, node="sick"),
        a_pod("holds-whole", None, whole=2, node="whole"),
        a_pod("wants-whole", None, whole=1),
    ]
    _, demands = reduce_cluster(ours, [*others, *counted], ENFLAME, [])
    assert sorted(demands) == [Demand(1, 0, True), Demand(1, 4), Demand(1, 5), Demand(2, 0, True)]
    _, demands = reduce_cluster(ours[:1], [*others, *counted], ENFLAME, [])
    assert sorted(demands) == [Demand(1, 4)], "where no node serves whole cards, who wants one waits for another plugin"


@pytest.mark.parametrize("annotations", [{NODE_POLICY: "tetris"}, {CARDS: "3"}, {CARDS: "x"}, {COMPUTE_SHARE: "half"}])
def test_a_bound_pod_counts_whatever_its_author_has_written_on_it_since(annotations: dict[str, str]) -> None:
    problems: list[str] = []
    pods = [a_pod(name, 4, node=node, annotations=annotations) for name, node in (("has", "n"), ("waits", ""))]
    _, demands = reduce_cluster([a_node("n", 16)], pods, ENFLAME, problems)
    assert demands == [Demand(1, 4)]
    assert [each.partition(":")[0] for each in problems] == ["pod default/waits"]
