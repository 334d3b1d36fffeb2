"""Apply and recover on a node's real files: what is printed, what is left, what a second run does."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest

from gcushare.config_manager.host.files import HostFileError
from gcushare.config_manager.host.launch import health_endpoint
from gcushare.config_manager.host.running_scheduler import SchedulerUnknownError
from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.plan.execute import RolledBackError
from gcushare.core.errors import Refused
from tests.unit.config_manager_host import (
    CONFIG,
    EACH_OF_CORPUS,
    EXTENDER,
    MANIFEST,
    MOVED_EXTENDER,
    OWN_DIRECTORY,
    POLICY,
    host_in_own_directory,
    host_with,
    load_yaml,
)

BACKUP = "/etc/kubernetes/kube-scheduler.back.yaml"


@pytest.mark.parametrize("directory", ["/etc/kubernetes", OWN_DIRECTORY])
async def test_the_lines_of_applying_and_recovering_are_the_manuals(tmp_path: Path, directory: str) -> None:
    host = host_with(tmp_path, "kubeadm-1.20.yaml")
    host.directory = directory
    (tmp_path / directory[1:]).mkdir(exist_ok=True)

    def place(name: str, says: str = "") -> str:
        """A file's path, with the manual's behind it if that is another."""
        # A manifest is edited where the kubelet ignores it, and then has the name of the line.
        edited = MANIFEST if not says else MANIFEST.replace("kube-s", ".kube-s") + ".gcushare-tmp"
        is_manuals, is_manifest = directory == "/etc/kubernetes", name == "/kube-scheduler.yaml"
        path = edited if is_manifest and not is_manuals else f"{directory}{name}"
        return f"{path}{says}" + ("" if is_manuals else f" (in the manual /etc/kubernetes{name})")

    def gone(name: str) -> str:
        return f"stat {place(name, ': no such file or directory')}"

    policy, backup, edited = "/scheduler-extender-config.json", "/kube-scheduler.back.yaml", "/kube-scheduler.yaml"
    assert await host.apply() == [
        "start modify scheduler config...",
        "check current k8s cluster version is v1.20.0",
        f"copy scheduler extender config file success, for detail, see {place(policy)}",
        gone(backup),
        f"backup kube-scheduler.yaml success, for detail, see {place(backup)}",
        f"modify scheduler pod yaml template success, for detail, see {place(edited)}",
        "modify kube-scheduler config finish, for detail, see /etc/kubernetes/manifests/kube-scheduler.yaml",
    ]
    assert await host.recover() == [
        "start recover scheduler config...",
        "check current k8s cluster version is v1.20.0",
        "recover default scheduler success, for detail, see /etc/kubernetes/manifests/kube-scheduler.yaml",
        *map(gone, (backup, edited, policy, "/scheduler-extender-config-v1.23+.yaml")),
        f"delete all scheduler config file success, for detail, see {place('')}",
    ]


@pytest.mark.parametrize("name", EACH_OF_CORPUS)
async def test_applying_again_changes_nothing_and_recovering_leaves_every_file_as_it_was(
    tmp_path: Path, name: str
) -> None:
    host = host_with(tmp_path, name)
    before = host.tree()
    await host.apply()
    applied, starts = host.tree(), host.scheduler.starts
    assert applied != before
    assert host.scheduler.problem == ""
    lines = await host.apply()
    assert host.tree() == applied
    assert host.scheduler.starts == starts
    assert lines[-1] == "the scheduler's configuration is as it should be, nothing to change"
    await host.recover()
    assert host.tree() == before
    assert host.scheduler.problem == ""


@pytest.mark.parametrize(
    ("name", "is_edited"),
    [("kubeadm-1.20.yaml", True), ("kubeadm-1.29.yaml", False), ("existing-config-1.28.yaml", True)],
)
async def test_a_second_installation_for_another_vendor_takes_nothing_from_the_first(
    tmp_path: Path, name: str, is_edited: bool
) -> None:
    host = host_with(tmp_path, name)
    original = host.tree()
    await host.apply()
    path = POLICY if "1.20" in name else CONFIG
    if is_edited:
        host.put(path, host.get(path) + b"\n", mode=0o644)
    before = host.tree()
    with pytest.raises(Refused, match=r"calls 'http://10\.96\.1\.37:32766/gcushare-scheduler' .*vendor: both"):
        await host.apply(replace(MOVED_EXTENDER, options=ExtenderOptions(vendor="aliyun")))
    assert host.tree() == before
    await host.apply(replace(MOVED_EXTENDER, options=ExtenderOptions(vendor="both")))
    assert b"10.96.200.8:32766/gcushare-scheduler" in host.get(path)
    await host.recover()
    assert {key: state for key, state in host.tree().items() if not key.endswith(".edited")} == original


@pytest.mark.parametrize(
    ("old", "new", "is_edited"), [("enflame", "aliyun", True), ("both", "aliyun", False)], ids=["edited", "as written"]
)
async def test_one_extender_may_come_to_serve_another_vendor(
    tmp_path: Path, old: str, new: str, is_edited: bool
) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    await host.apply(replace(EXTENDER, options=ExtenderOptions(vendor=old)))
    if is_edited:
        host.put(CONFIG, host.get(CONFIG) + b"percentageOfNodesToScore: 70\n", mode=0o644)
    serving = replace(EXTENDER, options=ExtenderOptions(vendor=new))
    await host.apply(serving)
    document = load_yaml(host.scheduler.config.decode())
    (entry,), (vendor,) = document["extenders"], serving.options.vendors
    assert entry["urlPrefix"] == EXTENDER.url + vendor.url_prefix
    assert [each["name"] for each in entry["managedResources"]] == [vendor.memory_resource]
    assert ("percentageOfNodesToScore" in document) is is_edited


async def test_an_edit_that_left_our_change_whole_costs_no_second_restart(tmp_path: Path) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    await host.apply()
    edited = host.get(MANIFEST).replace(
        b"    - --config=/etc/kubernetes/scheduler-extender-config-v1.23+.yaml\n",
        b"    - --config=/etc/kubernetes/scheduler-extender-config-v1.23+.yaml\n    - --v=4\n",
    )
    host.put(MANIFEST, edited)
    await host.scheduler.poll(health_endpoint(()))
    starts = host.scheduler.starts
    await host.apply()
    assert (host.get(MANIFEST), host.scheduler.starts) == (edited, starts)
    await host.recover()
    assert b"--v=4\n" in host.get(MANIFEST)
    assert b"--config" not in host.get(MANIFEST)


async def test_a_rollback_needs_no_space_on_the_disk(tmp_path: Path) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    before = host.tree()
    host.scheduler.refuses = "gcushare-scheduler"

    def fill_after_the_switch(count: int, path: str) -> None:
        if count > 5 and (tmp_path / path[1:]).parent.name != "manifests" and path not in removable:
            raise HostFileError("write", path, OSError(errno.ENOSPC, "full"))

    removable = {CONFIG, "/etc/kubernetes/gcushare-config-manager.json"}
    host.files.fail = fill_after_the_switch
    with pytest.raises(RolledBackError, match="is healthy again"):
        await host.apply()
    assert host.tree() == before


@pytest.mark.parametrize("record", [None, '{"version": 1, "tar'], ids=["gone", "broken"])
async def test_without_its_record_recovering_still_ends_right(tmp_path: Path, record: str | None) -> None:
    host = host_with(tmp_path, "existing-config-1.28.yaml")
    before = host.tree()
    await host.apply()
    path = "/etc/kubernetes/gcushare-config-manager.json"
    (tmp_path / path[1:]).unlink() if record is None else host.put(path, record)
    lines = await host.recover()
    assert any("is not used" in line for line in lines) is (record is not None)
    assert host.tree() == before


async def test_without_record_and_backup_a_scheduler_that_reads_no_other_file_is_repaired(tmp_path: Path) -> None:
    host = host_with(tmp_path, "kubeadm-1.20.yaml")
    before = host.tree()
    for lost in (host.apply, host.recover):
        await host.apply()
        (tmp_path / "etc/kubernetes/gcushare-config-manager.json").unlink()
        (tmp_path / BACKUP[1:]).unlink()
        await lost()
    assert host.tree() == before


async def test_without_record_and_backup_the_former_configuration_is_asked_for(tmp_path: Path) -> None:
    host = host_with(tmp_path, "existing-config-1.28.yaml")
    before = host.tree()
    await host.apply()
    (tmp_path / "etc/kubernetes/gcushare-config-manager.json").unlink()
    host.put(BACKUP, "")
    with pytest.raises(Refused, match=f"{BACKUP}: .* the document is empty: put the former value in place"):
        await host.apply()
    (tmp_path / BACKUP[1:]).unlink()
    with pytest.raises(Refused, match="is gone: put the former value in place of gcushare's"):
        await host.recover()
    host.put(MANIFEST, host.get(MANIFEST).replace(CONFIG.encode(), b"/etc/kubernetes/admin/scheduler.yaml", 1))
    await host.recover()
    assert host.tree() == before


@pytest.mark.parametrize("name", ["kubeadm-1.20.yaml", "existing-config-1.28.yaml"])
async def test_a_scheduler_that_does_not_come_up_is_rolled_back_with_the_reason(tmp_path: Path, name: str) -> None:
    host = host_with(tmp_path, name)
    before = host.tree()
    host.scheduler.refuses = "gcushare-scheduler"
    started = host.manual_clock.seconds
    with pytest.raises(RolledBackError, match=r"did not come up within 180 s: kube-scheduler ended.*is healthy again"):
        await host.apply()
    assert host.tree() == before
    assert host.manual_clock.seconds - started < 400


async def test_a_change_is_rolled_back_also_if_the_scheduler_is_seen_no_more(tmp_path: Path) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    before = host.tree()

    def fail_from_the_restart_on() -> None:
        if host.scheduler.starts > 1:
            raise SchedulerUnknownError("answered 500")

    host.scheduler.on_poll = fail_from_the_restart_on
    with pytest.raises(RolledBackError, match=r"180 s: answered 500; rolled back, but .* 180 s: answered 500"):
        await host.apply()
    assert host.tree() == before


async def test_nothing_is_changed_if_it_cannot_be_known_which_scheduler_runs(tmp_path: Path) -> None:
    """Else the one that runs before the change would pass as started again after it."""
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    await host.apply()
    applied, looks = host.tree(), iter("1")

    def fail_once() -> None:
        if next(looks, None) is not None:
            raise SchedulerUnknownError("answered 500")

    host.scheduler.on_poll = fail_once
    with pytest.raises(SchedulerUnknownError):
        await host.apply(MOVED_EXTENDER)
    assert host.tree() == applied


async def test_with_a_directory_of_our_own_nothing_else_of_the_control_plane_is_touched(tmp_path: Path) -> None:
    host = host_in_own_directory(tmp_path)
    before = host.tree()
    seen: set[str] = set()
    in_kubelets: set[str] = set()

    def look() -> None:
        in_kubelets.update(path.name for path in (tmp_path / MANIFEST[1:]).parent.iterdir())

    host.files.fail = lambda _number, path: seen.add(path)
    host.files.after = look
    await host.apply()
    assert f"--config={OWN_DIRECTORY}/scheduler-extender-config-v1.23+.yaml" in host.scheduler.arguments
    await host.recover()
    assert host.tree() == before
    assert host.files.changes > 0
    assert {path for path in seen if not path.startswith(f"{OWN_DIRECTORY}/")} == {MANIFEST}
    assert {name for name in in_kubelets if not name.startswith(".")} == {"kube-scheduler.yaml"}, "it would start more"


@pytest.mark.parametrize(("first", "then"), [("/etc/kubernetes", OWN_DIRECTORY), (OWN_DIRECTORY, "/etc/kubernetes")])
async def test_a_change_whose_files_lie_elsewhere_is_not_changed_again_but_named(
    tmp_path: Path, first: str, then: str
) -> None:
    host = host_in_own_directory(tmp_path)
    host.directory = first
    await host.apply()
    before = host.tree()
    host.directory = then
    for act in (host.apply, host.recover):
        with pytest.raises(Refused, match=f"recover it there first \\(--files-dir {first};"):
            await act()
    assert host.tree() == before
    host.directory = None
    await host.recover()
    assert "--config" not in " ".join(host.scheduler.arguments)
    host.directory = then
    await host.apply()
