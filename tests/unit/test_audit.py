"""The audit of what is installed finds what it is there to find."""

from __future__ import annotations

import base64
import hashlib
import tomllib
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from scripts.audit import ROOT, changed_files, find_problems, read_pins, runtime_distributions


def make_distribution(folder: Path, license: str = "MIT") -> Distribution:
    """An installed distribution of one module, as pip leaves it."""
    info = folder / "thing-1.0.dist-info"
    info.mkdir()
    (folder / "thing.py").write_text("x = 1\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    (info / "RECORD").write_text(f"thing.py,sha256={digest},6\nthing-1.0.dist-info/RECORD,,\n../bin/thing,sha256=x,1\n")
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: thing\nVersion: 1.0\nLicense-Expression: {license}\n")
    return PathDistribution(info)


def test_what_is_pinned_unchanged_and_free_is_no_problem(tmp_path: Path) -> None:
    assert list(find_problems({"thing": make_distribution(tmp_path)}, {"thing": "1.0"})) == []


@pytest.mark.parametrize(
    ("pins", "license", "problem"),
    [
        ({}, "MIT", "not pinned"),
        ({"thing": "1.1"}, "MIT", "pinned is 1.1"),
        ({"thing": "1.0"}, "SSPL-1.0", "SSPL-1.0"),
        ({"thing": "1.0"}, "Limited-Permission", "Limited-Permission"),
    ],
)
def test_each_fault_is_named(tmp_path: Path, pins: dict[str, str], license: str, problem: str) -> None:
    [found] = find_problems({"thing": make_distribution(tmp_path, license)}, pins)

    assert problem in found


def test_a_file_that_was_changed_or_removed_is_named(tmp_path: Path) -> None:
    dist = make_distribution(tmp_path)
    (tmp_path / "thing.py").write_text("x = 2\n")
    assert changed_files(dist) == ["thing.py"]

    (tmp_path / "thing.py").unlink()
    assert changed_files(dist) == ["thing.py"]


def test_a_line_that_pins_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="thing>=1"):
        read_pins("thing>=1  # not a pin\n")


def test_everything_that_the_programs_load_is_pinned() -> None:
    needed = set(runtime_distributions()) - {"gcushare"}

    assert {"aiohttp", "multidict"} <= needed, "what is required indirectly is looked at, too"
    assert needed <= set(read_pins((ROOT / "constraints.txt").read_text()))


def test_what_builds_the_package_is_pinned_and_the_image_is_built_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {Requirement(words).name for words in project["build-system"]["requires"]}
    assert needed <= set(read_pins((ROOT / "constraints.txt").read_text()))
    assert "ENV PIP_CONSTRAINT=/src/constraints.txt" in (ROOT / "deploy/image/Dockerfile").read_text()
