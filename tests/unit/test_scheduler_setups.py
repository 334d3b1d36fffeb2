"""Setups of kube-scheduler as people have them: changed and put back, or refused with a way that works."""

from __future__ import annotations

import asyncio
import io
import re
from pathlib import Path
from typing import Any

import pytest

from gcushare.config_manager.command_line import main
from gcushare.config_manager.scheduler_config.versions import parse_image_version
from gcushare.core.errors import ConfigError, GcushareError, Refused
from gcushare.runtime.entry import ProcessContext
from tests.unit.config_manager_host import EXTENDER, SETUP_FILES, Host, each_of, load_yaml

SETUPS = {path.stem: load_yaml(path.read_text()) for path in sorted(SETUP_FILES.glob("*.yaml"))}
CHANGED = [name for name, setup in SETUPS.items() if "refused" not in setup]
REFUSED = [(name, number) for name, setup in SETUPS.items() for number in range(len(setup.get("advised", ())))]
OURS = "http://10.96.1.37:32766/gcushare-scheduler"
IN_EVERY_CONFIGURATION = ("apiVersion", "kind", "extenders")


def host_of(root: Path, setup: dict[str, Any]) -> Host:
    target = setup.get("unit") or setup["manifest"]
    host = Host(root, target=target, manifest=setup.get("manifest"), version=setup.get("version"))
    for path, text in setup["files"].items():
        host.put(path, text)
    return host


def read_configuration(host: Host) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the running scheduler was configured with: its settings, and its extenders without ours."""
    document = load_yaml(host.scheduler.config.decode())
    extenders = document.get("extenders") or []
    assert [each["urlPrefix"] for each in extenders].count(OURS) == 1
    others = [each for each in extenders if each["urlPrefix"] != OURS]
    return {key: value for key, value in document.items() if key not in IN_EVERY_CONFIGURATION}, others


async def check_changed_and_put_back(host: Host, setup: dict[str, Any]) -> None:
    before = host.tree()
    host.scheduler.start()
    users = load_yaml(host.scheduler.config.decode()) if host.scheduler.config else {}
    await host.apply()
    assert host.scheduler.problem == ""
    settings, others = read_configuration(host)
    expected = {key: value for key, value in users.items() if key not in IN_EVERY_CONFIGURATION}
    assert settings == setup.get("settings", expected)
    assert others == (users.get("extenders") or [])
    words = iter(host.scheduler.arguments)
    assert all(each in words for each in setup.get("starts", ())), host.scheduler.arguments
    changed = {path for path, state in before.items() if host.tree()[path] != state}
    assert changed == {setup.get("changes", host.target)[1:]}
    assert not (await host.manager.prepare_apply(EXTENDER)).plan.steps
    await host.recover()
    assert host.tree() == before
    assert host.scheduler.problem == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", each_of(CHANGED))
async def test_a_setup_is_changed_keeps_every_setting_and_is_put_back(tmp_path: Path, name: str) -> None:
    await check_changed_and_put_back(host_of(tmp_path, SETUPS[name]), SETUPS[name])


@pytest.mark.parametrize(
    "lost",
    [
        pytest.param((), id="edited since"),
        pytest.param(("gcushare-config-manager.json",), id="record lost", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", each_of(CHANGED))
async def test_an_edit_of_the_changed_file_survives_the_way_back(
    tmp_path: Path, name: str, lost: tuple[str, ...]
) -> None:
    setup = SETUPS[name]
    host = host_of(tmp_path, setup)
    before = host.tree()
    await host.apply()
    path = setup.get("changes", host.target)
    host.put(path, host.get(path) + b"# later\n")
    for file in lost:
        (tmp_path / "etc/kubernetes" / file).unlink()
    assert any("only gcushare's own change was removed" in line for line in await host.recover())
    content, mode = before[path[1:]]
    assert host.tree() == {**before, path[1:]: (content + b"# later\n", mode)}


@pytest.mark.parametrize(("name", "number"), each_of(REFUSED))
async def test_a_setup_is_refused_before_any_change_and_what_is_advised_works(
    tmp_path: Path, name: str, number: int
) -> None:
    setup = SETUPS[name]
    advised = setup["advised"][number]
    host = host_of(tmp_path, setup)
    before = host.tree()
    with pytest.raises((Refused, ConfigError), match=f"(?s){setup['refused']}") as refused:
        await host.apply()
    assert host.tree() == before
    if advised == "render":
        await check_rendered(host, setup, str(refused.value))
        return
    if "file" in advised:
        host.put(advised["file"]["path"], advised["file"]["text"])
    edits = advised.get("edit", [])
    for edit in edits if isinstance(edits, list) else [edits]:
        text = host.get(edit["path"]).decode()
        assert text.count(edit["old"]) == 1
        host.put(edit["path"], text.replace(edit["old"], edit["new"]))
    if "unit" in advised:
        host = Host(tmp_path, target=advised["unit"], version=setup["version"])
    await check_changed_and_put_back(host, setup)


async def check_rendered(host: Host, setup: dict[str, Any], message: str) -> None:
    """Type the command that the message names."""
    named = re.search(r"`gcushare-config-manager (render[^`]*)`", message)
    version = setup.get("version")
    if version is None:
        version = str(parse_image_version(load_yaml(host.scheduler.text())["spec"]["containers"][0]["image"]))
    words = (named[1] if named else "render --scheduler-version VERSION").replace("VERSION", version).split()
    place = f"--unit={setup['unit']}" if "unit" in setup else f"--manifest={setup['manifest']}"
    out, errors = io.StringIO(), io.StringIO()
    argv = (*words, f"--host-root={host.root}", place, "--extender-url=http://10.96.1.37:32766")
    process = ProcessContext(argv=argv, environ={"HOME": "/nowhere"}, stdout=out, stderr=errors)
    before = host.tree()
    assert (await asyncio.to_thread(main, process), errors.getvalue()) == (0, "")
    assert host.tree() == before
    document = load_yaml(out.getvalue())
    assert [each["urlPrefix"] for each in document["extenders"]] == [OURS]
    is_policy = document["kind"] == "Policy"
    assert is_policy or out.getvalue().startswith("# gcushare does not know this scheduler's own configuration: ")


async def test_a_drop_in_that_comes_later_is_refused_until_the_change_is_taken_back(tmp_path: Path) -> None:
    host = host_of(tmp_path, SETUPS["kubeasz"])
    before = host.tree()
    await host.apply()
    drop_in = "/etc/systemd/system/kube-scheduler.service.d/50-ours.conf"
    host.put(drop_in, "[Service]\nExecStart=\nExecStart=/opt/kube/bin/kube-scheduler --kubeconfig=/etc/s.conf\n")
    text = host.get(drop_in)
    changed = host.tree()
    for act in (host.apply, host.recover):
        with pytest.raises(Refused, match="recover that one first, with this one moved away meanwhile"):
            await act()
    assert host.tree() == changed
    (tmp_path / drop_in[1:]).unlink()
    await host.recover()
    assert host.tree() == before
    host.put(drop_in, text)
    await host.apply()
    assert b"--config=" in host.get(drop_in)


@pytest.mark.parametrize(
    ("leads_to", "advised"),
    [
        ("/dev/null", "run `systemctl unmask kube-scheduler.service`"),
        ("/opt/units/kube-scheduler.service", "name that with --unit"),
        ("/lib/systemd/system/kube-scheduler.service", ""),
    ],
)
async def test_a_link_that_comes_first_is_followed_as_systemd_does(tmp_path: Path, leads_to: str, advised: str) -> None:
    setup = SETUPS["hard-way-options"]
    host = host_of(tmp_path, setup)
    before = host.tree()
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / setup["unit"][1:].replace("usr/lib", "etc")).symlink_to(leads_to)
    if advised:
        with pytest.raises(Refused, match=f"systemd reads '{leads_to}' and not .*: {advised}"):
            await host.apply()
    else:
        await host.apply()
        await host.recover()
    assert host.tree().items() >= before.items()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["units", "manifests"])
async def test_two_schedulers_of_one_host_are_changed_each_with_files_of_its_own(tmp_path: Path, kind: str) -> None:
    setup = SETUPS["kubeasz" if kind == "units" else "minikube"]
    first = host_of(tmp_path, setup)
    other = first.target.replace("kube-scheduler.", "batch-scheduler.")
    text = (
        first.get(first.target)
        .decode()
        .replace("  name: kube-scheduler\n", "  name: batch\n")
        .replace("10259", "10359")
    )
    first.put(other, text)
    first.manifest = first.target if kind == "manifests" else None
    before = first.tree()
    await first.apply()
    second = Host(tmp_path, target=other, manifest=other if kind == "manifests" else None, version=setup.get("version"))
    with pytest.raises(Refused, match="if both start a scheduler of this host, give this one --files-dir"):
        await second.apply()
    second.directory = "/etc/kubernetes/batch"
    (tmp_path / "etc/kubernetes/batch").mkdir()
    await second.apply()
    assert read_configuration(first) == read_configuration(second)
    await first.recover()
    second.directory = None
    await second.recover()
    assert first.tree() == before


async def test_a_unit_that_is_a_link_of_the_system_is_refused_with_where_to_write_its_settings(tmp_path: Path) -> None:
    host = host_of(tmp_path, SETUPS["kubeasz"])
    unit = tmp_path / host.target[1:]
    unit.unlink()
    unit.symlink_to("/nix/store/0x-unit-kube-scheduler.service/kube-scheduler.service")
    before = host.tree()
    with pytest.raises(Refused, match=r"\(NixOS\), change its own settings with what `gcushare-config-manager render`"):
        await host.apply()
    assert host.tree() == before
    assert OURS in await host.manager.render(EXTENDER)


async def test_a_merge_that_is_refused_renders_nothing_that_would_lose_the_users_settings(tmp_path: Path) -> None:
    host = host_of(tmp_path, SETUPS["hami-binds"])
    with pytest.raises(GcushareError, match="binds pods already"):
        await host.manager.render(EXTENDER)
