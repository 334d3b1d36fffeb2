"""Variables mean the same to every program, as people export them for all; what changes something is typed instead."""

from __future__ import annotations

import dataclasses
import importlib
import re
from pathlib import Path

import pytest

import gcushare
import gcushare_playground
from gcushare.cli.cards.cards_settings import CardsSettings
from gcushare.cli.doctor.doctor_settings import DoctorSettings
from gcushare.cli.kubectl.flags import TableSettings
from gcushare.config_manager.manager_settings import RunSettings
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, list_specs, setting, settings
from gcushare.runtime.settings.loading import Answered, load_settings
from gcushare.runtime.settings.log import LogSettings
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


@settings
class ChangingSettings:
    """Changing."""

    fix: bool = setting(parsers.boolean(), default=False, typed=True, help="Change the cluster.")
    namespace: str = setting(parsers.text("NAME"), default="all", typed=True, help="Where.")


CHANGING = Program(name="gcushare-changing", summary="Changes.", settings=ChangingSettings)


def test_what_is_typed_is_read_from_the_command_line_alone() -> None:
    environ = {"GCUSHARE_FIX": "true", "GCUSHARE_NAMESPACE": "x"}
    left_over = load_settings(CHANGING, (), environ)
    assert (left_over.fix, left_over.namespace) == (False, "all")
    asked = load_settings(CHANGING, ("--fix", "--namespace=y"), environ)
    assert (asked.fix, asked.namespace) == (True, "y")


def test_help_says_what_the_command_line_alone_gives() -> None:
    with pytest.raises(Answered) as page:
        load_settings(CHANGING, ("--help",), {})
    assert "GCUSHARE_FIX" not in page.value.text
    assert "on the command line alone" in page.value.text


MUTATING_WORDS = frozenset(
    {
        *("apply", "approve", "confirm", "delete", "drain", "erase", "execute", "fix", "force", "overwrite", "purge"),
        *("remove", "reset", "restart", "uninstall", "wipe", "yes"),
    }
)
"""A switch with one of these words in its name changes something, or confirms a change."""


def settings_classes() -> list[type]:
    """Every class with settings, of every module that declares some."""
    names = {
        ".".join(path.relative_to(root).with_suffix("").parts)
        for root in (Path(gcushare.__file__).parents[1], Path(gcushare_playground.__file__).parents[1])
        for path in root.rglob("*.py")
        if "settings.declare import" in path.read_text()
    }
    found = (each for name in sorted(names) for each in vars(importlib.import_module(name)).values())
    return list(dict.fromkeys(each for each in found if isinstance(each, type) and is_declared(each)))


def is_declared(cls: type) -> bool:
    fields = dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    return any({"gcushare.setting", "gcushare.group"} & field.metadata.keys() for field in fields)


def doubled(cls: type) -> set[str]:
    """Names and variables that two settings of a class have."""
    specs = list_specs(cls)
    texts = [word for spec in specs for word in (spec.name, spec.env) if word]
    return {each for each in texts if texts.count(each) > 1}


def changed_by_variables(cls: type) -> set[str]:
    """Switches that change something, and that a forgotten variable may set."""
    switches = (spec for spec in list_specs(cls) if spec.parser.is_switch and not spec.is_typed)
    return {spec.name for spec in switches if MUTATING_WORDS & set(spec.name.split("-"))}


def test_no_program_declares_a_name_twice_or_a_change_that_a_variable_triggers() -> None:
    classes = settings_classes()
    assert {LogSettings, DoctorSettings, RunSettings, ExtenderSettings, PluginSettings} <= {*classes}
    assert {each: found for each in classes if (found := doubled(each) | changed_by_variables(each))} == {}


def test_the_variables_of_the_deploy_scripts_mean_the_same_to_the_programs_or_nothing() -> None:
    root = Path(__file__).parents[2]
    scripts = " ".join(path.read_text() for path in (root / "deploy").rglob("*.sh"))
    read_by_scripts = set(re.findall(r"GCUSHARE_[A-Z_]+", scripts))
    read_by_programs = set(re.findall(r"env:\s+(GCUSHARE_[A-Z_]+)", (root / "docs" / "cli-reference.md").read_text()))
    assert {"GCUSHARE_NAMESPACE", "GCUSHARE_TIMEOUT"} <= read_by_scripts
    shared = {"GCUSHARE_VENDOR", "GCUSHARE_MEMORY_UNIT", "GCUSHARE_EXTENDER_URL"}
    assert read_by_scripts & read_by_programs <= shared
