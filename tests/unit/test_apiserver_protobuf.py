"""What kubectl sends in protobuf, as the API server double reads it; the bytes are encoded here by hand."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import pytest

from gcushare_playground.apiserver.bodies import decode_object
from gcushare_playground.apiserver.failures import ApiFailure

PROTOBUF = "application/vnd.kubernetes.protobuf"


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    head = bytearray()
    while value > 0x7F:
        head.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(head) + bytes([value])


def message(*fields: tuple[int, Any]) -> bytes:
    """A message of fields by number: integers, texts, and messages as bytes."""
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            found += varint(number << 3 | 2) + varint(len(data)) + data
    return found


def body(version: str, kind: str, *fields: tuple[int, Any]) -> bytes:
    return b"k8s\0" + message((1, message((1, version), (2, kind))), (2, message(*fields)), (3, ""), (4, ""))


METADATA = (1, message((1, "b"), (2, "gen-"), (11, message((1, "team"), (2, "a"))), (11, message((1, "x"), (2, "")))))


def test_a_pod_with_what_each_sort_of_field_says() -> None:
    limit = message((1, "gcushare.com/shared-gcu"), (2, message((1, "4"))))
    probe = message((1, message((2, message((1, "/"), (2, message((1, 1), (2, 0), (3, "web"))))))), (2, -1))
    container = message(
        (1, "main"), (2, "app:1"), (4, "--a"), (4, ""), (8, message((1, limit))), (10, probe), (13, ""), (16, 1)
    )
    volume = message((1, "logs"), (2, message((2, message((1, "Memory"))))))
    toleration = message((1, "k"), (5, 300))
    spec = message((1, volume), (2, container), (4, 0), (11, 0), (22, toleration))
    read = decode_object(PROTOBUF, body("v1", "Pod", METADATA, (2, spec), (3, message((1, "Running")))))

    assert read == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "b", "generateName": "gen-", "labels": {"team": "a", "x": ""}},
        "spec": {
            "volumes": [{"name": "logs", "emptyDir": {"medium": "Memory"}}],
            "containers": [
                {
                    "name": "main",
                    "image": "app:1",
                    "args": ["--a", ""],
                    "resources": {"limits": {"gcushare.com/shared-gcu": "4"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "web"}, "initialDelaySeconds": -1},
                    "stdin": True,
                }
            ],
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "k", "tolerationSeconds": 300}],
        },
    }


def test_numbers_that_may_be_texts_bytes_and_times() -> None:
    port = message((1, "web"), (3, 80), (4, message((1, 0), (2, 0), (3, ""))))
    service = decode_object(PROTOBUF, body("v1", "Service", METADATA, (2, message((1, port)))))
    assert service["spec"]["ports"] == [{"name": "web", "port": 80}]

    budget = body("policy/v1", "PodDisruptionBudget", METADATA, (2, message((1, message((1, 0), (2, 0), (3, ""))))))
    assert decode_object(PROTOBUF, budget)["spec"] == {"minAvailable": 0}

    secret = body(
        "v1", "Secret", (1, message((8, message((1, 1_700_000_000))))), (2, message((1, "k"), (2, b"\xff\0")))
    )
    read = decode_object(PROTOBUF, secret)
    assert read["data"] == {"k": "/wA="}
    assert read["metadata"] == {"creationTimestamp": "2023-11-14T22:13:20Z"}


@pytest.mark.parametrize(
    ("sent", "code", "says"),
    [
        pytest.param(b'{"kind": "Pod"}', 400, "does not appear to be a protobuf message", id="json"),
        pytest.param(body("v1", "Pod", (99, "x")), 400, "field 99 of Pod is not known here", id="field"),
        pytest.param(body("v1", "Widget"), 415, "application/json", id="kind"),
        pytest.param(body("v1", "Pod", METADATA)[:-7], 400, "ends in the middle", id="cut-off"),
        pytest.param(body("v1", "Pod", (1, 1 << 62)), 400, "no protobuf message", id="integer-for-message"),
        pytest.param(
            body("v1", "Pod", (1, message((8, message((1, 1 << 62)))))), 400, "no protobuf message", id="far-time"
        ),
        pytest.param(b"k8s\0\x0b", 400, "wire type 3", id="group"),
    ],
)
def test_what_is_no_such_body_is_refused(sent: bytes, code: int, says: str) -> None:
    with pytest.raises(ApiFailure, match=re.escape(says)) as refused:
        decode_object(PROTOBUF, sent)
    assert refused.value.code == code


def test_each_message_that_a_field_names_is_known() -> None:
    text = files("gcushare_playground.apiserver").joinpath("messages.txt").read_text(encoding="utf-8")
    known = {line.split()[0] for line in text.splitlines()}
    named = set(re.findall(r"=\*?(?:map\.)?([A-Z]\w+)", text))
    assert named - known <= {"Quantity", "IntOrString", "S", "I", "B"}
