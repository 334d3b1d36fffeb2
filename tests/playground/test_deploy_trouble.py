"""The scripts of the packages where something is not as usual: another helm, an API that fails, nodes far away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.charts import HELM
from tests.playground.deploy_bench import EXTENDER, PLUGIN, Bench, started_bench
from tests.playground.deploy_rig import KUBECTL, MANAGER, needs_tools

pytestmark = [needs_tools, pytest.mark.slow]

HELM_4 = f"""
case $1 in
version) echo v4.1.4; exit ;;
list) [[ " $* " != *" --all "* ]] || {{ echo "Error: unknown flag: --all" >&2; exit 1; }}; set -- "$@" --all ;;
esac
words=()
for word in "$@"; do [ "$word" = --server-side=false ] && is_merged=yes || words+=("$word"); done
if [ "$1" = upgrade ] && [ -z "$is_merged" ]; then echo "Error: conflict with kubectl-patch: .data.mode" >&2; exit 1; fi
exec {HELM} "${{words[@]}}"
"""
"""Helm 4 as far as the scripts notice: what it does not know, and what it refuses after another wrote a field."""


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with started_bench(tmp_path) as started:
        yield started


async def test_helm_4_installs_upgrades_and_uninstalls_too(bench: Bench) -> None:
    bench.put_tool("helm", HELM_4)
    words = ("--nodes", "all", "--delivery", "none")
    for said in ("STATUS: deployed", "has been upgraded"):
        done = await bench.run(PLUGIN, "deploy.sh", *words)
        assert (done.code, said in done.out) == (0, True), done
    done = await bench.run(PLUGIN, "delete.sh")
    assert (done.code, f'release "{PLUGIN}" uninstalled' in done.out) == (0, True), done


async def test_a_helm_that_is_not_known_is_refused(bench: Bench) -> None:
    bench.put_tool("helm", "echo v5.0.0")
    done = await bench.run(PLUGIN, "delete.sh")
    assert (done.code, "helm is not version 3 or 4" in done.errors) == (1, True), done


@pytest.mark.parametrize(
    ("tool", "call", "reason"),
    [
        pytest.param("helm", "list", f"cannot be seen whether release {PLUGIN} is installed", id="releases"),
        pytest.param("kubectl", "get nodes", "the nodes cannot be listed", id="nodes"),
    ],
)
async def test_what_cannot_be_seen_is_not_taken_for_what_is_not_there(
    bench: Bench, tool: str, call: str, reason: str
) -> None:
    await bench.run(PLUGIN, "deploy.sh", "--nodes", "all", "--delivery", "none")
    real = {"helm": HELM, "kubectl": KUBECTL}[tool]
    bench.put_tool(tool, f'[[ "$* " != "{call} "* ]] || {{ echo "Error: timed out" >&2; exit 1; }}; exec {real} "$@"')
    done = await bench.run(PLUGIN, "delete.sh")
    assert (done.code, reason in done.errors) == (1, True), done
    assert "is not installed" not in done.out
    assert bench.labelled() == {"n1", "n2"}


async def test_schedulers_that_cannot_be_asked_about_are_not_taken_for_unchanged(bench: Bench) -> None:
    bench.put_tool("kubectl", f'[ "$1 $2" != "get configmap" ] || exit 1; exec {KUBECTL} "$@"')
    done = await bench.run(EXTENDER, "deploy.sh", "--delivery", "none")
    assert (done.code, "cannot be seen whether kube-schedulers are changed" in done.errors) == (1, True), done
    done = await bench.run(EXTENDER, "delete.sh")
    assert (done.code, "cannot be seen whether kube-schedulers were changed" in done.errors) == (1, True), done
    assert bench.site.names("daemonsets.apps") == {MANAGER}
