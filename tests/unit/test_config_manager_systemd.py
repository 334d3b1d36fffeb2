"""Schedulers that systemd starts: units as systemd 252 read them, and edits of ExecStart."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcushare.config_manager.host.files import HostFiles
from gcushare.config_manager.host.systemd_unit import parse_unit
from gcushare.config_manager.host.unit_files import Surroundings, find_unit
from gcushare.config_manager.host.unit_text import parse_environment_file
from gcushare.config_manager.plan.execute import RolledBackError
from gcushare.core.errors import ConfigError, Refused
from tests.unit.config_manager_host import CONFIG, KUBEASZ, MOVED_EXTENDER, OWN_FILES, TARGET, UNIT, systemd_host

WRITTEN = r"""[Unit]
Description=x
[Service]
Type=oneshot
Environment=ONE='one' "TWO='two two' too" THREE= P=%%p
EnvironmentFile=/etc/variables
ExecStart=/bin/kube-scheduler ${ONE} ${TWO} ${THREE} x${ONE}y $ONE $TWO $THREE a$ONE $$ONE %% 'q "x"' \
  $UNSET ${UNSET} $FROM $FROM2 ${FROM3} ${P} a"b c"d $FROM4 \
  # comment
  ; other comment
  last
ExecStop=/bin/true
"""
VARIABLES = r"""# comment \
FROM=--ignored
FROM="--v=2 \
--leader-elect \
--config='/a b'"
  FROM2 = --x=1 --y="2 3"
; c
FROM3='single $X \n'
export NOPE=1
FROM4=a  b \
c
"""
STARTED = [
    "one", "'two two' too", "", "xoney", "one", "two two", "too", "a$ONE", "$ONE", "%", 'q "x"',
    "", "--v=2", "--leader-elect", "--config=/a b", "--x=1", "--y=2 3", "single $X \\n", "%p", "ab cd", "a", "b", "c",
    "last",
]  # fmt: skip


def put(root: Path, path: str, *lines: str) -> None:
    place = root / path[1:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("\n".join(("[Service]", *lines, "")))


def words(text: str, around: Surroundings) -> list[str]:
    return [word.value for word in parse_unit(text, "x.service", around).words[1:]]


def test_the_command_line_is_that_of_systemd() -> None:
    assert words(WRITTEN, Surroundings(environment={"/etc/variables": VARIABLES})) == STARTED


def test_drop_ins_count_in_systemds_order(tmp_path: Path) -> None:
    etc, usr = "/etc/systemd/system", "/usr/lib/systemd/system"
    put(tmp_path, f"{usr}/a-b.service", "Environment=A=0 B=0 C=0", "ExecStart=/bin/false")
    put(tmp_path, f"{usr}/a-b.service.d/10-x.conf", "Environment=A=hidden")
    put(tmp_path, f"{etc}/a-b.service.d/10-x.conf", "Environment=A=of-etc")
    put(tmp_path, f"{usr}/a-b.service.d/05-z.conf", "Environment=A=earlier B=earlier")
    last = f"{usr}/a-b.service.d/90-last.conf"
    put(tmp_path, last, "ExecStart=", "ExecStart=/bin/kube-scheduler $A $B $C")
    put(tmp_path, f"{etc}/a-b.service.d/95-not.txt", "ExecStart=")
    put(tmp_path, f"{etc}/a-b.service.d/.96-hidden.conf", "ExecStart=")
    for named in (f"{usr}/a-b.service", f"{usr}/a-b.service.d/10-x.conf"):
        path, around = find_unit(HostFiles(tmp_path), named)
        assert (path, around.unit) == (last, f"{usr}/a-b.service")
        assert words((tmp_path / path[1:]).read_text(), around) == ["of-etc", "earlier", "0"]


def test_an_empty_assignment_forgets_variables_and_files_and_are_read_in_order(tmp_path: Path) -> None:
    unit = "/etc/systemd/system/x.service"
    put(
        tmp_path,
        unit,
        *("Environment=GONE=1", "Environment=", "EnvironmentFile=/etc/none", "EnvironmentFile="),
        *("EnvironmentFile=-/etc/1.env", "EnvironmentFile=-/etc/missing", "EnvironmentFile=/etc/2.env"),
        "ExecStart=:/bin/kube-scheduler ${KEPT}",
        "ExecStart=",
        "ExecStart=/bin/kube-scheduler [${GONE}] ${A} $B",
    )
    put(tmp_path, "/etc/1.env", "A=1", "B=1")
    put(tmp_path, "/etc/2.env", "A=2")
    path, around = find_unit(HostFiles(tmp_path), unit)
    assert words((tmp_path / path[1:]).read_text(), around) == ["[]", "2", "1"]


def test_a_colon_before_the_program_switches_variables_off() -> None:
    assert words("[Service]\nExecStart=-:/bin/kube-scheduler $A ${B} %%\n", Surroundings()) == ["$A", "${B}", "%"]


@pytest.mark.parametrize(
    "line",
    [
        *("Environment=V=%z", "EnvironmentFile=/etc/none", "EnvironmentFile=-/etc/%N", "EnvironmentFile=-/etc/*.env"),
        *('Environment="V=a\\x20b"', "EnvironmentFile=/etc/escaped", "EnvironmentFile=/etc/unclosed"),
    ],
)
@pytest.mark.parametrize("word", ["$V", "--config=${V}"])
def test_what_the_files_do_not_show_is_said_to_be_unknown(line: str, word: str) -> None:
    around = Surroundings(environment={"/etc/escaped": 'V="a\\tb"\n', "/etc/unclosed": 'V="--a\n--b"\n'})
    text = f"[Service]\n{line}\nExecStart=/bin/kube-scheduler {word}\n"
    (found,) = parse_unit(text, "u", around).words[1:]
    assert (found.value, found.written) == (word, None)
    assert found.problem


@pytest.mark.parametrize("word", ["%n", "--config=/%d/x", "--config=/\\x41"])
def test_specifiers_and_escapes_are_not_read(word: str) -> None:
    (found,) = parse_unit(f"[Service]\nExecStart=/bin/kube-scheduler {word}\n", "u").words[1:]
    assert found.problem


def test_links_in_place_of_files_are_followed_and_one_to_dev_null_hides_others(tmp_path: Path) -> None:
    etc, unit = "/etc/systemd/system", "/usr/lib/systemd/system/x.service"
    put(tmp_path, unit, "EnvironmentFile=/etc/variables", "ExecStart=/bin/kube-scheduler $A $B $C")
    put(tmp_path, f"{unit}.d/hidden.conf", "Environment=B=2")
    put(tmp_path, "/srv/linked.conf", "Environment=C=3")
    put(tmp_path, "/srv/variables", "A=1")
    folder = tmp_path / f"{etc}/x.service.d"[1:]
    folder.mkdir(parents=True)
    (folder / "hidden.conf").symlink_to("/dev/null")
    (folder / "linked.conf").symlink_to("../../../../srv/linked.conf")
    (folder / "nowhere.conf").symlink_to("/nowhere")
    (tmp_path / "etc/variables").symlink_to("/srv/variables")
    path, around = find_unit(HostFiles(tmp_path), unit)
    assert words((tmp_path / path[1:]).read_text(), around) == ["1", "3"]


@pytest.mark.parametrize("text", ["A", "=x", "A=", 'A="unclosed\nB=1', "A='x\\", "\\", "", "#\\", "A=1\\"])
def test_broken_environment_files_are_read_to_their_end(text: str) -> None:
    assert set(parse_environment_file(text)) <= {"A", "B"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("x \\\n  --v=2\n", "x \\\n  --v=2 \\\n  --config=P\n", id="a line of its own"),
        pytest.param("x --v=2\n", "x --v=2 --config=P\n", id="one line"),
        pytest.param("x", "x --config=P", id="no final line end"),
        pytest.param("x \\\r\n\t--v=2\r\n", "x \\\r\n\t--v=2 \\\r\n\t--config=P\r\n", id="CRLF and tab"),
        pytest.param("x \\\n  # why\n  --v=2\n", "x \\\n  # why\n  --v=2 \\\n  --config=P\n", id="comment inside"),
        pytest.param("x --config=/a --v=2\n", "x --config=P --v=2\n", id="replaced"),
        pytest.param("x --config /a --v=2\n", "x --config P --v=2\n", id="replaced, two words"),
        pytest.param('x "--config=/a b"\n', 'x "--config=P"\n', id="replaced, quoted"),
    ],
)
def test_the_flag_is_set_in_the_units_own_style_and_taken_out_again(before: str, after: str) -> None:
    head = "[Unit]\nDescription=d\n[Service]\nExecStart=/usr/bin/kube-scheduler"
    unit = parse_unit(head + before[1:], "u")
    edited = unit.pointed_at(TARGET)
    assert edited.text == head + after[1:].replace("P", CONFIG)
    assert edited.points_at(TARGET)
    was = [flag.value for flag in unit.flags if flag.name == "config"]
    assert edited.without_trace(OWN_FILES, was[0] if was else None).text == unit.text


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("[Unit]\nDescription=x\n", ConfigError, "no \\[Service\\] section"),
        ("[Unit]\nExecStart=/usr/bin/kube-scheduler\n", ConfigError, "no \\[Service\\] section"),
        ("[Service]\nExecStart=/usr/bin/kubelet\n", ConfigError, "runs 'kubelet'"),
        ("[Service]\nExecStart=/a/kube-scheduler\nExecStart=/b/kube-scheduler\n", Refused, "several commands"),
        ("[Service]\nExecStart=/a/kube-scheduler --v=2 ; /b/other\n", Refused, "several commands"),
        ("[Service]\nExecStart=/a/kube-scheduler --new\n", Refused, "--new has no value, and"),
    ],
)
def test_units_that_cannot_be_edited_are_refused(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        parse_unit(text, "u").pointed_at(TARGET)


RESTART = "run now `systemctl daemon-reload && systemctl restart kube-scheduler.service`"


async def test_without_restart_the_files_are_written_and_the_admin_is_informed(tmp_path: Path) -> None:
    node = systemd_host(tmp_path, restart=False)
    lines = await node.apply()
    assert node.scheduler.starts == 0
    assert RESTART in lines[-1]
    assert (await node.manager.prepare_apply(MOVED_EXTENDER)).plan.steps
    recovered = (await node.recover())[-1]
    assert RESTART in recovered
    assert "until then systemd would start it with a configuration that was removed" in recovered
    assert node.get(UNIT).decode() == KUBEASZ


async def test_a_restart_that_systemd_refuses_is_rolled_back(tmp_path: Path) -> None:
    node = systemd_host(tmp_path)
    before = node.tree()
    node.scheduler.target = "/etc/systemd/system/other.service"
    node.put("/etc/systemd/system/other.service", KUBEASZ)
    with pytest.raises(RolledBackError, match=r"no unit .* putting it back failed as well: no unit"):
        await node.apply()
    assert {path: state for path, state in node.tree().items() if "other" not in path} == before
