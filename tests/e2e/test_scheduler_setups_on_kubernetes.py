"""A real kube-scheduler reads what config-manager wrote: every setting of the user is still there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gcushare.config_manager.host.launch import scheduler_flags
from gcushare.config_manager.scheduler_config.document import READ_FLAGS
from tests.e2e.assets import need_binaries
from tests.unit.config_manager_host import Host, load_yaml
from tests.unit.test_scheduler_setups import CHANGED, OURS, SETUPS, host_of

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
users: [{name: u, user: {token: t}}]
"""
READABLE = [
    name
    for name in CHANGED
    if "Coscheduling" not in str(SETUPS[name]["files"])  # a plugin that upstream's scheduler does not have
    and not re.search(r"v1\.(19|2[0-4])\.", str(SETUPS[name]))
]
"""Setups whose configuration a scheduler of today reads."""


async def run(binary: Path, *arguments: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        binary, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(30):
        out, _ = await process.communicate()
    return process.returncode, out.decode()


async def written_configuration(binary: Path, host: Host, folder: Path) -> dict[str, Any]:
    """Start the real scheduler with the present files, and have it write the configuration that it would run with."""
    folder.mkdir()
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    host.scheduler.start()
    config = re.sub(r'(kubeconfig"?: *"?)[^"\s,}]+', rf"\g<1>{kubeconfig}", host.scheduler.config.decode())
    (folder / "config.yaml").write_text(config)
    values = {"kubeconfig": str(kubeconfig), "config": str(folder / "config.yaml") if config else ""}
    flags = scheduler_flags(host.scheduler.arguments)
    words = [f"--{flag.name}={values.get(flag.name, flag.value)}" for flag in flags if flag.name in READ_FLAGS]
    out = folder / "out.yaml"
    # Some configurations name no kubeconfig; the scheduler calls no one before it has written its configuration.
    code, text = await run(binary, *words, "--master=https://127.0.0.1:1", f"--write-config-to={out}")
    assert code == 0, f"{words}: {text}"
    return dict(load_yaml(out.read_text()))


@pytest.mark.parametrize("name", READABLE)
async def test_a_real_scheduler_still_has_every_setting_of_the_user(tmp_path: Path, name: str) -> None:
    binary = need_binaries("kube-scheduler")["kube-scheduler"]
    host = host_of(tmp_path / "host", SETUPS[name])
    before = await written_configuration(binary, host, tmp_path / "before")
    await host.apply()
    after = await written_configuration(binary, host, tmp_path / "after")
    extenders = after.pop("extenders")
    assert [each["urlPrefix"] for each in extenders].count(OURS) == 1
    assert [each for each in extenders if each["urlPrefix"] != OURS] == before.pop("extenders", [])
    for document, folder in ((before, "before"), (after, "after")):
        if not document["enableProfiling"]:
            document.pop("enableContentionProfiling")  # has no effect then, and another default as a flag
        assert document["clientConnection"].pop("kubeconfig") in ("", str(tmp_path / folder / "kubeconfig"))
    assert after == before


async def test_it_is_known_of_every_flag_whether_it_takes_the_next_argument(tmp_path: Path) -> None:
    binary = need_binaries("kube-scheduler")["kube-scheduler"]
    _, text = await run(binary, "--help")
    names = sorted(set(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)", text, re.MULTILINE)) - {"help", "version"})
    assert len(names) > 50
    switches = await find_switches(binary, names, tmp_path / "none.yaml")
    read = {name for name in names if scheduler_flags(["kube-scheduler", f"--{name}", "x"])[0].value == "true"}
    assert read == switches


async def find_switches(binary: Path, names: Sequence[str], missing: Path) -> set[str]:
    """Which flags may stand last and alone; the others need an argument. None of these starts a scheduler."""
    found = set()
    for name in names:
        code, text = await run(binary, f"--config={missing}", f"--{name}")
        assert code != 0
        if "flag needs an argument" not in text:
            found.add(name)
    return found
