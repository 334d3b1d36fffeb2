"""The audit of what is installed finds what it is there to find."""

from __future__ import annotations

import tomllib
import zipfile
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from scripts.audit import ROOT, changed_files, find_problems, read_hashes, read_pins, runtime_distributions


def make_distribution(folder: Path, license: str = "MIT") -> Distribution:
    """An installed distribution of one module, as pip leaves it."""
    info = folder / "thing-1.0.dist-info"
    info.mkdir()
    (folder / "thing.py").write_text("x = 1\n")
    (info / "RECORD").write_text("thing.py,,\nthing-1.0.dist-info/RECORD,,\n../bin/thing,sha256=x,1\n")
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: thing\nVersion: 1.0\nLicense-Expression: {license}\n")
    return PathDistribution(info)


def make_wheel(folder: Path) -> Path:
    """The wheel that it was installed from."""
    with zipfile.ZipFile(folder / "thing-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("thing.py", "x = 1\n")
        archive.writestr("thing-1.0.dist-info/RECORD", "what pip adds to")
        archive.writestr("thing-1.0.data/scripts/thing", "a command")
    return folder / "thing-1.0-py3-none-any.whl"


def test_what_is_pinned_unchanged_and_free_is_no_problem(tmp_path: Path) -> None:
    dist, wheel = make_distribution(tmp_path), make_wheel(tmp_path)
    assert list(find_problems({"thing": dist}, {"thing": "1.0"}, {"thing": wheel})) == []


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
    [found] = find_problems({"thing": make_distribution(tmp_path, license)}, pins, {"thing": make_wheel(tmp_path)})

    assert problem in found


def test_a_change_that_the_installed_list_of_files_agrees_with_is_named(tmp_path: Path) -> None:
    dist, wheel = make_distribution(tmp_path), make_wheel(tmp_path)
    record = tmp_path / "thing-1.0.dist-info" / "RECORD"
    (tmp_path / "more.py").write_text("import thing\n")
    record.write_text(f"{record.read_text()}more.py,,\n")
    assert changed_files(dist, wheel) == ["more.py"]


def test_everything_that_the_programs_load_is_pinned() -> None:
    needed = set(runtime_distributions()) - {"gcushare"}

    assert {"aiohttp", "multidict"} <= needed, "what is required indirectly is looked at, too"
    pins = read_pins((ROOT / "constraints.txt").read_text())
    assert needed <= set(pins)
    hashes = read_hashes((ROOT / "hashes.txt").read_text())
    assert hashes.keys() == {f"{name}=={pins[name]}" for name in needed}
    assert all(hashes.values())


def test_what_builds_the_package_is_pinned_and_the_image_is_built_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = {Requirement(words).name for words in project["build-system"]["requires"]}
    assert needed <= set(read_pins((ROOT / "constraints.txt").read_text()))
    dockerfile = (ROOT / "deploy/image/Dockerfile").read_text()
    assert "ENV PIP_CONSTRAINT=/src/constraints.txt" in dockerfile
    assert "--require-hashes --no-deps" in dockerfile
