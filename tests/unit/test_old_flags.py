"""Flags: as Go's ``flag`` package, kubectl and the Go programs before ours take them, and what the extender refuses."""

from __future__ import annotations

import io
from collections.abc import Mapping

import pytest

from gcushare.cli.inspect.command_line import NAMES
from gcushare.cli.kubectl.flags import TableSettings
from gcushare.cli.kubectl.help_text import program_of
from gcushare.core.errors import ConfigError
from gcushare.device_plugin import command_line as plugin
from gcushare.device_plugin.command_line import OLD_FLAGS
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import DONE, MISUSED
from gcushare.runtime.settings.command_line import CommandLine
from gcushare.runtime.settings.declare import list_specs
from gcushare.runtime.settings.loading import load_settings
from gcushare.runtime.settings.old_flags import GLOG_FLAGS
from gcushare.scheduler_extender import command_line as extender
from gcushare.scheduler_extender.extender_settings import PROGRAM, ExtenderSettings, NamedNodes
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import SCHEDULER_NAME


def run_inspect(*argv: str) -> tuple[int, dict[str, object], str]:
    """The exit code, the settings that are not the defaults, and what stderr has."""
    err = io.StringIO()
    found: dict[str, object] = {}

    def take(settings: TableSettings) -> int:
        shown = {name: getattr(settings, name) for name in ("node", "details", "namespace", "selector")}
        found.update({name: value for name, value in {**shown, "output": settings.show.output.value}.items() if value})
        return DONE

    process = ProcessContext(argv, {}, io.StringIO(), err)
    code = run_program(program_of(NAMES["gpushare"], ""), take, process=process, old_flags=GLOG_FLAGS)
    if found.get("output") == "table":
        del found["output"]
    return code, found, err.getvalue()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        *(((word,), {"details": True}) for word in ("-d", "--d", "--d=T", "-details=1")),
        (("-d", "-d=f"), {}),
        (("-d", "node-1"), {"details": True, "node": "node-1"}),
        (("-v=2", "--v=2", "-v", "2", "--v", "2"), {}),
        (("-logtostderr", "--logtostderr=true", "-alsologtostderr=0", "node-1"), {"node": "node-1"}),
        (("-stderrthreshold=INFO", "--stderrthreshold", "2", "-d"), {"details": True}),
        (("-vmodule=a=1,b*=2", "-vmodule=", "-log_dir=/tmp", "-log_dir", "/tmp"), {}),
        (("-log_backtrace_at=main.go:42", "--log_backtrace_at", "a.go:1"), {}),
        (("-namespace", "team", "-output=json"), {"namespace": "team", "output": "json"}),
        (("-nteam", "-ojson", "-lzone=east"), {"namespace": "team", "output": "json", "selector": "zone=east"}),
        (("-n=team", "-l=zone=east"), {"namespace": "team", "selector": "zone=east"}),
        (("-dnteam",), {"details": True, "namespace": "team"}),
        (("--", "-d"), {"node": "-d"}),
    ],
    ids=" ".join,
)
def test_each_spelling_means_what_it_means_to_upstreams_command(
    argv: tuple[str, ...], expected: dict[str, object]
) -> None:
    assert run_inspect(*argv) == (DONE, expected, "")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("-logtostder",), "No such option '-logtostder'. Did you mean '-logtostderr'?"),
        (("-namespac", "team"), "No such option '-namespac'. Did you mean '--namespace'?"),
        (("-d=maybe",), "'maybe' is neither true nor false"),
        (("-logtostderr=maybe",), "flag -logtostderr is not accepted: its value is true or false"),
        (("-v", "node-1"), "flag -v is not accepted: its value is a whole number"),
        (("-stderrthreshold", "node-1"), "flag -stderrthreshold is not accepted: its value is INFO, WARNING"),
        (("-vmodule", "node-1"), "flag -vmodule is not accepted: its value is such as cache=2"),
        (("-log_backtrace_at", "node-1"), "flag -log_backtrace_at is not accepted: its value is such as main.go:42"),
        (("---d",), "No such option '---d'"),
        (("--vv=2",), "No such option '--vv'"),
        (("-vv",), "No such option '-v'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_would_mean_something_else_is_refused_by_name(argv: tuple[str, ...], said: str) -> None:
    code, settings, err = run_inspect(*argv)
    assert (code, settings) == (MISUSED, {})
    assert said in err


def read(*argv: str) -> tuple[dict[str, str], list[str]]:
    """What our plugin is set to by a command line, and the notes about it."""
    notes: list[str] = []
    line = CommandLine(plugin.PROGRAM.name, list_specs(plugin.PROGRAM.settings), argv, OLD_FLAGS, notes.append)
    return line.values, notes


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            ("-logtostderr", "--v=5", "--memory-unit=MiB"),
            {"log-level": "debug", "memory-unit": "MiB"},
            id="as published",
        ),
        pytest.param(("-v", "2", "-memory-unit", "GiB"), {"log-level": "info", "memory-unit": "GiB"}, id="words apart"),
        pytest.param(("--v=5", "--log-level=info", "-v=1"), {"log-level": "info"}, id="the last one counts"),
        pytest.param(("--logtostderr=true", "-alsologtostderr"), {}, id="switches"),
        pytest.param(("-stderrthreshold", "INFO", "-log_dir=/tmp"), {"log-dir": "/tmp"}, id="glog's own"),
        pytest.param(
            ("-skip_headers", "--add-dir-header=true", "-log_file", "/l", "--log-flush-frequency=5s"), {}, id="klog's"
        ),
        pytest.param(("-mps=false", "-health-check", "-kubelet-port", "10250"), {}, id="the plugin's own"),
        pytest.param(("--no-status", "-pod-use"), {"status": "false", "pod-use": "true"}, id="ours, one dash"),
    ],
)
def test_an_old_command_line_sets_what_it_set(given: tuple[str, ...], expected: dict[str, str]) -> None:
    assert read(*given)[0] == expected


def test_every_flag_that_was_anothers_has_its_note_and_no_secret_is_repeated() -> None:
    _, notes = read("-token=s3cret", "--v=5", "--memory-unit=MiB")
    assert [note.split()[0] for note in notes] == ["-token", "--v"]
    assert "s3cret" not in " ".join(notes)


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("-mps=true",), "flag -mps is not accepted: say --memory-limit mps"),
        (("--slice-count=6",), "flag --slice-count is not accepted: cards are shared by memory"),
        (("-v=many",), "flag -v is not accepted: its value is a whole number"),
        (("-v",), "flag -v is not accepted: its value is a whole number"),
        (("--", "-v=5"), r"unexpected extra argument \('-v=5'\)"),
    ],
)
def test_what_there_is_not_is_refused_by_name(argv: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        read(*argv)


def shown(program: object, *argv: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """What a program would run with, by the name of its old entry point."""
    out, err = io.StringIO(), io.StringIO()
    process = ProcessContext(argv=(*argv, "--print-config"), environ=dict(environ or {}), stdout=out, stderr=err)
    assert callable(program)
    assert program(process) == DONE, err.getvalue()
    return out.getvalue(), err.getvalue()


def test_the_published_command_line_starts_our_plugin_for_nvidia_cards() -> None:
    settings, notes = shown(plugin.main_gpushare, "-logtostderr", "--v=5", "--memory-unit=MiB")
    for line in ("--vendor=aliyun", "--memory-unit=MiB", "--log-level=debug"):
        assert f"{line} " in settings
    assert notes.count("note: ") == 2


def test_a_kubeconfig_that_was_never_mounted_is_left_out_under_the_old_name() -> None:
    environ = {"KUBECONFIG": "/nowhere/kubelet.conf"}
    settings, notes = shown(plugin.main_gpushare, environ=environ)
    assert "note: KUBECONFIG=/nowhere/kubelet.conf is left out" in notes
    assert "/nowhere/kubelet.conf" not in settings
    assert "/nowhere/kubelet.conf" in shown(plugin.main, environ=environ)[0]


def test_the_old_extenders_variables_are_its_port_and_level() -> None:
    settings, notes = shown(extender.main_gpushare, environ={"PORT": "12345", "LOG_LEVEL": "debug", "THREADNESS": "4"})
    for line in ("--vendor=aliyun", "--listen-port=12345", "--log-level=debug"):
        assert f"{line} " in settings
    assert notes.count("note: ") == 2


def load(*argv: str) -> ExtenderSettings:
    return load_settings(PROGRAM, argv, {})


def test_without_flags_it_serves_enflame_on_the_manuals_port_and_stands_for_election() -> None:
    found = load()

    assert found.placement.vendor == (ENFLAME,)
    assert found.serve.listen_port == 32766
    assert found.placement.filter_answer == NamedNodes(20, only_equal=True)
    assert (found.placement.node_policy, found.placement.card_policy) == ("expected-fill", "expected-fill")
    assert found.election.leader_elect


@pytest.mark.parametrize("flag", ["--vendor=amd", *(f"--filter-answer={text}" for text in ("best", "best:0", "equal"))])
def test_a_wrong_value_is_reported_with_what_is_accepted(flag: str) -> None:
    with pytest.raises(ConfigError, match="accepted: "):
        load(flag)


def test_a_lease_leaves_room_for_a_bind_after_its_deadline() -> None:
    """So that what a leader began to bind is over before the next one starts."""
    election = load().election
    assert election.lease_renew_deadline + BindTimes().attempt_s < election.lease_duration


def test_certificates_of_our_own_go_with_no_other_clients_name() -> None:
    made = ("--verbs=tls", "--verbs-secret=kube-system/verbs")
    assert load(*made).verbs.verbs_client_name == SCHEDULER_NAME
    with pytest.raises(ConfigError, match=r"verbs-client-name 'other': .* names 'gcushare-kube-scheduler'.*leave"):
        load(*made, "--verbs-client-name=other")
    assert load("--verbs=tls", "--verbs-tls-dir=/x", "--verbs-client-name=other").verbs.verbs_client_name == "other"
    assert load("--verbs-client-name=other").verbs.verbs_client_name == "other", "plain HTTP names no one"
