from __future__ import annotations

import pytest

from gcushare_playground.apiserver import ApiFailure
from gcushare_playground.apiserver.protobuf import decode


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def _number(number: int, value: int) -> bytes:
    return bytes([number << 3, value])


def _envelope(api_version: str, kind: str, content: bytes) -> bytes:
    head = _field(1, api_version.encode()) + _field(2, kind.encode())
    return b"k8s\x00" + _field(1, head) + _field(2, content)


NAME = _field(1, _field(1, b"web") + _field(11, _field(1, b"app") + _field(2, b"web")))


def test_a_message_becomes_the_object_that_json_would_be() -> None:
    target = _number(1, 1) + _field(3, b"http")
    port = _field(1, b"") + _number(3, 80) + _field(4, target) + _number(5, 0)
    body = _envelope("v1", "Service", NAME + _field(2, _field(1, port) + _field(4, b"ClusterIP")))
    assert decode(body) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"ports": [{"port": 80, "targetPort": "http"}], "type": "ClusterIP"},
    }


def test_the_zero_of_an_optional_field_is_kept() -> None:
    body = _envelope("apps/v1", "Deployment", NAME + _field(2, _number(1, 0) + _number(5, 0)))
    assert decode(body)["spec"] == {"replicas": 0}


def test_bytes_are_base64_as_in_json() -> None:
    entry = _field(1, b"key") + _field(2, b"\xff\x00")
    assert decode(_envelope("v1", "Secret", _field(2, entry)))["data"] == {"key": "/wA="}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param(b"{}", 400, id="no magic"),
        pytest.param(b"k8s\x00\x0a\xff", 400, id="cut short"),
        pytest.param(b"k8s\x00\x0b", 400, id="a wire type that is not used"),
        pytest.param(_envelope("v1", "Unheard", b""), 415, id="an unknown kind"),
        pytest.param(_envelope("v1", "ConfigMap", _field(9, b"x")), 415, id="an unknown field"),
    ],
)
def test_what_cannot_be_read_whole_is_refused(body: bytes, code: int) -> None:
    with pytest.raises(ApiFailure) as caught:
        decode(body)
    assert caught.value.code == code
