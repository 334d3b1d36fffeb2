"""Flags as Go's ``flag`` package and as kubectl take them: one dash or two, with the value joined or apart."""

from __future__ import annotations

import io

import pytest

from gcushare.cli.inspect.command_line import NAMES
from gcushare.cli.kubectl.flags import TableSettings
from gcushare.cli.kubectl.help_text import program_of
from gcushare.runtime.entry import ProcessContext, run_program
from gcushare.runtime.exit_codes import DONE, MISUSED
from gcushare.runtime.settings.old_flags import GLOG_FLAGS


def read(*argv: str) -> tuple[int, dict[str, object], str]:
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
        (("-d",), {"details": True}),
        (("--d",), {"details": True}),
        (("-d=true",), {"details": True}),
        (("--d=T",), {"details": True}),
        (("-details=1",), {"details": True}),
        (("-d", "-d=f"), {}),
        (("-d=0",), {}),
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
    assert read(*argv) == (DONE, expected, "")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("-logtostder",), "No such option '-logtostder'. Did you mean '-logtostderr'?"),
        (("-alsologtostder=true",), "Did you mean '-alsologtostderr'?"),
        (("-namespac", "team"), "No such option '-namespac'. Did you mean '--namespace'?"),
        (("-selectr=a=b",), "Did you mean '--selector'?"),
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
    code, settings, err = read(*argv)
    assert (code, settings) == (MISUSED, {})
    assert said in err
