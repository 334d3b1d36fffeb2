"""Settings that change something are typed on the command line: no variable gives them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gcushare.runtime.settings import parsers
from gcushare.runtime.settings.declare import Program, list_specs, setting, settings
from gcushare.runtime.settings.loading import Answered, load_settings


@settings
class ChangingSettings:
    """Changing."""

    fix: bool = setting(parsers.boolean(), default=False, typed=True, help="Change the cluster.")
    namespace: str = setting(parsers.text("NAME"), default="all", typed=True, help="Where.")


CHANGING = Program(name="gcushare-changing", summary="Changes.", version="1", settings=ChangingSettings)


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


@pytest.mark.parametrize("name", ["fix", "yes", "execute", "force_delete", "remove_from_node", "confirm", "restart"])
def test_no_program_can_declare_a_change_that_a_variable_triggers(name: str) -> None:
    field = setting(parsers.boolean(), default=False, help="Change something.")
    careless = settings(type("Careless", (), {"__annotations__": {name: bool}, name: field}))
    with pytest.raises(TypeError, match="typed=True"):
        list_specs(careless)


def test_the_variables_of_the_deploy_scripts_mean_the_same_to_the_programs_or_nothing() -> None:
    root = Path(__file__).parents[2]
    scripts = " ".join(path.read_text() for path in (root / "deploy").rglob("*.sh"))
    read_by_scripts = set(re.findall(r"GCUSHARE_[A-Z_]+", scripts))
    read_by_programs = set(re.findall(r"env:\s+(GCUSHARE_[A-Z_]+)", (root / "docs" / "cli-reference.md").read_text()))
    assert {"GCUSHARE_NAMESPACE", "GCUSHARE_TIMEOUT"} <= read_by_scripts
    shared = {"GCUSHARE_VENDOR", "GCUSHARE_MEMORY_UNIT", "GCUSHARE_EXTENDER_URL"}
    assert read_by_scripts & read_by_programs <= shared
