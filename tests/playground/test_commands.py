"""Every command as a person meets it: --help, --version, a wrong flag, and SIGTERM."""

from __future__ import annotations

import asyncio
import importlib
import io
import re
import signal
import subprocess
import tomllib
from pathlib import Path

import pytest

from gcushare._version import __version__
from gcushare.cli import subcommands as gcushare
from gcushare.core.units import GIB
from gcushare.runtime.entry import ProcessContext
from gcushare_playground.plans import ClusterPlan, NodePlan
from tests.playground.clusters import BIN, started

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
SCRIPTS: dict[str, str] = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]
COMMANDS = sorted(SCRIPTS)
SUBCOMMANDS = [["gcushare", name] for name in gcushare.SUBCOMMANDS]
EVERY = [[name] for name in COMMANDS] + SUBCOMMANDS


def run_here(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process: most of what such a run takes is Python's own start."""
    module, function = SCRIPTS[words[0]].split(":")
    stdout, stderr = io.StringIO(), io.StringIO()
    process = ProcessContext(argv=words[1:], stdout=stdout, stderr=stderr)
    code = getattr(importlib.import_module(module), function)(process)
    return subprocess.CompletedProcess(words, code, stdout.getvalue(), stderr.getvalue())


FURTHER_NAMES = {
    "gpushare-device-plugin-v2": "gcushare-device-plugin",
    "gpushare-sche-extender": "gcushare-scheduler-extender",
    "kubectl-inspect-gpushare-v2": "kubectl-inspect-gpushare",
}
"""Names under which others start our programs, which go on under their own."""


def name_of(words: list[str]) -> str:
    """The command as a person types it: kubectl finds its plugins by their files' names."""
    return " ".join(FURTHER_NAMES.get(word, word) for word in words).replace("kubectl-inspect-", "kubectl inspect ")


@pytest.mark.parametrize("words", EVERY, ids=name_of)
def test_version_is_one_line_with_the_commands_name(words: list[str]) -> None:
    ended = run_here(*words, "--version")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"{name_of(words)} {__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_each_installed_file_starts(name: str) -> None:
    ended = subprocess.run([BIN / name, "--version"], capture_output=True, text=True, timeout=120)
    assert ended.stdout == f"{name_of([name])} {__version__}\n"


@pytest.mark.parametrize("words", EVERY, ids=name_of)
def test_a_wrong_flag_is_named_on_stderr_with_code_2(words: list[str]) -> None:
    ended = run_here(*words, "--no-such-flag")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: ")
    assert "--no-such-flag" in ended.stderr


def test_a_wrong_subcommand_names_the_known_ones_and_the_nearest() -> None:
    ended = run_here("gcushare", "dmeo")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.search(r"'dmeo'.*known commands: .*demo.*Did you mean 'demo'", ended.stderr)


@pytest.mark.slow
async def test_sigterm_ends_extender_and_plugin_in_order_within_seconds() -> None:
    async with started(ClusterPlan(nodes=(NodePlan(name="n0", card_bytes=(16 * GIB,)),))) as census:
        await census.create("p", 4)
        await census.wait_quiet(1)
        for child in list(census.cluster.programs()):
            child.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                code = await child.wait()
            assert code == 0, child.describe_tail()
            assert "signal SIGTERM" in child.log_file.read_text()
        assert list(census.problems()) == [], "the running pod keeps its card while the programs are away"
