"""What programs said, without what they quote of others."""

from __future__ import annotations

import json

from gcushare.cli.support_bundle.log_filter import cut_log, cut_metrics

HEAD = "2026/11/22 02:53:08 WARNING gcushare/kube/client.py:46 "


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
