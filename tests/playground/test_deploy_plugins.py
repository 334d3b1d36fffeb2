"""build-image.sh, and the plugin's deploy.sh and delete.sh, with a docker that image_tool.py plays."""

from __future__ import annotations

import pytest

from gcushare._version import __version__
from gcushare.vendors import ALIYUN, ENFLAME
from tests.charts import NAMESPACE, PLUGIN_CHART
from tests.playground.deploy_rig import EXTENDER, PLUGIN, Bench, in_order, needs_tools
from tests.playground.plugin_pods import NO_CARDS, NO_CPU, NO_IMAGE, NO_LIBRARY, Obstacle

pytestmark = [needs_tools, pytest.mark.slow]


async def deploy_everywhere(bench: Bench, *words: str) -> None:
    done = await bench.run(PLUGIN, "deploy.sh", "--nodes", "all", "--delivery", "none", *words)
    assert done.code == 0, done


async def label(bench: Bench, node: str, key: str) -> None:
    """Label a node as another system's admin does."""
    done = await bench.site.run("kubectl", "label", "node", node, f"{key}=true")
    assert done.code == 0, done


async def test_enter_labels_a_node_without_a_library_and_deploying_says_so(bench: Bench) -> None:
    bench.site.plugins.obstacles["n2"] = NO_LIBRARY
    done = await bench.run(PLUGIN, "deploy.sh", "--delivery", "none", "--timeout", "2s", stdin="\n")
    assert done.code == 1, done
    why = f"{NO_LIBRARY.reason}: {NO_LIBRARY.message}"
    assert in_order(done.out, ["node n1: the plugin is ready\n", f"node n2: the plugin did not start: {why}\n"]), done
    assert "the plugin did not start on every labelled node" in done.errors
    assert f"kubectl label node NODE {ENFLAME.label_key}-" in done.errors
    lines = (
        f"set -euo pipefail; cd {bench.root}/deploy/lib; . ./common.sh; . ./plugins.sh",
        f"name={PLUGIN} namespace={NAMESPACE} timeout=10m settle_s=1; wait_for_plugins enflame",
    )
    settled = await bench.site.run("bash", "-c", "\n".join(lines))
    assert settled.code == 1, settled
    assert f"node n2: the plugin did not start: {why}\n" in settled.out, "long before the time is over"


async def test_a_deployment_does_not_wait_for_mps_daemons_which_it_leaves_as_they_are(bench: Bench) -> None:
    await deploy_everywhere(bench, "--vendor", "aliyun", "--set", "memoryLimit=mps", "--timeout", "60s")
    assert bench.site.names("daemonsets.apps") == {f"{PLUGIN}-aliyun", f"{PLUGIN}-aliyun-mps"}


@pytest.mark.parametrize(
    ("obstacle", "why"),
    [
        pytest.param(NO_IMAGE, 'ImagePullBackOff: Back-off pulling image "registry/image"', id="image"),
        pytest.param(NO_CPU, "no room for its pod: 0/2 nodes are available: 2 Insufficient cpu.", id="cpu"),
        pytest.param(NO_CARDS, "NoCards: efml found no card", id="cards"),
        pytest.param(Obstacle(), f"its pod {PLUGIN}-n1 is not ready", id="unknown"),
    ],
)
async def test_deploying_names_the_reason_when_its_time_is_over(bench: Bench, obstacle: Obstacle, why: str) -> None:
    bench.site.plugins.obstacles["n1"] = obstacle
    done = await bench.run(PLUGIN, "deploy.sh", "--nodes", "n1", "--delivery", "none", "--timeout", "2s")
    assert (done.code, f"node n1: the plugin did not start: {why}" in done.out) == (1, True), done


async def test_deleting_the_plugin_removes_its_release_and_its_label_and_can_be_repeated(bench: Bench) -> None:
    await deploy_everywhere(bench)
    await label(bench, "n2", ALIYUN.label_key)
    done = await bench.run(PLUGIN, "delete.sh")
    assert done.code == 0, done
    lines = [
        f"uninstall gcushare device plugin release in namespace:{NAMESPACE} start...\n",
        f'release "{PLUGIN}" uninstalled\n',
        "node/n1 ",
        "node/n2 ",
    ]
    assert in_order(done.out, lines), done
    assert bench.labelled() == set()
    assert bench.labelled(ALIYUN.label_key) == {"n2"}, "Aliyun's own nodes keep their label"
    assert bench.site.names("daemonsets.apps") == set()
    again = await bench.run(PLUGIN, "delete.sh")
    assert (again.code, "is not installed" in again.out) == (0, True)


async def test_nothing_loses_its_label_if_no_release_is_installed(bench: Bench) -> None:
    await label(bench, "n1", ALIYUN.label_key)
    await label(bench, "n2", ENFLAME.label_key)
    done = await bench.run(PLUGIN, "delete.sh")
    assert done.code == 0, done
    assert "the label gpushare=true stays on: n1 (if gcushare set it, remove it by: " in done.out
    assert (bench.labelled(), bench.labelled(ALIYUN.label_key)) == ({"n2"}, {"n1"})
    asked = await bench.run(PLUGIN, "delete.sh", "--vendor", "aliyun")
    assert asked.code == 0, asked
    assert (bench.labelled(), bench.labelled(ALIYUN.label_key)) == ({"n2"}, set())


async def test_helm_uninstall_takes_off_no_label_of_the_other_vendor(bench: Bench) -> None:
    await bench.site.helm("install", PLUGIN, PLUGIN_CHART, "--set", "cleanup.removeNodeLabel=true")
    await label(bench, "n1", ALIYUN.label_key)
    await label(bench, "n1", ENFLAME.label_key)
    await bench.site.run("kubectl", "annotate", "node", "n1", f"{ENFLAME.inventory_annotation}={{}}")
    await bench.site.helm("uninstall", PLUGIN)
    assert (bench.labelled(), bench.labelled(ALIYUN.label_key)) == (set(), {"n1"})


REPOSITORY = "artifact.enflame.cn/enflame_docker_images/enflame"


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
    (saved,) = [call for call in bench.calls if call.startswith("docker save ")]
    assert saved.endswith(f" {REPOSITORY}/{EXTENDER}:v{__version__}")
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


async def test_buildkit_builds_if_buildx_answers(bench: Bench) -> None:
    (bench.root / "buildx").touch()
    assert (await bench.run(PLUGIN, "build-image.sh")).code == 0


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
