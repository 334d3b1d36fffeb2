"""What people are shown: the scheduler's status as it is now, and a configuration to use by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gcushare.config_manager.host.running_scheduler import PollResult, Running, SchedulerUnknownError
from gcushare.config_manager.status import show_status
from tests.unit.config_manager_host import (
    ADMIN_CONFIG,
    CONFIG,
    EXTENDER,
    MANIFEST,
    UNIT,
    Host,
    corpus_text,
    host_with,
    load_yaml,
    systemd_host,
)

BASE = "/srv/scheduler/scheduler.yaml"
OURS = "- urlPrefix: http://10.96.1.37:32766/gcushare-scheduler\n  bindVerb: bind\n"


async def status(host: Host) -> tuple[int, dict[str, str]]:
    """The exit code, and the printed lines by their first word."""
    lines: list[str] = []
    code = await show_status(host.manager, lines.append)
    return code, {name: rest for name, _, rest in (line.partition(": ") for line in lines)}


def upgraded(host: Host) -> None:
    host.put(MANIFEST, host.get(MANIFEST).replace(b":v1.28.4", b":v1.30.1"))


def dead(host: Host) -> None:
    seen = Running("1@2", host.scheduler.arguments)
    host.scheduler.shows = PollResult(seen, "https://127.0.0.1:10259/healthz does not answer")


def base_gone(host: Host) -> None:
    (host.root / BASE[1:]).unlink()


def ours_edited(host: Host) -> None:
    host.put(CONFIG, host.get(CONFIG) + b"percentageOfNodesToScore: 70\n", mode=0o644)


def ours_gone(host: Host) -> None:
    (host.root / CONFIG[1:]).unlink()


def rewritten(host: Host) -> None:
    host.put(MANIFEST, corpus_text("existing-config-1.28.yaml"))


CHANGES: list[tuple[Callable[[Host], None], int, dict[str, str]]] = [
    (lambda host: None, 0, {"scheduler": f"{MANIFEST}, v1.28.4, healthy", "proven": "yes"}),
    (upgraded, 0, {"scheduler": f"{MANIFEST}, v1.30.1, healthy"}),
    (dead, 1, {"used by the running scheduler": "no, https://127.0.0.1:10259/healthz does not answer"}),
    (base_gone, 0, {"note": "recover would be refused now: without gcushare's change kube-scheduler would end"}),
    (ours_edited, 0, {"edited": f"{CONFIG} has an edit by hand", "proven": f"no, {CONFIG} was edited since"}),
    (ours_gone, 0, {"proven": "no, gcushare's configuration is gone"}),
    (rewritten, 1, {"extender": "not configured", "proven": f"no, {MANIFEST} does not contain gcushare's change"}),
]


@pytest.mark.parametrize(("change", "code", "says"), CHANGES, ids=[each[0].__name__ for each in CHANGES])
async def test_what_changed_since_the_change_is_said(
    tmp_path: Path, change: Callable[[Host], None], code: int, says: dict[str, str]
) -> None:
    host = host_with(tmp_path, "existing-config-1.28.yaml")
    await host.apply()
    change(host)
    got, lines = await status(host)
    assert got == code, lines
    assert {name: lines.get(name, "")[: len(text)] for name, text in says.items()} == says


async def test_the_version_of_a_unit_is_the_one_that_is_given_or_that_its_program_has(tmp_path: Path) -> None:
    host = systemd_host(tmp_path, version="v1.23.1")
    await host.apply()
    host.version = "v1.24.2"
    assert f"{UNIT}, v1.24.2, healthy" == (await status(host))[1]["scheduler"]
    host.given_version = "v1.25.3"
    assert f"{UNIT}, v1.25.3, healthy" == (await status(host))[1]["scheduler"]
    host.given_version = host.version = None
    assert f"{UNIT}, v1.23.1, healthy" == (await status(host))[1]["scheduler"], "the last change's"


async def test_a_unit_that_nobody_restarted_is_not_proven(tmp_path: Path) -> None:
    host = systemd_host(tmp_path, restart=False)
    host.scheduler.start()
    await host.apply()
    code, lines = await status(host)
    assert (code, lines["proven"].partition(",")[0]) == (1, "no")
    host.restart = True
    await host.apply()
    assert (await status(host))[1]["proven"] == "yes"


@pytest.mark.parametrize(
    ("kind", "flag"), [("pod", "config"), ("unit", "policy-config-file"), ("no file that is known", "config")]
)
async def test_a_file_that_somebody_wrote_by_hand_and_the_scheduler_reads_counts_as_configured(
    tmp_path: Path, kind: str, flag: str
) -> None:
    host = systemd_host(tmp_path) if kind == "unit" else host_with(tmp_path, "existing-config-1.28.yaml")
    for path in (MANIFEST, UNIT):
        if (tmp_path / path[1:]).exists():
            text = host.get(path).decode().replace("--v=2", f"--{flag}={BASE}").replace("--config=", f"--{flag}=")
            host.put(path, text)
    assert (await status(host))[1]["extender"] == "not configured"
    host.put(BASE, ADMIN_CONFIG + OURS)
    host.scheduler.start()
    if kind.startswith("no"):
        host.scheduler.shows = PollResult(Running("1@2", ("kube-scheduler", f"--{flag}", BASE)), "")
        (tmp_path / MANIFEST[1:]).unlink()
    code, lines = await status(host)
    url = "http://10.96.1.37:32766/gcushare-scheduler"
    assert f"names '{BASE}', which calls {url}" in lines["extender"]
    assert (code, lines["used by the running scheduler"], "proven" in lines) == (0, "yes", False)


async def test_where_nothing_is_found_the_reason_is_printed(tmp_path: Path) -> None:
    host = host_with(tmp_path, "kubeadm-1.29.yaml")
    host.scheduler.shows = PollResult(None, "no kube-scheduler process was found")
    (tmp_path / MANIFEST[1:]).unlink()
    code, lines = await status(host)
    assert code == 1
    assert lines["scheduler"].endswith("no kube-scheduler process was found")
    assert "no manifest in" in lines["note"]


SHELL = "[Service]\nExecStart=/bin/sh -c 'exec kube-scheduler --profiling=false'\n"
FLAGS = ("--kubeconfig=/etc/s.conf", "--profiling=false", "--kube-api-qps", "80", "--v=2")


async def rendered(host: Host) -> tuple[list[str], dict[str, object]]:
    """The comment's lines, and the settings without the extender."""
    text = await host.manager.render(EXTENDER)
    document = dict(load_yaml(text))
    assert [each["urlPrefix"] for each in document.pop("extenders")] == [f"{EXTENDER.url}/gcushare-scheduler"]
    assert (document.pop("apiVersion"), document.pop("kind")) == (
        "kubescheduler.config.k8s.io/v1",
        "KubeSchedulerConfiguration",
    )
    return [line[2:] for line in text.splitlines() if line.startswith("# ")], document


def shell_host(root: Path, *running: str) -> Host:
    host = systemd_host(root, version="v1.30.1")
    host.put(UNIT, SHELL)
    seen = Running("1@2", ("kube-scheduler", *running)) if running else None
    host.scheduler.shows = PollResult(seen, "")
    return host


async def test_the_flags_of_the_scheduler_that_runs_are_taken_over_and_named(tmp_path: Path) -> None:
    comment, settings = await rendered(shell_host(tmp_path, *FLAGS))
    assert settings == {"clientConnection": {"kubeconfig": "/etc/s.conf", "qps": 80}, "enableProfiling": False}
    assert comment[1] == "If it has one (--config), add the entry of extenders there, and nothing else of this."


async def test_without_a_command_line_every_flag_that_loses_its_effect_is_named_with_its_place(tmp_path: Path) -> None:
    comment, settings = await rendered(shell_host(tmp_path))
    assert settings == {}
    for line in ("  --kubeconfig: clientConnection.kubeconfig", "  --profiling: enableProfiling"):
        assert line in comment


async def test_a_flag_whose_value_is_not_known_is_named_as_missing(tmp_path: Path) -> None:
    host = Host(tmp_path, version="v1.30.1")
    host.put(
        MANIFEST,
        "kind: Pod\nspec: {containers: [{name: s, image: x, command: [kube-scheduler, --kubeconfig=/a, "
        "--profiling=$(P)]}]}\n",
    )
    for looks in (None, "the API server answered 500"):

        def look(looks: str | None = looks) -> None:
            if looks:
                raise SchedulerUnknownError(looks)

        host.scheduler.on_poll = look
        host.scheduler.shows = PollResult(None, "no process")
        comment, settings = await rendered(host)
        assert settings == {"clientConnection": {"kubeconfig": "/a"}}
        assert "  --profiling: enableProfiling" in comment
