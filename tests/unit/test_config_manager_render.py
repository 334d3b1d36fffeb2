"""The configuration to use by hand: it has the scheduler's settings, or says which ones it lacks."""

from __future__ import annotations

from pathlib import Path

from gcushare.config_manager.host.running_scheduler import PollResult, Running, SchedulerUnknownError
from tests.unit.config_manager_host import EXTENDER, MANIFEST, UNIT, Host, load_yaml, systemd_host

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
