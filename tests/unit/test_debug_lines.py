"""What the manual shows in the logs, at debug: ids asked for, annotations before and after; else nothing is kept."""

from __future__ import annotations

import logging

import msgspec
import pytest

from gcushare.scheduler_extender.state.pod_change_log import PodChangeLog
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import PodRecord
from gcushare.wire.objects import POD
from tests.extender_objects import Document, pod_document

SECRET = {"example.com/password": "hunter2"}


def see(log: PodChangeLog, document: Document) -> None:
    log.pod_applied(POD.read(msgspec.json.encode(document)))


def recorded(*, assigned: bool) -> Document:
    record = PodRecord(card_indexes=(1,), card_units=16, pod_units=12, assigned=assigned)
    return pod_document("pod-3", 12, node="n", record=record, annotations=SECRET, phase="Pending")


def test_a_pods_record_is_shown_before_and_after_and_nothing_else_of_it(caplog: pytest.LogCaptureFixture) -> None:
    log = PodChangeLog([ENFLAME, ALIYUN])
    with caplog.at_level(logging.DEBUG, "gcushare"):
        see(log, pod_document("pod-3", 12, annotations=SECRET))
        see(log, recorded(assigned=False))
        see(log, recorded(assigned=False))
        see(log, recorded(assigned=True))
        see(log, pod_document("plain", None))
    created, bound, assigned = (record.getMessage() for record in caplog.records)
    assert "old_annotations={} new_annotations={}" in created
    for message, before, after in ((bound, "{}", "false"), (assigned, "false", "true")):
        old, new = message.split("new_annotations=")
        assert (before in old, after in new) == (True, True)
        assert "enflame.com/gcu-device-memory-request" in new
    assert "hunter2" not in caplog.text
