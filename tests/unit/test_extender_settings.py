"""The extender's command line: what it accepts, and what it says to what it does not."""

from __future__ import annotations

import pytest

from gcushare.core.errors import ConfigError
from gcushare.runtime.settings.loading import load_settings
from gcushare.scheduler_extender.extender_settings import PROGRAM, ExtenderSettings, NamedNodes
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import SCHEDULER_NAME


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
