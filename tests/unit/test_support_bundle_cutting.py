"""What programs said, without what they quote of others."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gcushare
from gcushare.cli.support_bundle import log_filter
from gcushare.cli.support_bundle.log_filter import cut_log, cut_metrics
from gcushare.cli.support_bundle.redact import own_words

HEAD = "2026/11/22 02:53:08 WARNING gcushare/kube/client.py:46 "
LEVELS = {"debug", "info", "warning", "error"}


@pytest.mark.parametrize(
    ("said", "left"),
    [
        pytest.param("the value is 'hunter2' here", "the value is '…' here", id="quoted"),
        pytest.param('the value is "hunter2"', 'the value is "…"', id="double"),
        pytest.param("the pod's card isn't known", "the pod's card isn't known", id="apostrophes"),
        pytest.param("pod 'default/a' is bound", "pod 'default/a' is bound", id="a name"),
        pytest.param("cut off: 'hunter2 and more", "cut off: '…'", id="never closed"),
        pytest.param(r"it is 'hunt\'er2' here", "it is '…' here", id="escaped"),
    ],
)
def test_quotations_stay_only_where_they_are_names(said: str, left: str) -> None:
    assert own_words(said, {"default/a"}) == left


def test_lines_of_our_form_stay_and_others_are_counted() -> None:
    text = f"{HEAD}bound pod=default/a node=n1\nhunter2\n    hunter2 = password\n  Traceback (hunter2):\n"
    assert cut_log(text) == f"{HEAD}bound pod=default/a node=n1\n(3 lines of another form left out)\n"


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


def test_an_error_of_ours_at_the_end_of_a_stack_keeps_its_sentence() -> None:
    line = "    gcushare.core.errors.ConfigError: listen-port 'hunter2' must be a number\n"
    assert cut_log(line) == line.replace("hunter2", "…")


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


def test_every_fact_that_our_programs_log_is_either_kept_or_left_out_on_purpose() -> None:
    root = Path(gcushare.__file__).parent
    used: set[str] = set()
    for path in root.rglob("*.py"):
        if "cli" in path.relative_to(root).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id == "fields":
                used |= {word.arg for word in node.keywords if word.arg is not None}
            if isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS and node.args:
                phrase = node.args[0]
                if isinstance(phrase, ast.Constant) and isinstance(phrase.value, str):
                    used |= set(re.findall(r"(?<![^ ])(\w+)=%", phrase.value))
    assert len(used) > 40
    assert used <= log_filter.FACTS | log_filter.MASKED_FACTS
    assert not log_filter.MASKED_FACTS & log_filter.FACTS
    assert used >= log_filter.MASKED_FACTS


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789_=-", min_size=9, max_size=40))
def test_a_token_never_survives_as_a_quotation(token: str) -> None:
    assert token not in own_words(f"known words: '{token}'")
