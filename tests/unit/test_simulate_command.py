"""``gcushare simulate`` from its command line: files in, answers and pictures out."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PIL import Image

from gcushare.cli.simulate.churn import Churn, run_churn
from gcushare.cli.simulate.comparing import mixed, nodes_needed, run_all
from gcushare.cli.simulate.live import reduce_cluster
from gcushare.cli.simulate.workload import NodeSpec, read_nodes, read_pods, with_granularity
from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.core.cards import SERVES_WHOLE
from gcushare.core.errors import Refused
from gcushare.core.packing.expected_fill import Demand
from gcushare.runtime.entry import ProcessContext
from gcushare.vendors import ALIYUN, ENFLAME
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
    return ["--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv"), "--jobs", "1"]


def ask(*words: str) -> tuple[int, str, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    code = SUBCOMMANDS["simulate"].run(ProcessContext(words, {}, stdout, stderr))
    return code, stdout.getvalue(), stderr.getvalue()


def test_the_table_ranks_the_policies_below_a_bound(files: list[str]) -> None:
    code, text, errors = ask(*files, "--load", "130%", "--seeds", "2", "--policy", "random,fgd,expected-fill")
    assert (code, errors) == (0, "")
    assert text.startswith("6 nodes, 24 cards; ")
    table = text.partition("\n\nUnplaced")[0].splitlines()
    reached = [float(line.split()[1]) for line in table if line.startswith(("random", "fgd", "expected"))]
    assert len(reached) == 3
    assert reached == sorted(reached, reverse=True)
    assert "(no policy can exceed)" in text


def test_refused_pods_are_counted_by_kind_over_time(files: list[str]) -> None:
    code, text, _ = ask(*files, "--load", "130%", "--policy", "fgd,random", "--order", "trace")
    assert code == 0
    _, _, table = text.partition("Unplaced pods once so much of all cards was asked for, first seed:\n")
    heading, *rows = [line.split() for line in table.splitlines()]
    assert heading[:2] == ["POLICY", "KIND"]
    run = json.loads(ask(*files, "--load", "130%", "--policy", "fgd", "--order", "trace", "-o", "json")[1])
    run = run["policies"]["fgd"]["runs"][0]
    assert run["samples"][-1]["unplaced"] == run["unplaced"]
    counted = [[int(word) for word in row[-6:]] for row in rows if row[0] == "fgd"]
    assert sum(row[-1] for row in counted) == sum(run["unplaced"].values()) > 0
    assert all(row == sorted(row) for row in counted), "who was refused stays refused"
    assert sum(row[0] for row in counted) < sum(row[-1] for row in counted)


def test_json_has_every_run_with_its_curve(files: list[str]) -> None:
    code, text, _ = ask(*files, "--load", "1.0", "--policy", "binpack", "-o", "json")
    found = json.loads(text)
    run = found["policies"]["binpack"]["runs"][0]
    assert code == 0
    assert run["samples"][-1]["allocated"] == run["allocated"]
    assert run["allocated"] + run["partial"] + run["idle"] == pytest.approx(1.0)


def test_pictures_are_drawn_of_every_policy(files: list[str], tmp_path: Path) -> None:
    svg, png = tmp_path / "a.svg", tmp_path / "a.png"
    code, _, errors = ask(*files, "--policy", "spread,fgd", "--svg", str(svg), "--png", str(png))
    assert (code, errors) == (0, "")
    texts = [each.text for each in ElementTree.fromstring(svg.read_text()).iter() if each.tag.endswith("text")]
    assert {"spread", "fgd"} <= set(texts)
    with Image.open(png) as image:
        colors = {color for _, color in image.getcolors(1 << 24) or ()}
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= colors


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


def test_a_picture_without_arrivals_is_refused_and_the_table_is_not(files: list[str], tmp_path: Path) -> None:
    for pods in ("large,1,1,1,1000\n", "large,1,1,1,1000\nplain,1,1,0,0\n"):
        (tmp_path / "pods.csv").write_text(f"name,cpu_milli,memory_mib,num_gpu,gpu_milli\n{pods}")
        few = (*files, "--load", "1%", "--policy", "binpack")
        assert ask(*few)[0] == 0
        code, text, errors = ask(*few, "--svg", str(tmp_path / "a.svg"))
        assert (code, text) == (2, "")
        assert "no pod that arrives asks for any: give a larger load" in errors


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_picture_in_a_folder_that_is_missing_is_refused(files: list[str], tmp_path: Path, kind: str) -> None:
    path = tmp_path / "missing" / f"a.{kind}"
    code, _, errors = ask(*files, "--policy", "binpack", f"--{kind}", str(path))
    assert code == 2
    assert f"'{path}' cannot be written" in errors


def begin(folder: Path, policy: str, seed: int) -> None:
    """A job that leaves a mark and takes a moment."""
    (folder / f"{policy}-{seed}").touch()
    time.sleep(0.05)


def test_an_interrupt_drops_the_jobs_that_have_not_begun(tmp_path: Path) -> None:
    def interrupt(_done: int, _of: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all(partial(begin, tmp_path), ["any"], range(40), 2, interrupt)
    assert 0 < len(list(tmp_path.iterdir())) < 20


def test_questions_that_exclude_each_other_are_refused(files: list[str]) -> None:
    assert "churn needs load" in ask(*files, "--churn", "1")[2]
    assert "two sources" in ask(*files, "--from-cluster")[2]
    assert "name two CSV files" in ask()[2]


def test_another_mix_takes_nodes_like_the_given_ones(files: list[str]) -> None:
    assert ask(*files, "--node-mix", "G2=3")[1].startswith("3 nodes, 24 cards; ")
    code, _, errors = ask(*files, "--node-mix", "H9=3")
    assert code == 2
    assert "known models: G2, T4" in errors


def test_a_coarser_unit_rounds_shares_up_and_never_down() -> None:
    pods = [Demand(1, 810), Demand(1, 160), Demand(1, 990), Demand(2, 0, True), Demand(0)]
    rounded = with_granularity(pods, 125, 1000)
    assert rounded == [Demand(1, 875), Demand(1, 250), Demand(1, 0, True), Demand(2, 0, True), Demand(0)]


def test_the_nodes_that_pods_need_suffice_and_one_less_does_not(files: list[str], tmp_path: Path) -> None:
    nodes, pods = read_nodes(tmp_path / "nodes.csv"), read_pods(tmp_path / "pods.csv")
    needed = nodes_needed("best-fit", nodes, pods, 1)
    assert needed == mixed(nodes, len(needed))
    assert f"{len(needed)} " in ask(*files, "--policy", "best-fit", "--order", "trace", "--cards-needed")[1]
    with pytest.raises(Refused, match="fits on none"):
        nodes_needed("best-fit", nodes, [Demand(9, 0, True)], 1)


def test_with_kube_scheduler_as_many_nodes_are_needed_as_its_spreading_takes(tmp_path: Path) -> None:
    """By the policy the two pods without cards share a node, and leave one for the pod that needs all of it."""
    (tmp_path / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu\na,10,1000,1\nb,10,1000,1\n")
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nsmall,2,0,0,0\nsmall-too,2,0,0,0\nlarge,10,0,1,1000\n"
    (tmp_path / "pods.csv").write_text(pods)
    files = ("--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv"), "--order", "trace")
    needed = []
    for more in ((), ("--cards-alone",)):
        code, text, _ = ask(*files, "--policy", "binpack", "--cards-needed", "-o", "json", *more)
        assert code == 0
        needed.append(json.loads(text)["needed"]["binpack"]["nodes"])
    assert needed == [2, 3]


def test_a_mix_keeps_the_proportions_at_every_size() -> None:
    nodes = [NodeSpec(f"a-{n}", 1, 1, 2, "A") for n in range(6)] + [NodeSpec(f"b-{n}", 1, 1, 8, "B") for n in range(2)]
    for count in (4, 8, 40):
        assert sum(node.model == "B" for node in mixed(nodes, count)) == count // 4


def test_equal_seeds_give_equal_runs_in_every_process(files: list[str]) -> None:
    """Names hash differently in each process, so a policy that draws must not meet nodes in the order of a set."""
    argv = (sys.executable, "-m", "gcushare", "simulate", *files, "--load", "90%", "--churn", "3", "--policy", "random")
    runs = [
        subprocess.run(
            argv, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    ]
    assert len(set(runs)) == 1


def test_under_churn_time_is_counted_and_every_arrival_has_a_wait() -> None:
    nodes = [NodeSpec(f"n-{number}", 64000, 65536, 8, "G2") for number in range(3)]
    trace = [Demand(1, 500)] * 12 + [Demand(8, 0, True)]
    run = run_churn("expected-fill", nodes, trace, Churn(0.9, 20.0, 8), 3)
    assert run.arrivals > 100
    assert 0.5 < run.allocated <= 1.0
    assert run.large_waited > run.waited > 0.0
    assert 0.0 < run.large_refused_at_first <= 1.0
    assert run == run_churn("expected-fill", nodes, trace, Churn(0.9, 20.0, 8), 3)


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
    assert specs == [NodeSpec("gpu-1", 63000, 262144, 2, "", 16)]
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
