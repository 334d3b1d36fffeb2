"""A variable means the same in every program that reads it: they run side by side, and people export it for all."""

from __future__ import annotations

import pytest

from gcushare.cli.cards.cards_settings import CardsSettings
from gcushare.cli.doctor.doctor_settings import DoctorSettings
from gcushare.cli.kubectl.flags import TableSettings
from gcushare.config_manager.manager_settings import RunSettings
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.runtime.settings.declare import list_specs
from gcushare.scheduler_extender.extender_settings import ExtenderSettings

SERVERS = (PluginSettings, ExtenderSettings, RunSettings)
FOR_PEOPLE = (CardsSettings, DoctorSettings, TableSettings)
SAME_IN_OTHER_WORDS = {
    "GCUSHARE_EXTENDER_SERVICE_NAME": "where the extender's Service is",
    "GCUSHARE_INTERVAL": "seconds between two rounds",
    "GCUSHARE_CARD_POLICY": "which card comes first",
    "GCUSHARE_CLAIMS": "whether nodes may serve claims",
    "GCUSHARE_MEMORY_UNIT": "what 1 of the memory resource stands for",
    "GCUSHARE_VENDOR": "whose cards",
    "KUBECONFIG": "how to reach the API server",
    "NODE_NAME": "this node",
}


def meanings(cls: type) -> dict[str, str]:
    return {spec.env: spec.help for spec in list_specs(cls) if spec.env}


@pytest.mark.parametrize("command", FOR_PEOPLE, ids=lambda cls: cls.__name__)
@pytest.mark.parametrize("server", SERVERS, ids=lambda cls: cls.__name__)
def test_a_servers_variable_means_the_same_to_a_command(server: type, command: type) -> None:
    of_server, of_command = meanings(server), meanings(command)
    shared = of_server.keys() & of_command.keys() - SAME_IN_OTHER_WORDS.keys()
    assert {each for each in shared if of_server[each] != of_command[each]} == set()


def test_the_servers_variables_mean_the_same_to_each_of_them() -> None:
    known: dict[str, str] = {}
    for server in SERVERS:
        for name, meaning in meanings(server).items():
            assert known.setdefault(name, meaning) == meaning or name in SAME_IN_OTHER_WORDS
