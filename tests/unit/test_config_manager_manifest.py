"""Static pod manifests: what is read from them, and what is refused because no careful edit exists."""

from __future__ import annotations

from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcushare.config_manager.host.launch import ConfigTarget, health_endpoint, scheduler_flags
from gcushare.config_manager.host.manifest_text import PodManifest, parse_manifest
from gcushare.core.errors import ConfigError, Refused
from tests.unit.config_manager_host import CONFIG, CORPUS, EACH_OF_CORPUS, OWN_FILES, TARGET, corpus_text, load_yaml

# One worker: each manifest is parsed once for all tests.
pytestmark = pytest.mark.xdist_group("manifests of schedulers")

HEAD = "kind: Pod\nmetadata: {name: kube-scheduler}\nspec:\n"


@lru_cache
def corpus(name: str) -> PodManifest:
    return parse_manifest(corpus_text(name).decode(), name)


@pytest.mark.parametrize("name", EACH_OF_CORPUS)
def test_only_flag_mount_and_volume_differ_after_the_edit(name: str) -> None:
    manifest = corpus(name)
    edited = manifest.pointed_at(TARGET)
    before, after = load_yaml(manifest.text.lstrip("\ufeff")), load_yaml(edited.text.lstrip("\ufeff"))
    container = after["spec"]["containers"][manifest.index]
    was = before["spec"]["containers"][manifest.index]
    assert container.get("volumeMounts")[-1]["mountPath"] == CONFIG
    assert after["spec"]["volumes"][-1]["hostPath"] == {"path": CONFIG, "type": "File"}
    rest = {**container, "volumeMounts": container["volumeMounts"][:-1] or None}
    for key in ("command", "args"):
        rest[key] = [each for each in rest.get(key) or [] if CONFIG not in each]
        was = {**was, key: [each for each in was.get(key) or [] if "--config=" not in each]}
    assert rest == {"volumeMounts": None, **was}
    containers = [*after["spec"]["containers"]]
    containers[manifest.index] = before["spec"]["containers"][manifest.index]
    volumes = after["spec"]["volumes"][:-1]
    assert {**after, "spec": {**after["spec"], "containers": containers, "volumes": volumes}} == {
        **before,
        "spec": {**before["spec"], "volumes": before["spec"].get("volumes") or []},
    }


@settings(max_examples=5)
@given(
    name=st.sampled_from(CORPUS),
    flag=st.sampled_from(["config", "policy-config-file"]),
    tag=st.from_regex(r"[0-9a-f]{10}", fullmatch=True),
    newline=st.sampled_from(["\n", "\r\n"]),
    cut=st.booleans(),
)
def test_edit_and_removal_are_inverse_for_any_line_ends(
    name: str, flag: str, tag: str, newline: str, cut: bool
) -> None:
    text = corpus_text(name).decode().replace("\r\n", "\n").replace("\n", newline)
    manifest = parse_manifest(text.rstrip("\r\n") if cut else text, name)
    target = ConfigTarget(flag, CONFIG, tag)
    edited = manifest.pointed_at(target)
    was = [each.value for each in manifest.flags if each.name == flag]
    assert (manifest.points_at(target), edited.points_at(target)) == (False, True)
    assert edited.without_trace(OWN_FILES, was[-1] if was else None).text == manifest.text


@pytest.mark.parametrize(
    ("flags", "url"),
    [
        ("--v=2", "https://127.0.0.1:10259/healthz"),
        ("--bind-address=10.0.0.7", "https://10.0.0.7:10259/healthz"),
        ("--bind-address=::", "https://127.0.0.1:10259/healthz"),
        ("--secure-port=10300 --secure-port=10301", "https://127.0.0.1:10301/healthz"),
        ("--secure-port=0", "http://127.0.0.1:10251/healthz"),
        ("--secure-port=0 --port=10252 --address=10.0.0.8", "http://10.0.0.8:10252/healthz"),
    ],
)
def test_health_is_asked_where_the_flags_have_the_scheduler_listen(flags: str, url: str) -> None:
    assert health_endpoint(scheduler_flags(("kube-scheduler", *flags.split()))).url == url


@pytest.mark.parametrize(
    ("name", "path", "host"),
    [
        ("existing-config-1.28.yaml", "/etc/kubernetes/admin/scheduler.yaml", "/srv/scheduler/scheduler.yaml"),
        ("kubeadm-1.29.yaml", "/etc/other.yaml", None),
        ("kubeadm-1.29.yaml", "/etc/kubernetes/scheduler.conf.d", None),
    ],
)
def test_a_path_of_the_container_is_followed_to_the_host(name: str, path: str, host: str | None) -> None:
    assert corpus(name).host_path(path) == host


def test_a_sub_path_is_part_of_the_way_and_other_volumes_lead_nowhere() -> None:
    manifest = parse_manifest(
        HEAD + "  containers:\n  - command: [kube-scheduler]\n    volumeMounts:\n"
        "    - {name: a, mountPath: /conf, subPath: x/y}\n    - {name: m, mountPath: /conf/map}\n"
        "  volumes:\n  - {name: a, hostPath: {path: /srv}}\n  - {name: m, configMap: {name: c}}\n",
        "m",
    )
    assert manifest.host_path("/conf/f.yaml") == "/srv/x/y/f.yaml"
    assert manifest.host_path("/conf/map/f.yaml") is None


@pytest.mark.parametrize(
    ("container", "message"),
    [
        pytest.param(
            "  - {name: a, command: [sh, -c, kube-scheduler --kubeconfig=/x]}", "started by a shell", id="shell"
        ),
        pytest.param(
            "  - {name: kube-scheduler, image: x/kube-scheduler:v1.30.0}", "no command and no args", id="bare"
        ),
        pytest.param("  - command: [kube-scheduler]\n  - command: [/bin/kube-scheduler]", "several", id="two of them"),
        pytest.param(
            "  - command: &c [kube-scheduler]\n  - {name: x, command: *c, image: y}", "several containers", id="shared"
        ),
        pytest.param(
            "  - command: [kube-scheduler]\n    volumeMounts: &m [{name: k, mountPath: /k}]\n"
            "  - {name: side, image: y, volumeMounts: *m}",
            "anchor 'm' is used in 2 places",
            id="shared mounts",
        ),
        pytest.param(
            f"  - command: [kube-scheduler]\n    volumeMounts: [{{name: old, mountPath: {CONFIG}}}]",
            "mounted already, as volume 'old'",
            id="mounted by another system",
        ),
        pytest.param("  - command: [kube-scheduler, --new]", "--new has no value, and", id="flag without its value"),
    ],
)
def test_what_cannot_be_edited_without_side_effects_is_refused(container: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        parse_manifest(HEAD + "  containers:\n" + container + "\n", "m").pointed_at(TARGET)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\n---\n---\n# why\nkind: Pod\n", "more than one YAML document.*take the others out"),
        ("kind: Pod\nkind: Pod\n", "^m: key 'kind' appears 2 times"),
        ("kind: Pod\n\tmetadata: {}\n", r"line 2"),
    ],
)
def test_a_manifest_that_readers_understand_differently_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_manifest(text, "m")


@pytest.mark.parametrize("command", ["[kube-scheduler]", "[/init, /bin/kube-scheduler]", "[/hyperkube, scheduler]"])
def test_the_scheduler_is_found_by_its_command_among_other_containers(command: str) -> None:
    text = f"kind: Pod\nspec: {{containers: [{{name: a, command: [x]}}, {{name: b, command: {command}}}]}}\n"
    assert parse_manifest(text, "m").index == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("[kube-scheduler, --config, /old, --v=2]", "[kube-scheduler, --config, NEW, --v=2]"),
        ("[kube-scheduler, --config=/a, --config=/b]", "[kube-scheduler, --config=/a, --config=NEW]"),
        ("['kube-scheduler', '--config=/a']", "['kube-scheduler', '--config=NEW']"),
    ],
)
def test_a_flag_that_is_there_is_replaced_where_it_counts(arguments: str, expected: str) -> None:
    text = HEAD + f"  containers:\n  - command: {arguments}\n"
    edited = parse_manifest(text, "m").pointed_at(TARGET)
    assert f"command: {expected.replace('NEW', CONFIG)}\n" in edited.text
    assert edited.without_trace(OWN_FILES, None if "/a" not in arguments else "/a").flags[0].name in ("v", "config")
