"""What of texts gets into a support bundle: lines as our programs write them, secrets of every kind; and its file."""

from __future__ import annotations

import json
import logging
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.cli.support_bundle.archive import MANIFEST, new_archive
from gcushare.cli.support_bundle.log_filter import cut_log, cut_metrics
from gcushare.cli.support_bundle.redact import MASK, Redactor, is_secret_name
from gcushare.core.errors import ConfigError
from gcushare.core.log_fields import fields
from gcushare.kube.errors import FailedRequest, HttpFailure, describe, error_of_answer, error_of_status
from gcushare.runtime.logs import JsonFormatter, TextFormatter
from gcushare.wire.objects import Status

NAMES = frozenset({"default/web", "n1"})
TOKENS = {
    "service account": "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJlLW9mLWh1bnRlcjI",
    "bootstrap": "07401b.f395accd246ae52d",
    "GitHub": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "GitLab": "glpat-Yz2xQ8d7fK3mN5pR9sT1",
    "Vault": "hvs.CAESIJlWh1bnRlcjJodW50ZXIyaHVudGVyMg",
    "AWS key": "AKIAIOSFODNN7EXAMPLE",
    "AWS secret": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "hex": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "base64": "dGhlIHNlY3JldCBpcyBhIGxvbmcgc2VudGVuY2Uu",
    "letters": "abcdefghijklmnopqrstuvwxyzabcdefgh",
}
PEOPLE = {
    "user": "alice",
    "service account": "system:serviceaccount:payroll:runner",
    "node": "system:node:db-host-7",
    "mail": "bob.builder@corp.example.com",
}
MESSAGES = [
    *(
        f'pods is forbidden: User "{who}" cannot list resource "pods" in API group "" of {who}'
        for who in PEOPLE.values()
    ),
    *(f"the credential {token} has expired" for token in TOKENS.values()),
    *(f"admission webhook denied the request: {who} may not do that, hunter2" for who in PEOPLE.values()),
    "the password hunter2 was wrong",
    "token=hunter2 pod=hunter2 error=hunter2",
]
HEAD = "2026/11/22 02:53:08 WARNING gcushare/kube/client.py:46 "
SECRETS = ["hunter2", "alice", "payroll", "db-host-7", "bob.builder", *TOKENS.values()]


LOGGER = logging.getLogger("gcushare.kube.client")


@pytest.fixture(autouse=True)
def _at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, LOGGER.name)


def log_error(error: Exception) -> None:
    """Every way in which an error gets into a line, those of older releases included."""
    LOGGER.debug("request failed %s", fields(error=error, pod="default/web", node="n1"))
    LOGGER.warning("watch broke resource=%s retry_in_s=%.2f relist=%s error=%s", "pods", 1.5, True, error)
    LOGGER.warning("lease attempt failed lease=%s error=%s leader=%s", "kube-system/x", error, False)
    LOGGER.info("%s refused: %s", "Allocate", error)
    LOGGER.info("scheduler not as wanted state=%s reason=%s", "left", error)
    LOGGER.debug("step done step=%r", str(error))
    try:
        raise error
    except Exception:  # as a task's root does: whatever it is, it is logged
        LOGGER.exception("program ends %s", fields(error=error, code=70))


def kube_errors(message: str) -> list[Exception]:
    attempt = FailedRequest("list pods", writes=False)
    status = Status(code=403, reason="Forbidden", message=message)
    page = message.encode()
    return [
        error_of_answer(attempt, HttpFailure(403, msgspec.json.encode(status))),
        error_of_answer(attempt, HttpFailure(502, page)),
        error_of_answer(attempt, HttpFailure(401, page)),
        error_of_status(attempt, status),
        ConfigError(f"kubeconfig: credential program 'aws' ended with status 1: {message}"),
        ConfigError(f"list pods: {describe(ValueError(message))}"),
    ]


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
@pytest.mark.parametrize("message", MESSAGES)
def test_no_name_and_no_token_of_an_error_stays_in_a_log(
    message: str, formatter: logging.Formatter, caplog: pytest.LogCaptureFixture
) -> None:
    for error in kube_errors(message):
        log_error(error)
    lines = "\n".join(map(formatter.format, caplog.records))
    assert any(secret in lines for secret in SECRETS)  # the control: they were logged
    kept = Redactor().text(cut_log(lines, NAMES))
    assert [secret for secret in SECRETS if secret in kept] == []
    # What a reader needs is still there.
    for part in ("request failed", "default/web", "watch broke resource=pods retry_in_s=1.50", "was answered 403"):
        assert part in kept


def test_a_refusal_by_rbac_keeps_the_right_that_is_missing(caplog: pytest.LogCaptureFixture) -> None:
    message = 'pods is forbidden: User "alice" cannot list resource "pods" in API group "" at the cluster scope'
    LOGGER.debug("not listed %s", fields(error=kube_errors(message)[0]))
    assert "cannot list resource 'pods' in API group ''\"" in cut_log(TextFormatter().format(caplog.records[0]))


@pytest.mark.parametrize(
    ("said", "left"),
    [
        pytest.param("x error=a b c pod=default/web", "x error=… …", id="bare and a known name"),
        pytest.param("x error=a b pod=hunter2", "x error=… …", id="a key within a bare sentence"),
        pytest.param("x error=hunter2", "x error=…", id="one bare word"),
        pytest.param("x error=TimeoutError code=70", "x error=TimeoutError code=70", id="a kind of error"),
        pytest.param("x password=a b pod=default/web", "x password=… …", id="a secret's name"),
        pytest.param('x error="a" hunter2', 'x error="a" …', id="text after a value"),
        pytest.param('x error="cut off pod=hunter2', "x …", id="cut off within quotes"),
        pytest.param('x error="say \\"hunter2\\" pod=n"', "x error=\"say '…' pod=n\"", id="quotes within quotes"),
        pytest.param("x pod=a=b", "x …", id="an equals sign"),
        pytest.param("card=0 uuid=GPU-8f4e3c2a-77f0-11ef-9a5b-0242ac120002", None, id="a card's uuid"),
        pytest.param("listed resource=pods objects=12 version=918273645546372819", None, id="a version"),
        pytest.param("bound pod=default/web-7d4b9c8f6d-x2x4z node=n1", None, id="a generated name"),
    ],
)
def test_a_line_is_cut_whatever_it_looks_like(said: str, left: str | None) -> None:
    assert cut_log(f"{HEAD}{said}", NAMES) == f"{HEAD}{said if left is None else left}\n"


def test_a_stack_keeps_its_places_and_the_error() -> None:
    text = (
        f"{HEAD}program ends code=70\n"
        "    Traceback (most recent call last):\n"
        '      File "/usr/lib/x/gcushare/app.py", line 7, in run\n'
        "        connect(password='hunter2')\n"
        "    ValueError: 'hunter2' is no number\n"
    )
    kept = cut_log(text)
    assert "hunter2" not in kept
    assert 'File "/usr/lib/x/gcushare/app.py", line 7, in run' in kept
    assert "    ValueError: …" in kept


def test_lines_of_the_scheduler_keep_their_phrase_and_known_names() -> None:
    head = "I1122 02:53:08.123456       1 schedule_one.go:123] "
    line = f'{head}"Unable to schedule pod" pod="default/a" node="n1" err="hunter2 fits"'
    assert cut_log(f"{line}\n", {"default/a"}) == f'{head}"Unable to schedule pod" pod="default/a"\n'
    assert cut_log(f"{head}hunter2 is free text\n") == f"{head}…\n"


def test_lines_in_json_keep_what_lines_in_text_keep() -> None:
    line = {"time": "2026-11-22T02:53:08.123Z", "level": "INFO", "place": "gcushare/a.py:1", "logger": "gcushare.a"}
    written = json.dumps({**line, "message": "bound pod=default/a user=hunter2", "fields": {"user": "hunter2"}})
    assert json.loads(cut_log(written)) == {**line, "message": "bound pod=default/a user=…"}
    assert "hunter2" not in cut_log(json.dumps({**line, "level": "hunter2 x", "message": ""}))


def test_metrics_are_ours_and_have_no_comments() -> None:
    text = '# HELP gcushare_x hunter2\n# TYPE gcushare_x gauge\ngcushare_x{pod_name="a"} 1.0\nother{x="hunter2"} 1\n'
    assert cut_metrics(text) == '# TYPE gcushare_x gauge\ngcushare_x{pod_name="a"} 1.0\n'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param("password=hunter2 was wrong", f"password={MASK} was wrong", id="key=value"),
        pytest.param('{"db_passwd": "hunter 2"}', f'{{"db_passwd": {MASK}}}', id="JSON"),
        pytest.param("token: 'hunter 2', next: 1", f"token: {MASK}, next: 1", id="YAML"),
        pytest.param("--api-key=hunter2 -v", f"--api-key={MASK} -v", id="flag"),
        pytest.param("authorization: Bearer abcdef", f"authorization: {MASK} {MASK}", id="header"),
        pytest.param("sent Basic aGk6aHVudGVy", f"sent Basic {MASK}", id="Basic"),
        pytest.param("https://u:p@host/x", f"https://{MASK}@host/x", id="URL"),
        pytest.param("key AKIAABCDEFGHIJKLMNOP.", f"key {MASK}.", id="AWS"),
        pytest.param("at eyJhbGciOiJ9.eyJpc3MiOiJ9.c2ln end", f"at {MASK} end", id="JWT"),
        pytest.param("-----BEGIN RSA PRIVATE KEY-----\nabc", MASK, id="a key that is cut off"),
        pytest.param("tls_key_data: LS0t", f"tls_key_data: {MASK}", id="kubeconfig"),
    ],
)
def test_what_looks_secret_is_masked(text: str, left: str) -> None:
    assert Redactor().text(text) == left


def test_known_values_go_wherever_they_stand() -> None:
    redactor = Redactor(["hunter", "hunter22", "on"])
    assert redactor.text("hunter22 hunter on") == f"{MASK} {MASK} on"
    assert redactor.document({"a": ["xhunterx"], "hunter": 1}) == {"a": [f"x{MASK}x"], MASK: 1}


@given(st.text(alphabet="abcdefgh0123456789", min_size=4, max_size=12), st.text(), st.text())
def test_a_known_value_never_survives(secret: str, before: str, after: str) -> None:
    assert secret not in Redactor([secret]).text(before + secret + after)


def test_names_of_secrets_are_known_in_any_writing() -> None:
    assert all(map(is_secret_name, ("DB_PASSWORD", "apiKey", "x-access-key", "Authorization", "client_secret")))
    assert not any(map(is_secret_name, ("MODE", "NODE_NAME", "monkey", "ENFLAME_VISIBLE_DEVICES")))


def test_a_link_planted_under_the_temporary_name_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".bundle.tar.gz.partial").symlink_to(victim)
    with new_archive(tmp_path / "bundle.tar.gz", datetime(2026, 1, 1, tzinfo=UTC)) as archive:
        archive.finish({})
    assert victim.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle.tar.gz", "victim"]
    assert not (tmp_path / "bundle.tar.gz").is_symlink()


def test_the_size_is_bounded_and_what_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    with new_archive(path, datetime(2026, 1, 1, tzinfo=UTC), 10) as archive:
        archive.add("doctor.json", b"12345678", "what the doctor found")
        archive.add("logs/plugin.log", b"123", "log")
        archive.add("logs/extender.log", b"12", "log")
        archive.finish({})
    with tarfile.open(path) as tar:
        manifest = json.load(tar.extractfile(f"bundle/{MANIFEST}") or pytest.fail("there is no manifest"))
    assert [each["path"] for each in manifest["files"]] == ["doctor.json", "logs/extender.log"]
    assert manifest["leftOut"] == [{"path": "logs/plugin.log", "why": "its 3 bytes did not fit any more"}]
