"""The admin's own configuration: found as the scheduler finds it, through links and mounts, and copied no wider."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gcushare.core.errors import ConfigError, Refused
from tests.unit.config_manager_host import (
    ADMIN_CONFIG,
    CONFIG,
    EXTENDER,
    MANIFEST,
    Host,
    corpus_text,
    host_with,
    systemd_host,
)

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


def same_directory(host: Host) -> None:
    host.put("/srv/scheduler/v2.yaml", ADMIN_CONFIG)
    link(host, SEEN, "v2.yaml")


def chain(host: Host) -> None:
    host.put("/srv/scheduler/v3.yaml", ADMIN_CONFIG)
    link(host, SEEN, "./current")
    link(host, "/srv/scheduler/current", "../admin/v3.yaml")  # the pod's name of the directory


def published_directory(host: Host) -> None:
    host.put("/srv/scheduler/..2026/scheduler.yaml", ADMIN_CONFIG)
    link(host, "/srv/scheduler/..data", "..2026")
    link(host, SEEN, "..data/scheduler.yaml")


def path_of_the_pod(host: Host) -> None:
    host.put("/srv/scheduler/v4.yaml", ADMIN_CONFIG)
    link(host, SEEN, "/etc/kubernetes/admin/v4.yaml")


def source_of_the_mount(host: Host) -> None:
    (host.root / "srv/scheduler").rename(host.root / "srv/scheduler-7")
    host.put("/srv/scheduler-7/scheduler.yaml", ADMIN_CONFIG)
    link(host, "/srv/scheduler", "scheduler-7")


@pytest.mark.parametrize(
    "place",
    [same_directory, chain, published_directory, path_of_the_pod, source_of_the_mount],
    ids=lambda it: it.__name__,
)
async def test_a_configuration_behind_links_is_the_one_that_is_merged(
    tmp_path: Path, place: Callable[[Host], None]
) -> None:
    host = pod_host(tmp_path)
    place(host)
    written = (await host.manager.prepare_apply(EXTENDER)).config.decode()
    assert "schedulerName: batch" in written
    assert "gcushare-scheduler" in written


async def test_applying_and_recovering_leave_the_link_and_its_file(tmp_path: Path) -> None:
    host = pod_host(tmp_path)
    same_directory(host)
    before = host.tree()
    await host.apply()
    await host.recover()
    assert host.tree() == before
    assert (tmp_path / SEEN[1:]).readlink() == Path("v2.yaml")


async def test_a_mounted_file_that_is_a_link_on_the_host_is_followed_there(tmp_path: Path) -> None:
    text = corpus_text("existing-config-1.28.yaml").decode()
    host = Host(tmp_path)
    host.put(
        MANIFEST,
        text.replace("path: /srv/scheduler\n", f"path: {SEEN}\n").replace(
            "mountPath: /etc/kubernetes/admin\n", "mountPath: /etc/kubernetes/admin/scheduler.yaml\n"
        ),
    )
    (tmp_path / SEEN[1:]).unlink()
    host.put("/opt/real.yaml", ADMIN_CONFIG)
    link(host, SEEN, "../../opt/real.yaml")
    await host.apply()
    assert "schedulerName: batch" in host.get(CONFIG).decode()


async def test_links_of_a_unit_are_followed_on_the_host(tmp_path: Path) -> None:
    host = systemd_host(tmp_path, version="v1.30.0")
    unit = host.get(host.target).decode().replace("--v=2", "--config=/etc/sched/now/s.yaml")
    host.put(host.target, unit)
    host.put("/opt/sched/7/s.yaml", ADMIN_CONFIG)
    link(host, "/etc/sched", "/opt/sched")
    link(host, "/opt/sched/now", "7")
    await host.apply()
    assert "schedulerName: batch" in host.get(CONFIG).decode()


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("/opt/outside.yaml", Refused, "through a symbolic link to '/opt/outside.yaml' is not a file of the host"),
        ("gone.yaml", ConfigError, "'/srv/scheduler/gone.yaml'.* does not exist here"),
        ("scheduler.yaml", ConfigError, "they lead in a circle"),
    ],
)
async def test_a_link_that_leads_nowhere_is_refused_with_where_it_leads(
    tmp_path: Path, target: str, error: type[Exception], message: str
) -> None:
    host = pod_host(tmp_path)
    host.put("/opt/outside.yaml", ADMIN_CONFIG)
    link(host, SEEN, target)
    before = host.tree()
    with pytest.raises(error, match=message):
        await host.manager.prepare_apply(EXTENDER)
    assert host.tree() == before
