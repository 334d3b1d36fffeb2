"""The scripts of this repository: --help answers, and a wrong command line changes nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.charts import ROOT

TEMPLATES = {"executable_stub.sh", "image_command.sh"}
"""They become programs of their own, which hand their arguments on."""
SHELL = [path for path in sorted(ROOT.glob("scripts/*.sh")) if path.name not in TEMPLATES] + [
    *sorted(ROOT.glob("deploy/*/build-and-deploy/*.sh")),
    ROOT / "deploy/manifests/render.sh",
    ROOT / "deploy/image/make-root.sh",
]
BUILDERS = [
    f"scripts.{path.stem}"
    for path in sorted(ROOT.glob("scripts/*.py"))
    if 'if __name__ == "__main__"' in path.read_text()
] + ["scripts.grafana"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the scripts read and write."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("deploy", "scripts", "docs"):
        shutil.copytree(
            ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("images", "__pycache__")
        )
    for name in ("README.md", "README.zh-CN.md", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def contents(folder: Path) -> dict[Path, tuple[int, int]]:
    """When each file was last written, and its size: reading them all takes longer than most scripts."""
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


def run(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    before = contents(folder)
    environment = {"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder), "PYTHONPATH": str(folder)}
    done = subprocess.run(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
    )
    assert contents(folder) == before, done
    return done


def commands(folder: Path) -> dict[str, list[str | Path]]:
    shell: dict[str, list[str | Path]] = {
        str(path.relative_to(ROOT)): ["bash", folder / path.relative_to(ROOT)] for path in SHELL
    }
    return shell | {module: [sys.executable, "-m", module] for module in BUILDERS}


# Two processes for each script.
@pytest.mark.slow
@pytest.mark.parametrize("name", commands(ROOT))
def test_help_answers_and_an_unknown_flag_is_refused(checkout: Path, name: str) -> None:
    command = commands(checkout)[name]
    helped = run(checkout, *command, "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert len(helped.stdout) > 60
    refused = run(checkout, *command, "--nonsense")
    assert refused.returncode in (1, 2)
    assert "--help" in refused.stderr or "usage:" in refused.stderr, refused
    assert "Traceback" not in refused.stderr


NEEDS_ARGUMENTS = [
    "scripts/change_repository.sh",
    "scripts/base_image.sh",
    "scripts/release_files.sh",
    "scripts/publish.sh",
]
NEEDS_ARGUMENTS += ["deploy/image/make-root.sh", "scripts.executables", "scripts.krew", "scripts.packages"]


@pytest.mark.parametrize("name", NEEDS_ARGUMENTS)
def test_without_the_arguments_that_it_needs_a_script_changes_nothing(checkout: Path, name: str) -> None:
    refused = run(checkout, *commands(checkout)[name])
    assert refused.returncode in (1, 2)
    assert refused.stderr


def test_an_unpacked_archive_is_not_published(checkout: Path) -> None:
    refused = run(checkout, *commands(checkout)["scripts/publish.sh"], "--registry", "registry.local/gcushare")
    assert (refused.returncode, "is no checkout of git" in refused.stderr) == (1, True), refused
