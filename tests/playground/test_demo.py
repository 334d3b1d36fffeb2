"""``gcushare demo``: both scenarios, readable in a file, nothing left behind, and no success when a step is wrong."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from gcushare.core.units import GIB
from gcushare_playground.cluster import Cluster
from gcushare_playground.demo.manual import play_manual
from gcushare_playground.demo.playing import Player
from gcushare_playground.demo.scenarios import choose_scenario
from gcushare_playground.demo.settings import DemoSettings, ScenarioName
from gcushare_playground.demo.stage import Mismatch, Stage
from gcushare_playground.plans import ClusterPlan, NodePlan
from gcushare_playground.processes import Child, Command
from tests.builders import present

HAS_KUBECTL = shutil.which("kubectl") is not None

WAITS_S = 150.0
ROOT = Path(__file__).parents[2]
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")


@contextlib.asynccontextmanager
async def demo(tmp_path: Path, *flags: str, ready: str = r"(== Done)") -> AsyncIterator[Child]:
    """Start the demo with its temporary files in ``tmp_path``, and wait for a line."""
    words = (sys.executable, "-m", "gcushare", "demo", *flags)
    scratch = tmp_path / "s"
    scratch.mkdir()
    command = Command(
        name="demo", arguments=words, log_dir=tmp_path, environ={"TMPDIR": str(scratch)}, ready=re.compile(ready)
    )
    child = Child(command)
    try:
        await child.start(deadline_s=WAITS_S)
        yield child
    finally:
        await child.stop()


def children_of(tmp_path: Path) -> list[str]:
    """The command lines of processes that work below a demo's scratch directory."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal() and int(path.name) != os.getpid():
            with contextlib.suppress(OSError):
                words = (path / "cmdline").read_bytes().decode(errors="replace")
                if str(tmp_path / "s") in words:
                    found.append(words.replace("\0", " "))
    return found


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Unix sockets' paths are short, and pytest's own temporary paths are not."""
    with tempfile.TemporaryDirectory(prefix="demo-") as name:
        yield Path(name)


@pytest.mark.slow
async def test_the_manuals_chapter_is_played_and_kept_until_ctrl_c_ends_it_with_its_processes_and_files(
    short_path: Path,
) -> None:
    async with demo(short_path, "--keep", ready=r"in a browser: (\S+)") as child:
        await typed_commands_work(child)
        assert await nodes_on_the_page(child) == ["node-1"]
        assert len(children_of(short_path)) == 2
        child.send_signal(signal.SIGINT)
        assert await child.wait() == 0
    text = child.log_file.read_text()
    for expected in (
        "kube-system   gcushare-pod-3   1/1     Running",
        "kube-system   gcushare-pod-4   0/1     Pending",
        "0/1 nodes are available: 1 insufficient GCU Memory in one gcu device.",
        "ENFLAME_VISIBLE_DEVICES=1",
        "/dev/gcu0",
        '"totalGCU": 128',
        '"usedGCU": 12',
        '"availableGCU": 104',
    ):
        assert expected in text
    assert "\x1b" not in text, "a file has no colours"
    assert "WRONG" not in text
    assert list((short_path / "s").iterdir()) == []
    assert children_of(short_path) == []
    counted = present(re.search(r"== Done: (\d+) checks", text))
    for readme in READMES:
        assert f"== Done: {counted[1]} checks" in readme.read_text(), f"{readme.name} shows another demo"
    check_admin_commands(text)


def check_admin_commands(text: str) -> None:
    """The commands that an admin would type are run at the end, each with what it must show."""
    _, heading, text = text.partition("== What an admin asks")
    assert heading
    typed = re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    assert typed == [
        "kubectl inspect gcushare explain kube-system/gcushare-pod-4",
        "kubectl inspect gcushare top",
        "gcushare cards node-1",
        "gcushare doctor",
    ]
    assert "over by " in text, "top shows a card on which more is used than was granted"
    assert "policy-missing" in text, "doctor reports what is true: no one protects records here"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "shown"),
    [
        (
            ScenarioName.VENDOR,
            ("ALIYUN_COM_GPU_MEM_DEV=14", "ALIYUN_COM_GPU_MEM_CONTAINER=5", '"usedGPU": 9', "9/14 (64%)"),
        ),
        (
            ScenarioName.WHOLE,
            (
                "NVIDIA_VISIBLE_DEVICES=node-1-card-1,node-1-card-2",
                "1 Insufficient nvidia.com/gpu.",
                "node-1 offers 28 units and 3 whole cards",
            ),
        ),
        (ScenarioName.UNIFIED, ("ALIYUN_COM_GPU_MEM_DEV=96", "ALIYUN_COM_GPU_MEM_CONTAINER=34", "61/96 (63%)")),
        (
            ScenarioName.APART,
            (
                "NVIDIA_VISIBLE_DEVICES=node-1-card-2,node-1-card-3",
                "the cards with room there hold pods that this one shares no card with (gcushare.io/apart)",
                "web-2 is on a card without a replica",
            ),
        ),
    ],
)
async def test_the_scenarios_of_a_t4_are_played(scenario: ScenarioName, shown: tuple[str, ...]) -> None:
    """In this process: what starts and ends the demo is the other tests' concern."""
    settings, text = DemoSettings(vendor="aliyun", scenario=scenario), io.StringIO()
    async with Cluster(settings.plan()) as cluster:
        player = Player(cluster, Stage(text))
        await player.bring_up()
        await choose_scenario(settings)(player)
    for expected in shown:
        assert expected in text.getvalue()
    assert "WRONG" not in text.getvalue()


@pytest.mark.slow
async def test_the_manuals_pods_are_played_as_claims_and_kept_with_the_command_that_works_there(
    short_path: Path,
) -> None:
    async with demo(short_path, "--scenario", "claims", "--keep", ready=r"in a browser: (\S+)") as child:
        assert await nodes_on_the_page(child) == ["node-1"]
        child.send_signal(signal.SIGINT)
        assert await child.wait() == 0
    text, _, shown = child.log_file.read_text().partition("The cluster stays up")
    assert "kubectl inspect gcushare explain kube-system/gcushare-pod-4" in shown
    assert "gcushare cards" not in shown
    for expected in (
        "its request became a claim of template gcu-memory-12",
        "the claim was allocated card 1",
        "ENFLAME_VISIBLE_DEVICES=1",
        "1 cannot allocate all claims.",
        "it can never fit: the largest usable card has 16 GB",
        "24/128 (18%)",
    ):
        assert expected in text
    assert "WRONG" not in text
    assert children_of(short_path) == []


@pytest.mark.slow
async def test_a_signal_in_the_middle_ends_everything(short_path: Path) -> None:
    async with demo(short_path, "--vendor", "aliyun", ready=r"(Step 1)") as child:
        child.send_signal(signal.SIGTERM)
        assert await child.wait() == 128 + signal.SIGTERM
    assert "node-1 offers 14 units" in child.log_file.read_text()
    assert children_of(short_path) == []
    assert list((short_path / "s").iterdir()) == []


async def typed_commands_work(child: Child) -> None:
    """Type every line that is printed, and some others, in a second terminal that knows nothing of the first."""
    found = re.search(r"In another terminal:\n(.*?)\nThe cards in a browser", child.log_file.read_text(), re.DOTALL)
    assert found is not None
    printed = [line.strip() for line in found[1].splitlines()]
    exports = [line for line in printed if line.startswith("export ")]
    assert [line.partition("=")[0] for line in exports] == [
        f"export {name}" for name in ("PATH", "KUBECONFIG", "EXTENDER", "PAGE", "PLUGIN")
    ]
    typed = [*printed[len(exports) :], "kubectl inspect gcushare", "kubectl inspect gcushare -d"]
    typed += ["curl -fsS $PAGE/metrics", "curl -fsS $PLUGIN/status", 'gcushare cards --plugin "$PLUGIN"']
    assert len(typed) == 11
    for line in typed:
        words = line if HAS_KUBECTL else line.replace("kubectl inspect gcushare", "kubectl-inspect-gcushare")
        if not HAS_KUBECTL and words.startswith("kubectl "):
            continue
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", "\n".join((*exports, words))),
            env={"PATH": "/usr/bin:/bin", "HOME": "/nowhere"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, complaint = await process.communicate()
        assert process.returncode == (3 if "doctor" in line else 0), f"{line}: {complaint.decode()}"
        if line.startswith("curl"):  # its progress
            continue
        assert output
        assert not complaint or complaint.startswith((b"source: the scheduler extender", b"note: what each pod uses"))


async def nodes_on_the_page(child: Child) -> list[str]:
    """What the page's address, as it is printed, shows."""
    found = present(re.search(r"in a browser: (\S+)", child.log_file.read_text()))
    async with (
        aiohttp.ClientSession() as http,
        http.get(found[1]) as page,
        http.get(f"{found[1]}api/cluster") as answer,
    ):
        assert page.content_type == "text/html"
        return [node["name"] for node in (await answer.json())["nodes"]]


@pytest.mark.slow
async def test_a_step_that_is_not_as_expected_ends_the_scenario() -> None:
    """The negative control: the demo's own bookkeeping is given larger cards than there are."""
    plan = ClusterPlan(nodes=(NodePlan(name="node-1", card_bytes=(16 * GIB,) * 2),), labels_nodes=False)
    async with Cluster(plan) as cluster:
        shown = io.StringIO()
        player = Player(cluster, Stage(shown))
        await player.bring_up()
        player.ledger.capacity = (32, 32)
        with pytest.raises(Mismatch, match="its record names card 0 of 32 units"):
            await play_manual(player)
        assert "WRONG" in shown.getvalue()
