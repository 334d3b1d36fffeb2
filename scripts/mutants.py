"""Mutation tests: `make mutants`, with mutmut.

A mutant is a small change of the source. It is killed if a test fails on it. Each group below is run with the tests of
its modules, in a copy of the tree; of a group with a sample only so many mutants are tried, the same ones in every run
of the same source. ``EXPLAINED`` names functions in which a change cannot affect any result, each with the reason; nor
can one in a call of the logger. All other survivors count against the group's ``least_percent``.

The core takes about two minutes on two idle cores, each sample some ten. `--group kube` runs one group, `--sample`
changes the size of the samples (0: every mutant), `--keep` reports the previous run.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK = ROOT / "build" / "mutants"
SEED = 1
COPIED = ("src", "tests", "scripts", "deploy", "docs", "playground", "README.md", "pyproject.toml")
KILLED, SURVIVED = {"killed", "timeout", "segfault", "caught by type check"}, {"survived", "no tests", "suspicious"}
NOT_CHOSEN = "not checked"


@dataclass(frozen=True, slots=True)
class Group:
    """Modules below ``src/gcushare`` and the tests below ``tests`` that are run on their mutants."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    sample: int = 0
    """How many mutants are tried; 0 for all of them."""
    least_percent: float = 90.0


GROUPS = {
    "cards": Group(
        ("core/placement.py", "core/whole_cards.py", "core/matching.py", "wire/kubelet/device_ids.py"),
        (
            "unit/test_placement.py",
            "unit/test_card_preference.py",
            "unit/test_plugin_card_choice.py",
            "unit/test_device_ids.py",
            "unit/test_extender_several_cards.py",
            "unit/test_ledger.py",
            "unit/test_plugin_unit_change.py",
            "unit/test_extender_starting_pods.py",
        ),
    ),
    "ledger": Group(
        ("core/ledger.py", "core/nodes.py", "core/card_state.py"),
        (
            "unit/test_extender_claims.py",
            "unit/test_extender_doubt.py",
            "unit/test_extender_explaining.py",
            "unit/test_extender_pending_reasons.py",
            "unit/test_extender_refusal_events.py",
            "unit/test_ledger.py",
            "unit/test_ledger_stateful.py",
            "unit/test_extender_several_cards.py",
            "unit/test_placement.py",
            "unit/test_preemption.py",
            "unit/test_nodes_of_other_units.py",
            "unit/test_explanations.py",
        ),
    ),
    "preemption": Group(
        ("core/preemption/kept_room.py", "core/preemption/victims.py"),
        (
            "unit/test_preemption.py",
            "unit/test_extender_nominations.py",
            "unit/test_extender_preempting.py",
        ),
    ),
    "kube": Group(
        ("kube/*.py", "kube/connection/*.py"),
        (
            "unit/test_kube_election.py",
            "unit/test_kube_events.py",
            "unit/test_kube_requests.py",
            "unit/test_backoff.py",
            "protocol/test_kube_broken_servers.py",
            "protocol/test_kube_client.py",
            "protocol/test_kube_config.py",
            "protocol/test_kube_direct.py",
            "protocol/test_kube_on_apiserver.py",
            "protocol/test_kube_reflector.py",
            "protocol/test_kube_tls_and_login.py",
        ),
        sample=150,
    ),
    "plans": Group(
        ("config_manager/plan/*.py",),
        (
            "unit/test_config_manager_flow.py",
            "unit/test_config_manager_interrupted.py",
            "unit/test_config_manager_refused.py",
            "unit/test_config_manager_systemd.py",
            "unit/test_config_manager_way_back.py",
        ),
        sample=100,
    ),
    "plugin pods": Group(
        (
            "device_plugin/pods/allocations.py",
            "device_plugin/pods/annotation_diff.py",
            "device_plugin/pods/force_deleted.py",
            "device_plugin/pods/pod.py",
            "device_plugin/pods/store.py",
            "device_plugin/pods/unrecorded.py",
        ),
        (
            "unit/test_over_use_decisions.py",
            "unit/test_plugin_allocator.py",
            "unit/test_plugin_annotation_writer.py",
            "unit/test_plugin_force_deleted.py",
            "unit/test_plugin_device_list.py",
            "unit/test_held_cards.py",
            "unit/test_plugin_node_agent.py",
            "unit/test_plugin_pod_states.py",
            "unit/test_plugin_pod_store.py",
            "unit/test_plugin_unrecorded.py",
            "unit/test_plugin_two_resources.py",
            "unit/test_plugin_card_choice.py",
        ),
        sample=250,
    ),
    "plugin allocation": Group(
        (
            "device_plugin/allocation/allocator.py",
            "device_plugin/allocation/card_choice.py",
            "device_plugin/allocation/response.py",
        ),
        (
            "unit/test_mps_watch.py",
            "unit/test_plugin_allocator.py",
            "unit/test_plugin_response.py",
            "unit/test_plugin_card_choice.py",
            "unit/test_plugin_pod_states.py",
            "unit/test_plugin_device_list.py",
            "unit/test_plugin_two_resources.py",
        ),
        sample=250,
    ),
    "extender verbs": Group(
        (
            "scheduler_extender/verbs/bind.py",
            "scheduler_extender/verbs/binding_client.py",
            "scheduler_extender/verbs/dispatch.py",
            "scheduler_extender/verbs/filter.py",
            "scheduler_extender/verbs/pod_lookup.py",
            "scheduler_extender/verbs/preempt.py",
        ),
        (
            "unit/test_extender_binding.py",
            "unit/test_extender_claims.py",
            "unit/test_extender_dispatching.py",
            "unit/test_nodes_of_other_units.py",
            "unit/test_extender_doubt.py",
            "unit/test_extender_explaining.py",
            "unit/test_extender_pending_reasons.py",
            "unit/test_extender_refusal_events.py",
            "unit/test_extender_filtering.py",
            "unit/test_extender_fitting.py",
            "unit/test_extender_nominations.py",
            "unit/test_extender_preempting.py",
            "unit/test_extender_preferences.py",
            "unit/test_extender_several_cards.py",
        ),
        sample=250,
    ),
    "extender state": Group(
        (
            "scheduler_extender/maintenance.py",
            "cluster/view.py",
            "scheduler_extender/state/nominations.py",
            "scheduler_extender/state/pod_change_log.py",
            "scheduler_extender/state/pod_stores.py",
            "scheduler_extender/state/preferences.py",
            "scheduler_extender/state/scheduling_request.py",
            "scheduler_extender/state/vendor_state.py",
        ),
        (
            "unit/test_extender_doubt.py",
            "unit/test_debug_lines.py",
            "unit/test_extender_bounds.py",
            "unit/test_extender_claims.py",
            "unit/test_nodes_of_other_units.py",
            "unit/test_extender_filtering.py",
            "unit/test_kube_election.py",
            "unit/test_extender_preempting.py",
            "unit/test_extender_nominations.py",
            "unit/test_extender_preferences.py",
            "unit/test_extender_fitting.py",
            "unit/test_extender_state.py",
            "unit/test_extender_several_cards.py",
            "unit/test_extender_explaining.py",
            "unit/test_extender_pending_reasons.py",
            "unit/test_extender_refusal_events.py",
            "unit/test_extender_waking.py",
        ),
        sample=250,
    ),
}

EXPLAINED = {
    r"core\.(card_state\.xǁCardState|nodes\.xǁNodeState)ǁ__init__": "overwritten by the first cards before it is read",
    r"core\.nodes\.xǁNodeStateǁrecount": "text of a message, and its placeholder for a card that was not counted",
    r"core\.nodes\.xǁNodeStateǁ_refresh": "skips work if every pod has a card",
    r"core\.nodes\.xǁNodeStateǁdrop_cards": "None is as false as the previous value",
    r"core\.placement\.x_choose_cards": "if enough cards are able, a policy finds as many",
    r"victims\.x__find_need": "a card that is held whole is held by one pod, whose end frees it in either unit",
    r"victims\.xǁAgeǁ__lt__": "no two ages are equal, because each ends in a uid",
    r"core\.matching\.x_has_room": "memory over several cards is a multiple of their number",
    r"kubelet\.device_ids\.x_(check_fits_kubelet|explain_foreign_id)": "text of a message",
}
"""Patterns of the names of mutants that cannot affect a result, with the reason."""


def run_group(name: str, group: Group, children: int) -> None:
    """Run mutmut in a fresh copy of the tree. Its output goes to a file there."""
    mutmut = [str(Path(sys.executable).parent / "mutmut"), "run", "--max-children", str(children)]
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
        "pytest_add_cli_args_test_selection": [f"tests/{test}" for test in group.tests],
        # Calls of mutated functions are slow, so a property test takes several times as long.
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-p", "scripts.mutants_pytest", "-o", "timeout=600"],
        # scripts.mutants_pytest ends tests that hang. mutmut's own timeout depends on the machine's load.
        "timeout_multiplier": 60.0,
        "also_copy": [each for each in COPIED if each != "pyproject.toml"],
    }
    with (place / "pyproject.toml").open("a") as config:
        config.write("\n[tool.mutmut]\n" + "".join(f"{key} = {value!r}\n" for key, value in lists.items()))
    with (place / "log").open("w") as log:
        chosen: list[str] = []
        if group.sample:
            # With a name of no mutant mutmut writes the mutants and finds their tests, and ends.
            subprocess.run([*mutmut, "(none)"], cwd=place, stdout=log, stderr=subprocess.STDOUT, check=False)
            names = sorted(read_results(name))
            chosen = random.Random(SEED).sample(names, min(group.sample, len(names)))
        subprocess.run([*mutmut, *chosen], cwd=place, stdout=log, stderr=subprocess.STDOUT, check=False)


def read_results(name: str) -> dict[str, str]:
    """The outcomes of a group's mutants, by name.

    Raises:
        SystemExit: the group was not run, or its tests fail without a mutant.
    """
    place = WORK / name
    command = [str(Path(sys.executable).parent / "mutmut"), "results", "--all", "true"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False) if place.is_dir() else None
    found = re.findall(r"^\s*(\S+): (.+)$", done.stdout, re.MULTILINE) if done is not None else []
    if not found:
        raise SystemExit(f"group {name!r} has no results; {place / 'log'} says why, or run it without --keep")
    return dict(found)


def is_of_the_log(name: str, mutant: str) -> bool:
    """Whether a mutant changes a call of the logger alone."""
    command = [str(Path(sys.executable).parent / "mutmut"), "show", mutant]
    shown = subprocess.run(command, cwd=WORK / name, capture_output=True, text=True, check=False).stdout
    changed = re.findall(r"^[-+](?![-+]{2} )\s*(.*)$", shown, re.MULTILINE)
    return bool(changed) and all(line.startswith("logger.") for line in changed)


def report(name: str, least_percent: float) -> bool:
    """Print a line per module and the survivors without explanation; returns whether enough mutants are killed."""
    counts: dict[str, Counter[str]] = {}
    left: list[str] = []
    for mutant, outcome in sorted(read_results(name).items()):
        if outcome == NOT_CHOSEN:
            continue
        counted = counts.setdefault(mutant.partition(".x")[0].removeprefix("gcushare."), Counter())
        if outcome in KILLED:
            counted["killed"] += 1
        elif outcome not in SURVIVED:
            counted["not run"] += 1
        elif any(re.search(pattern, mutant) for pattern in EXPLAINED) or is_of_the_log(name, mutant):
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
    last = f"{name}: {share:.1f} % of {decided} killed; at least {least_percent:.0f} % are expected"
    sys.stdout.write("\n".join([*lines, *left, last]) + "\n")
    return share >= least_percent


def main() -> int:
    """Run the chosen groups. Returns 1 if too many mutants survive."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", choices=GROUPS, action="append", help="only this group; repeatable")
    parser.add_argument("--children", type=int, default=2, help="mutants that are tried at the same time")
    parser.add_argument("--keep", action="store_true", help="run nothing, count the results that there are")
    parser.add_argument("--sample", type=int, help="how many mutants of a group with a sample; 0 for all")
    arguments = parser.parse_args()
    is_enough = True
    for name in arguments.group or GROUPS:
        group = GROUPS[name]
        if arguments.sample is not None and group.sample:
            group = replace(group, sample=arguments.sample)
        if not arguments.keep:
            run_group(name, group, arguments.children)
        is_enough = report(name, group.least_percent) and is_enough
    return 0 if is_enough else 1


if __name__ == "__main__":
    sys.exit(main())
