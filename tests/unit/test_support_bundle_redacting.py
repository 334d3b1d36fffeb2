from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.cli.support_bundle.redact import MASK, Redactor, is_secret_name


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
