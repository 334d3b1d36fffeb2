"""build-image.sh, and the image that deploy.sh asks for, with a docker that lacks buildx, as image_tool.py plays it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcushare._version import __version__
from tests.charts import NAMESPACE
from tests.playground.deploy_bench import EXTENDER, PLUGIN, Bench, in_order, started_bench
from tests.playground.deploy_rig import needs_tools

pytestmark = [needs_tools, pytest.mark.slow]

REPOSITORY = "artifact.enflame.cn/enflame_docker_images/enflame"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with started_bench(tmp_path) as started:
        yield started


def saved_names(bench: Bench, package: str) -> list[str]:
    """What the saved image is called inside of its file."""
    with tarfile.open(bench.package(package) / "images" / f"{package}.tar") as archive:
        manifest = archive.extractfile("manifest.json")
        assert manifest is not None
        names: list[str] = json.loads(manifest.read())[0]["RepoTags"]
        return names


def edit_values(bench: Bench, package: str, old: str, new: str) -> None:
    """Edit the chart's values.yaml as the manual's reader does with vim."""
    values = bench.package(package) / f"{package}-chart" / "values.yaml"
    text = values.read_text()
    assert text.count(old) == 1, old
    values.write_text(text.replace(old, new))


async def test_building_without_buildx_prints_what_the_manual_shows_and_saves_the_image(bench: Bench) -> None:
    done = await bench.run(EXTENDER, "build-image.sh")
    assert done.code == 0, done
    lines = [
        "1. Clear old image if exist\n",
        "2. Build image start...\n",
        f"image name:{REPOSITORY}/{EXTENDER}, image version:v{__version__}\n",
        "build image success\n",
        "3. save image to ./images\n",
        f"{bench.package(EXTENDER)}\n",
        "build success, you can deploy gcushare scheduler extender use deploy.sh\n",
    ]
    assert in_order(done.out, lines), done
    assert [path.name for path in (bench.package(EXTENDER) / "images").iterdir()] == [f"{EXTENDER}.tar"]
    assert saved_names(bench, EXTENDER) == [f"{REPOSITORY}/{EXTENDER}:v{__version__}"]
    (build,) = [call for call in bench.calls if call.startswith("docker build ")]
    assert f"--target {EXTENDER} " in build
    assert build.endswith(str(bench.root))


async def test_the_image_of_before_is_removed_after_the_new_one_is_built(bench: Bench) -> None:
    await bench.run(PLUGIN, "build-image.sh")
    former = bench.image_ids("docker")
    again = await bench.run(PLUGIN, "build-image.sh")
    assert again.code == 0, again
    (old,) = former.values()
    assert in_order(again.out, ["build image success\n", f"Deleted: {old}\n"]), again
    assert bench.image_ids("docker").keys() == former.keys()
    assert bench.image_ids("docker") != former


@pytest.mark.parametrize("step", ["docker build ", "docker save"])
async def test_a_build_that_fails_says_what_to_do_and_leaves_the_image_of_before(bench: Bench, step: str) -> None:
    bench.fail_once(step)
    done = await bench.run(PLUGIN, "build-image.sh")
    assert done.code == 1
    assert "what to do: " in done.errors
    assert not (bench.package(PLUGIN) / "images" / f"{PLUGIN}.tar").exists()
    assert (await bench.run(PLUGIN, "build-image.sh")).code == 0
    former = bench.image_ids("docker")
    bench.fail_once("docker build ")
    assert (await bench.run(PLUGIN, "build-image.sh")).code == 1
    assert bench.image_ids("docker") == former


async def test_buildkit_builds_only_if_buildx_answers(bench: Bench) -> None:
    bench.put_tool("seen", "")
    plain = f'[ "$1" != build ] || echo "$DOCKER_BUILDKIT" >>"{bench.root}/buildkit"; exec "{bench.root}/bin/real" "$@"'
    real = (bench.root / "bin" / "docker").read_text().replace("Path(sys.argv[0]).name", '"docker"')
    (bench.root / "bin" / "real").write_text(real)
    (bench.root / "bin" / "real").chmod(0o755)
    bench.put_tool("docker", plain)
    assert (await bench.run(PLUGIN, "build-image.sh")).code == 0
    (bench.root / "buildx").touch()
    assert (await bench.run(PLUGIN, "build-image.sh")).code == 0
    assert (bench.root / "buildkit").read_text().split() == ["0", "1"]


async def test_a_tag_and_a_repository_edited_in_values_yaml_count(bench: Bench) -> None:
    edit_values(bench, PLUGIN, f'tag: "v{__version__}"', 'tag: "v2"   # ours')
    edit_values(bench, PLUGIN, f"repository: {REPOSITORY}", "repository: registry.local/cards")
    edit_values(bench, PLUGIN, 'memoryUnit: "1"', 'memoryUnit: "0.1"              # 该字段表示共享GCU粒度')
    built = await bench.run(PLUGIN, "build-image.sh")
    assert built.code == 0, built
    assert f"image name:registry.local/cards/{PLUGIN}, image version:v2\n" in built.out
    done = await bench.run(PLUGIN, "deploy.sh", "--nodes", "all")
    assert done.code == 0, done
    image = f"registry.local/cards/{PLUGIN}:v2"
    assert f"docker push {image}" in bench.calls
    container = bench.site.get("daemonsets.apps", PLUGIN)["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == image
    assert "--memory-unit=0.1" in container["args"]


async def test_a_flag_counts_before_values_yaml_and_a_values_file_too(bench: Bench) -> None:
    edit_values(bench, EXTENDER, f'tag: "v{__version__}"', 'tag: "v2"')
    file = bench.root / "mine.yaml"
    file.write_text("image: {repository: registry.local/file, tag: v3}\n")
    words = ("--delivery", "none", "--scheduler-mode", "none")
    for options, image in (
        (("--tag", "v4"), f"{REPOSITORY}/{EXTENDER}:v4"),
        (("--values", str(file)), f"registry.local/file/{EXTENDER}:v3"),
        (("--values", str(file), "--repository", "r.local"), f"r.local/{EXTENDER}:v3"),
    ):
        done = await bench.run(EXTENDER, "deploy.sh", *words, *options)
        assert done.code == 0, done
        spec = bench.site.get("deployments.apps", EXTENDER, NAMESPACE)["spec"]["template"]["spec"]
        assert spec["containers"][0]["image"] == image


async def test_a_saved_image_of_another_name_is_refused_before_anything_is_changed(bench: Bench) -> None:
    await bench.run(PLUGIN, "build-image.sh")
    edit_values(bench, PLUGIN, f'tag: "v{__version__}"', 'tag: "v2"')
    done = await bench.run(PLUGIN, "deploy.sh", "--nodes", "all")
    assert done.code == 1
    held, wanted = f"{REPOSITORY}/{PLUGIN}:v{__version__}", f"{REPOSITORY}/{PLUGIN}:v2"
    assert f"holds the image {held}, but the pods will ask for {wanted}" in done.errors
    assert "run ./build-image.sh again" in done.errors
    assert bench.labelled() == set()
