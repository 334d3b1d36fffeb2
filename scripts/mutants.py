"""Change the core in small ways and see whether its tests notice: `make mutants`, with mutmut.

A mutant is killed when a test of its module fails on it. Each group below is run with the tests that are meant to know
it, in a copy of the tree, so that nothing is changed here. Of those that survive, ``EXPLAINED`` names the functions in
which a change shows in no answer, each with its reason; all others count against ``LEAST_PERCENT``.

It takes some two minutes on two idle cores; `--group preemption` runs one group, `--keep` counts what a former run
found.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK = ROOT / "build" / "mutants"
LEAST_PERCENT = 90.0
COPIED = ("src", "tests", "scripts", "deploy", "docs", "playground", "README.md", "pyproject.toml")
KILLED, SURVIVED = {"killed", "timeout", "segfault", "caught by type check"}, {"survived", "no tests", "suspicious"}


@dataclass(frozen=True, slots=True)
class Group:
    """Modules below ``src/gcushare`` and the tests below ``tests/unit`` that are run on their mutants."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


GROUPS = {
    "cards": Group(
        ("core/placement.py", "core/matching.py", "wire/kubelet/device_ids.py", "wire/kubelet/whole_card_ids.py"),
        (
            "test_placement.py",
            "test_placement_scores.py",
            "test_card_preference.py",
            "test_matching.py",
            "test_device_ids.py",
            "test_whole_card_ids.py",
            "test_extender_several_cards.py",
            "test_ledger.py",
            "test_node_state.py",
        ),
    ),
    "ledger": Group(
        ("core/ledger.py", "core/nodes.py"),
        (
            "test_ledger.py",
            "test_ledger_unrecorded.py",
            "test_ledger_stateful.py",
            "test_extender_several_cards.py",
            "test_placement_scores.py",
            "test_preemption_room.py",
            "test_node_state.py",
        ),
    ),
    "preemption": Group(
        ("core/preemption/nominations.py", "core/preemption/victims.py"),
        (
            "test_preemption.py",
            "test_preemption_room.py",
            "test_extender_nominations.py",
            "test_extender_preempting_again.py",
        ),
    ),
}

EXPLAINED = {
    r"core\.ledger\.x_describe_shortage": "words of a message; its figures are compared in the ledger's tests",
    r"core\.nodes\.xǁ(CardState|NodeState)ǁ__init__": "replaced by what the first cards say, before anyone reads it",
    r"core\.nodes\.xǁNodeStateǁrecount": "words of a message, and what stands in it for a card that was not counted",
    r"core\.nodes\.xǁNodeStateǁ_refresh": "work that is spared where no pod is without a card",
    r"core\.nodes\.xǁNodeStateǁdrop_cards": "None is as false as what stood there",
    r"core\.placement\.x_choose_cards": "where enough cards are able a policy finds as many",
    r"victims\.x__find_need": "a card that is held whole is held by one pod, whose end frees it in either unit",
    r"victims\.xǁ_Searchǁ_combine": "how many combinations are tried, and which of too many; more find the same",
    r"victims\.xǁ_Searchǁ_outline": "a filter that leaves all in, a priority twice, a cost that is known there",
    r"victims\.xǁ_Searchǁrun": "who counts as a pod of several cards: more of them take more work and find the same",
    r"victims\.xǁAgeǁ__lt__": "no two ages are equal, as each ends in a uid",
    r"victims\.xǁ_Searchǁ_shares": "no pod is given the same card twice",
    r"core\.matching\.x_has_room": "memory over several cards is a multiple of their number",
    r"kubelet\.device_ids\.x_(check_fits_kubelet|explain_foreign_id)": "words of a message",
}
"""Patterns of mutants' names whose change no answer shows, with the reason."""


def run_group(name: str, group: Group, children: int) -> None:
    """Make a fresh copy of the tree and run mutmut in it; its progress goes to a file there."""
    place = WORK / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for each in COPIED:
        source = ROOT / each
        if source.is_dir():
            shutil.copytree(source, place / each, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, place / each)
    lists = {
        "source_paths": ["src"],
        "only_mutate": [f"src/gcushare/{module}" for module in group.modules],
        "pytest_add_cli_args_test_selection": [f"tests/unit/{test}" for test in group.tests],
        # Every call of a mutated function takes a detour, so that a property test takes several times as long.
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-p", "scripts.mutants_pytest", "-o", "timeout=600"],
        # Tests that do not end are ended by scripts.mutants_pytest: mutmut goes by the clock, and so by what else runs.
        "timeout_multiplier": 60.0,
        "also_copy": [each for each in COPIED if each != "pyproject.toml"],
    }
    with (place / "pyproject.toml").open("a") as config:
        config.write("\n[tool.mutmut]\n" + "".join(f"{key} = {value!r}\n" for key, value in lists.items()))
    with (place / "log").open("w") as log:
        command = [str(Path(sys.executable).parent / "mutmut"), "run", "--max-children", str(children)]
        subprocess.run(command, cwd=place, stdout=log, stderr=subprocess.STDOUT, check=False)


def read_results(name: str) -> dict[str, str]:
    """The outcome of every mutant of a group, by its name.

    Raises:
        SystemExit: it was not run, or the tests fail without any mutant.
    """
    place = WORK / name
    command = [str(Path(sys.executable).parent / "mutmut"), "results", "--all", "true"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False) if place.is_dir() else None
    found = re.findall(r"^\s*(\S+): (.+)$", done.stdout, re.MULTILINE) if done is not None else []
    if not found:
        raise SystemExit(f"group {name!r} has no results; {place / 'log'} says why, or run it without --keep")
    return dict(found)


def report(results: dict[str, str]) -> float:
    """Print a line per module and every survivor that is not explained; returns the share killed, in percent."""
    counts: dict[str, Counter[str]] = {}
    left: list[str] = []
    for mutant, outcome in sorted(results.items()):
        counted = counts.setdefault(mutant.partition(".x")[0].removeprefix("gcushare."), Counter())
        if outcome in KILLED:
            counted["killed"] += 1
        elif outcome not in SURVIVED:
            counted["not run"] += 1
        elif any(re.search(pattern, mutant) for pattern in EXPLAINED):
            counted["explained"] += 1
        else:
            counted["survived"] += 1
            left.append(mutant)
    words = ("killed", "survived", "explained", "not run")
    lines = [
        f"{module:32}" + "".join(f"{counted[word]:6} {word}" for word in words) for module, counted in counts.items()
    ]
    total = sum(counts.values(), Counter[str]())
    decided = total["killed"] + total["survived"]
    share = 100.0 * total["killed"] / max(1, decided)
    last = f"{share:.1f} % of {decided} killed; at least {LEAST_PERCENT:.0f} % are expected"
    sys.stdout.write("\n".join([*lines, *left, last]) + "\n")
    return share


def main() -> int:
    """Run what was asked for; 1 where too many survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", choices=GROUPS, action="append", help="only this group; repeatable")
    parser.add_argument("--children", type=int, default=2, help="mutants that are tried at the same time")
    parser.add_argument("--keep", action="store_true", help="run nothing, count the results that there are")
    arguments = parser.parse_args()
    results: dict[str, str] = {}
    for name in arguments.group or GROUPS:
        if not arguments.keep:
            run_group(name, GROUPS[name], arguments.children)
        results |= read_results(name)
    return 0 if report(results) >= LEAST_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
