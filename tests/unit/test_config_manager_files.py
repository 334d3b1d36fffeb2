"""The host's files: whole writes, links, errors that say what to do, and the admin's configuration among them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gcushare.config_manager.host.files import FileState, HostFileError, HostFiles, _read_in
from gcushare.config_manager.host.paths_and_record import Layout, Record, parse_record
from gcushare.core.errors import ConfigError, Refused
from gcushare.runtime.safe_directory import SafeDirectory
from tests.limits import small_files
from tests.unit.config_manager_host import (
    ADMIN_CONFIG,
    CONFIG,
    EXTENDER,
    MANIFEST,
    TLS_EXTENDER,
    Host,
    corpus_text,
    host_with,
    systemd_host,
)

UID, GID = os.getuid(), os.getgid()


def state(content: bytes = b"new\n", mode: int = 0o640) -> FileState:
    return FileState(content, mode, UID, GID)


def test_a_write_that_the_system_cuts_off_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    files = HostFiles(tmp_path)
    files.write("/f", state(b"old\n"))
    with small_files(1000), pytest.raises(HostFileError, match="cannot write '/f'") as caught:
        files.write("/f", state(b"x" * 5000))
    assert isinstance(caught.value.__cause__, OSError)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"f": b"old\n"}


def test_links_pipes_directories_and_huge_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(5 * 1024 * 1024)
    files = HostFiles(tmp_path)
    for name, message in {
        "/link": "symbolic link to 'nowhere'",
        "/pipe": "not a regular file",
        "/folder": "not a regular file",
        "/huge": "more than",
    }.items():
        with pytest.raises(Refused, match=message):
            files.read(name)


def test_a_file_that_was_replaced_behind_a_mount_of_its_own_is_not_read(tmp_path: Path) -> None:
    class Mounted(SafeDirectory):
        def open_to_read(self, name: str) -> int:
            return os.open(tmp_path, os.O_RDWR | os.O_TMPFILE)

    with pytest.raises(Refused, match=r"'/f' was replaced on the host .* delete this pod"):
        _read_in(Mounted(-1, "/"), "f", "/f")


@pytest.mark.parametrize(
    ("directory", "target", "message"),
    [
        ("/etc/kubernetes/manifests", "/etc/kubernetes/manifests/kube-scheduler.yaml", "as a second scheduler"),
        ("etc", "/etc/x/y.yaml", "absolute path"),
        ("/etc", "/etc/../x.yaml", "absolute path"),
    ],
)
def test_places_where_the_backup_would_be_started_are_refused(directory: str, target: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Layout(directory, target)


RECORD = Record(
    target="/t",
    before_sha256="1",
    after_sha256=("2", "3"),
    flag="config",
    flag_was=None,
    config="/c",
    config_sha256=("4",),
    scheduler_version="v1.30.0",
    is_proven=True,
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "not a record"),
        (RECORD.encoded().replace(b'"version": 1', b'"version": 2'), r"did a newer version write it.*version"),
        (RECORD.encoded().replace(b'"flag":', b'"later": 1, "flag":'), "later"),
        (RECORD.encoded().replace(b'"/t"', b"5"), "target"),
        (RECORD.encoded().replace(b"true", b'"yes"'), "is_proven"),
    ],
)
def test_a_record_that_is_none_is_distinguished(content: bytes, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_record(content, "r")


SEEN = "/srv/scheduler/scheduler.yaml"
"""The host's path of the configuration; the scheduler's pod has its directory at /etc/kubernetes/admin."""


def pod_host(root: Path) -> Host:
    host = host_with(root, "existing-config-1.28.yaml")
    (root / SEEN[1:]).unlink()
    return host


def link(host: Host, path: str, target: str) -> None:
    place = host.root / path[1:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


async def test_a_configuration_that_is_a_link_in_a_volume_is_refused(tmp_path: Path) -> None:
    host = pod_host(tmp_path)
    host.put("/srv/scheduler/..2026/scheduler.yaml", ADMIN_CONFIG)
    link(host, "/srv/scheduler/..data", "..2026")
    link(host, SEEN, "..data/scheduler.yaml")
    before = host.tree()
    with pytest.raises(Refused, match=r"'/srv/scheduler/scheduler\.yaml' is a symbolic link .*; name the file itself"):
        await host.manager.prepare_apply(EXTENDER)
    assert host.tree() == before


async def test_a_configuration_in_a_volume_whose_source_is_a_link_is_the_one_that_is_merged(tmp_path: Path) -> None:
    host = pod_host(tmp_path)
    (tmp_path / "srv/scheduler").rename(tmp_path / "srv/scheduler-7")
    host.put("/srv/scheduler-7/scheduler.yaml", ADMIN_CONFIG)
    link(host, "/srv/scheduler", "scheduler-7")
    written = (await host.manager.prepare_apply(EXTENDER)).config.decode()
    assert "schedulerName: batch" in written
    assert "gcushare-scheduler" in written


def host_of_user(root: Path, lines: str) -> Host:
    """A host that knows the user kube, with these lines in its unit."""
    host = systemd_host(root)
    host.put("/etc/passwd", "root:x:0:0::/root:/bin/sh\nkube:x:998:997:Kubernetes:/:/sbin/nologin\n")
    host.put(host.target, host.get(host.target).decode().replace("[Service]\n", f"[Service]\n{lines}\n"))
    return host


def can_read(path: Path, uid: int, gid: int) -> bool:
    status = path.stat()
    shift = 6 if status.st_uid == uid else 3 if status.st_gid == gid else 0
    return bool(status.st_mode >> shift & 4)


def rootless(container: str = "", pod: str = "") -> str:
    """A manifest with these security contexts."""
    text = corpus_text("kubeadm-1.29.yaml").decode()
    text = text.replace("    name: kube-scheduler\n    res", f"    name: kube-scheduler\n{container}    res", 1)
    return text.replace("\n  securityContext:\n", f"\n  securityContext:\n{pod}", 1)


def own(*lines: str) -> str:
    return "".join(["    securityContext:\n", *(f"      {line}\n" for line in lines)])


NONROOT = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: run as root")


@NONROOT
@pytest.mark.parametrize(
    ("text", "uid"),
    [
        pytest.param(rootless(pod="    runAsUser: 999\n"), 999, id="pod's user"),
        pytest.param(rootless(own("runAsUser: 1001"), "    runAsUser: 999\n"), 1001, id="container's user first"),
        pytest.param(rootless(own("runAsUser: 0"), "    runAsUser: 999\n"), 0, id="container is root again"),
    ],
)
async def test_a_scheduler_in_a_pod_that_is_not_root_can_read_its_client_key(
    tmp_path: Path, text: str, uid: int
) -> None:
    host = Host(tmp_path)
    host.put(MANIFEST, text)
    before = host.tree()
    await host.apply(TLS_EXTENDER)
    config = tmp_path / CONFIG[1:]
    assert can_read(config, uid, uid)
    assert not can_read(config, 5555, 5555)
    assert can_read(config, 0, 0), "root without capabilities"
    assert not (await host.manager.prepare_apply(TLS_EXTENDER)).plan.steps
    await host.recover()
    assert host.tree() == before


@NONROOT
@pytest.mark.parametrize(
    ("lines", "uid"),
    [
        pytest.param("User=kube", 998, id="name"),
        pytest.param("User=998", 998, id="number"),
        pytest.param("User=kube\nUser=", 0, id="root again"),
    ],
)
async def test_a_unit_that_is_not_root_can_read_its_client_key(tmp_path: Path, lines: str, uid: int) -> None:
    host = host_of_user(tmp_path, lines)
    await host.apply(TLS_EXTENDER)
    config = tmp_path / CONFIG[1:]
    assert can_read(config, uid, uid)
    assert not can_read(config, 5555, 5555)


@pytest.mark.parametrize("lines", ["User=from-ldap", "User=%b", "DynamicUser=yes"])
async def test_a_key_for_a_user_that_the_host_does_not_know_is_refused_before_any_change(
    tmp_path: Path, lines: str
) -> None:
    host = host_of_user(tmp_path, lines)
    before = host.tree()
    with pytest.raises(Refused, match=r"holds a private key, and this host does not know the user .*runAsUser"):
        await host.manager.prepare_apply(TLS_EXTENDER)
    assert host.tree() == before
    await host.apply(EXTENDER)
    assert host.tree()[CONFIG[1:]][1] == 0o644, "without a key everyone may read it"


@NONROOT
async def test_a_copy_belongs_to_its_originals_owner_and_group(tmp_path: Path) -> None:
    host = host_with(tmp_path, "existing-config-1.28.yaml")
    (tmp_path / SEEN[1:]).chmod(0o640)
    os.chown(tmp_path / SEEN[1:], 0, 997)
    await host.apply()
    status = (tmp_path / CONFIG[1:]).stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o777) == (0, 997, 0o640)
