"""The extender's command line: what it accepts, and what it says to what it does not."""

from __future__ import annotations

import pytest

from gcushare.core.errors import ConfigError
from gcushare.runtime.settings.loading import load_settings
from gcushare.scheduler_extender.extender_settings import PROGRAM, ExtenderSettings, NamedNodes
from gcushare.scheduler_extender.verbs.binding_client import BindTimes
from gcushare.vendors import ENFLAME


def load(*argv: str) -> ExtenderSettings:
    return load_settings(PROGRAM, argv, {})


def test_without_flags_it_serves_enflame_on_the_manuals_port_and_stands_for_election() -> None:
    found = load()

    assert found.placement.vendor == (ENFLAME,)
    assert found.serve.listen_port == 32766
    assert found.placement.filter_answer == NamedNodes(20, only_equal=True)
    assert found.election.leader_elect


@pytest.mark.parametrize(
    "flag",
    [
        "--vendor=amd",
        "--filter-answer=best",
        "--filter-answer=best:0",
        "--filter-answer=equal",
        "--node-policy=random",
        "--card-policy=best",
        "--listen-port=70000",
    ],
)
def test_a_wrong_value_is_reported_with_what_is_accepted(flag: str) -> None:
    with pytest.raises(ConfigError, match="accepted: "):
        load(flag)


def test_every_problem_is_reported_at_once_and_lease_times_must_fit_each_other() -> None:
    with pytest.raises(ConfigError) as caught:
        load("--vendor=amd", "--node-policy=random")
    assert len(caught.value.problems) == 2
    with pytest.raises(ConfigError, match="renew_deadline_s < duration_s"):
        load("--lease-duration=5", "--lease-renew-deadline=6")


def test_a_lease_must_leave_room_for_a_bind_after_its_deadline() -> None:
    with pytest.raises(ConfigError, match=r"leaves 0\.5s after lease-renew-deadline 1\.5s; accepted: more than 2s"):
        load("--lease-duration=2", "--lease-renew-deadline=1500ms", "--lease-retry=200ms")
    with pytest.raises(ConfigError, match="leaves 2s after"):
        load("--lease-duration=8", "--lease-renew-deadline=6")
    # What is accepted can bind for as long as it leads.
    times = load("--lease-duration=3", "--lease-renew-deadline=900ms", "--lease-retry=100ms").election.times()
    assert times.renew_deadline_s + BindTimes().attempt_s < times.duration_s
