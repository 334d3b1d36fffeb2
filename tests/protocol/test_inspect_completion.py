"""Completion: what may stand next, asked through kubectl's own completion, and directly."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.api_objects import an_object
from tests.extender_objects import pod_document
from tests.protocol.commands import Ran, run_program
from tests.protocol.inspect_rig import Cluster, a_node, bound_pod, cluster, in_namespace

KUBECTL = shutil.which("kubectl")


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path) as found:
        found.put(an_object("Namespace", "team"))
        found.put(a_node("node-1", 16), a_node("node-2", 16), bound_pod("a", "node-1", 0, 4), pod_document("wait", 20))
        found.put(in_namespace(bound_pod("t", "node-2", 0, 1), "team"), pod_document("no-cards", None))
        yield found


def install(folder: Path) -> Path:
    """Put both commands into a directory, as the package's installation does."""
    folder.mkdir()
    entries = {"kubectl-inspect-gcushare": "main_gcushare", "kubectl_complete-inspect-gcushare": "complete_gcushare"}
    for name, function in entries.items():
        script = folder / name
        code = f"import sys\nfrom gcushare.cli.inspect.__main__ import {function}\nsys.exit({function}())\n"
        script.write_text(f"#!{sys.executable}\n{code}")
        script.chmod(0o755)
    return folder


async def run(found: Cluster, folder: Path, *command: str) -> Ran:
    environ = {**found.environ(), "HOME": str(folder), "PATH": f"{folder}:{os.environ['PATH']}"}
    return await run_program(*command, environ=environ)


# A shell and a command as processes.
@pytest.mark.slow
@pytest.mark.skipif(KUBECTL is None, reason="no kubectl in PATH: install one to run this test")
async def test_kubectl_runs_the_plugin_and_completes_it(seen: Cluster, tmp_path: Path) -> None:
    folder = install(tmp_path / "bin")
    assert KUBECTL is not None
    code, out, _ = await run(seen, folder, KUBECTL, "inspect", "gcushare", "node-1", "--source", "api")
    assert code == 0
    assert out.splitlines()[-1] == "4/16 (25%)  "
    code, out, err = await run(seen, folder, KUBECTL, "__complete", "inspect", "gcushare", "explain", "w")
    assert code == 0, err
    assert out.splitlines()[0].split("\t") == ["wait", "waits"]
    assert out.splitlines()[-1] == ":4"
