"""The rights and the containers' bounds that the charts render are the ones that docs/security.md names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

import pytest

from gcushare.wire.contracts import CA, CLIENT_CERT, CLIENT_KEY, DEVICE_PLUGIN, EXTENDER
from tests.charts import (
    EVERYTHING,
    EXTENDER_CHART,
    PLUGIN_CHART,
    ROOT,
    Object,
    containers,
    in_one_worker,
    needs_helm,
    of_kind,
    pod_specs,
    render_everything,
    rendered,
)
from tests.documents import Document

pytestmark = [needs_helm, in_one_worker]

DOCUMENT = ROOT / "docs/security.md"
RIGHT = re.compile(
    r"  `(?P<what>[^`]+)` (?P<verbs>[a-z, ]+?)(?: \(`(?P<names>[^`]+)`\))?: .+?"
    r"(?:; bound: `(?P<policy>[^`]+)`|(?P<unbound>; unbound: .+))?"
)
HOST_PATH = re.compile(r"`(?P<path>/[^`]+)` \((?P<who>[^;)]+)(?:; (?P<how>[^)]+))?\): .+")
OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
Row = tuple[str, str, str, frozenset[str], frozenset[str]]


def words(cell: str) -> frozenset[str]:
    return frozenset(word.strip() for word in cell.split(",") if word.strip())


def documented() -> dict[Row, tuple[str, bool]]:
    """Below each role `RESOURCE.GROUP` VERBS (`NAMES`): why; which policy bounds it, and if it says why none does."""
    rows, role = {}, ""
    for item in Document.read(DOCUMENT).items("Rights"):
        if not item.startswith(" "):
            role = item
            continue
        found = RIGHT.fullmatch(item)
        assert found is not None, item
        resource, _, group = found["what"].partition(".")
        row = (role, group, resource, words(found["verbs"]), words(found["names"] or ""))
        rows[row] = (found["policy"] or "", found["unbound"] is not None)
    return rows


def granted(objects: Iterable[Object]) -> Iterator[Row]:
    """One row per rule and resource of the rendered roles."""
    for role in of_kind([*objects], "ClusterRole", "Role"):
        meta = role["metadata"]
        name = f"{role['kind']} " + (f"{meta['namespace']}/" if role["kind"] == "Role" else "") + meta["name"]
        for rule in role["rules"]:
            for group in rule.get("apiGroups", ("",)):
                for resource in rule.get("resources", rule.get("nonResourceURLs", ())):
                    yield name, group, resource, frozenset(rule["verbs"]), frozenset(rule.get("resourceNames", ()))


def everything() -> list[Object]:
    return [each for objects in render_everything().values() for each in objects]


def test_the_documented_rights_are_what_the_charts_grant() -> None:
    assert {*granted(everything())} == documented().keys()


def test_every_right_to_write_is_bounded_by_a_name_or_a_policy_or_says_why_not() -> None:
    objects = everything()
    accounts = {}
    for each in of_kind(objects, "ClusterRoleBinding", "RoleBinding"):
        (subject,) = each["subjects"]
        accounts[each["roleRef"]["name"]] = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    policies = [(each["metadata"]["name"], each["spec"]) for each in of_kind(objects, "ValidatingAdmissionPolicy")]
    for row, (policy, is_unbound) in documented().items():
        role, group, resource, verbs, named = row
        writes = {OPERATIONS[verb] for verb in verbs & OPERATIONS.keys()}
        assert bool(policy or is_unbound) == bool(writes and not named), row
        account = accounts[re.split("[ /]", role)[-1]]
        names = {f"{chart}-{policy}" for chart in (EXTENDER, DEVICE_PLUGIN, "gcushare-claims")}
        found = [spec for name, spec in policies if name in names and account in str(spec)]
        held = {
            operation
            for spec in found
            for rule in spec["matchConstraints"]["resourceRules"]
            if resource in rule["resources"] and group in rule["apiGroups"]
            for operation in rule["operations"]
        }
        assert not policy or writes <= held, row
        assert {spec["failurePolicy"] for spec in found} <= {"Fail"}


def test_every_mount_of_the_host_is_documented_with_its_mode() -> None:
    rows = set()
    for item in Document.read(DOCUMENT).items("Paths of the host"):
        found = HOST_PATH.fullmatch(item)
        assert found is not None, item
        rows |= {(found["path"], who, words(found["how"] or "")) for who in words(found["who"])}
    mounts = set()
    for objects in render_everything().values():
        for spec in pod_specs(objects).values():
            paths = {
                volume["name"]: volume["hostPath"]["path"] for volume in spec.get("volumes", ()) if "hostPath" in volume
            }
            for container in containers(spec):
                for mount in container.get("volumeMounts", ()):
                    if mount["name"] in paths and not mount["name"].startswith("read-only-"):
                        how = {"read-only"} if mount.get("readOnly") else set()
                        how |= {mount["mountPropagation"]} if "mountPropagation" in mount else set()
                        mounts.add((paths[mount["name"]], container["name"], frozenset(how)))
    assert mounts == rows


EVICTIONS = ("ClusterRole gcushare-device-plugin", "", "pods/eviction", frozenset({"create"}), frozenset[str]())


@pytest.mark.parametrize(
    ("values", "is_given"),
    [
        pytest.param(("podUse=true",), False, id="reported"),
        pytest.param(("podUse=true", "overUse.action=evict"), True, id="evicted"),
        pytest.param(("podUse=true", "overUse.action=evict", "overUse.dryRun=true"), False, id="rehearsed"),
        pytest.param(("podUse=true", "idle.action=evict"), True, id="idle pods evicted"),
        pytest.param(("podUse=true", "idle.action=evict", "overUse.dryRun=true"), False, id="idle pods rehearsed"),
    ],
)
def test_the_right_to_evict_is_given_only_if_an_admin_turned_evictions_on(
    values: tuple[str, ...], is_given: bool
) -> None:
    before, now = {*granted(rendered(PLUGIN_CHART))}, {*granted(rendered(PLUGIN_CHART, *values))}
    assert now - before == ({EVICTIONS} if is_given else set())


@pytest.mark.parametrize(
    ("values", "words"),
    [
        pytest.param(("overUse.action=evict",), "needs podUse=true", id="evictions without figures"),
        pytest.param(("podUse=true", "overUse.dryRun=true"), "set one of them too", id="a rehearsal of nothing"),
        pytest.param(("idle.action=evict",), "idle.action=evict needs podUse=true", id="idle without figures"),
        pytest.param(
            ("vendor=aliyun", "podUse=true", "idle.action=evict", "memoryLimit=driver"),
            "set idle.action to report, or another memoryLimit",
            id="idle without processes",
        ),
        pytest.param(("memoryLimit=mps",), "NVIDIA", id="a limit for no card"),
        pytest.param(("vendor=aliyun", "limitFallback=mps"), "stands in for the driver", id="a stand-in for nothing"),
    ],
)
def test_values_that_cannot_work_together_are_refused(values: tuple[str, ...], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        rendered(PLUGIN_CHART, *values)
    with pytest.raises(AssertionError, match=r"kubelets of Kubernetes v1\.28\.0 do not read CDI names"):
        rendered(PLUGIN_CHART, "deviceListStrategy={cdi}", version="1.28.0")


def test_an_extender_without_verbs_only_reads_but_for_notes_on_nodes() -> None:
    values = ("scheduler.mode=none", "scheduler.verbs=off")
    found = [
        right for right in granted(rendered(EXTENDER_CHART, *values)) if right[0].startswith("ClusterRole gcushare-s")
    ]
    assert {resource for _, _, resource, _, _ in found} == {
        *("nodes", "nodes/status", "pods", "resourceclaims", "tokenreviews", "subjectaccessreviews")
    }
    with pytest.raises(AssertionError, match="a scheduler that calls the extender would find no answer"):
        rendered(EXTENDER_CHART, "scheduler.verbs=off")


def test_no_rule_has_a_wildcard_or_reaches_what_is_secret_but_the_extenders_certificates() -> None:
    for name, group, resource, verbs, names in documented():
        assert "*" not in f"{group}{resource}{''.join(verbs)}", name
        if resource == "secrets":
            # Never create: anyone who may create a Secret can have it filled with another service account's token.
            assert verbs == {"get", "patch"}, name
            assert names == {"gcushare-scheduler-extender-verbs"}, name
        assert not resource.startswith(("secrets/", "pods/exec", "serviceaccounts")), name


def test_every_bound_role_is_ours_or_one_that_kubernetes_keeps() -> None:
    objects = everything()
    ours = {(each["kind"], each["metadata"]["name"]) for each in of_kind(objects, "ClusterRole", "Role")}
    bound = {
        (each["roleRef"]["kind"], each["roleRef"]["name"])
        for each in of_kind(objects, "ClusterRoleBinding", "RoleBinding")
    }
    assert bound - ours == {
        ("ClusterRole", "system:kube-scheduler"),
        ("ClusterRole", "system:volume-scheduler"),
        ("Role", "extension-apiserver-authentication-reader"),
    }
    assert ours <= bound


def test_every_pod_runs_under_an_account_that_is_rendered_or_under_none() -> None:
    objects = everything()
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    for name, spec in pod_specs(objects).items():
        if "serviceAccountName" in spec:
            assert spec["serviceAccountName"] in accounts, name
        else:
            assert spec["automountServiceAccountToken"] is False, name


@pytest.mark.parametrize("name", sorted(set(EVERYTHING) - {"all that can be on"}))
def test_no_container_can_gain_rights_or_write_to_its_root(name: str) -> None:
    for pod, spec in pod_specs(render_everything()[name]).items():
        assert not spec.get("hostPID"), pod
        for container in containers(spec):
            context = container["securityContext"]
            where = f"{pod}/{container['name']}"
            assert context["readOnlyRootFilesystem"] is True, where
            assert context["allowPrivilegeEscalation"] is False, where
            gives_files = container["name"] in ("log-directory", "gcushare-config-manager")
            given = {"add": ["CHOWN"]} if gives_files else {}
            assert context["capabilities"] == {"drop": ["ALL"], **given}, where
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}, where
            assert "privileged" not in context, where


def test_only_those_run_as_root_whose_files_belong_to_root() -> None:
    roots = {
        container["name"]
        for objects in render_everything().values()
        for spec in pod_specs(objects).values()
        for container in containers(spec)
        if container["securityContext"]["runAsUser"] == 0
    }
    plugins = {"gcushare-device-plugin", "mps-control-daemon"}
    assert roots == {*plugins, "gcushare-config-manager", "log-directory"}


@pytest.mark.parametrize(
    ("values", "mounted"),
    [
        pytest.param((), {"/etc/kubernetes/manifests", "/etc/kubernetes/gcushare"}, id="default"),
        pytest.param(("filesDir=/etc/kubernetes",), {"/etc/kubernetes"}, id="one directory, for renames within it"),
        pytest.param(("manifest=/srv/pods/s.yaml",), {"/srv/pods", "/etc/kubernetes/gcushare"}, id="another manifest"),
        pytest.param(
            ("readOnlyPaths={/srv/scheduler}",),
            {"/etc/kubernetes/manifests", "/etc/kubernetes/gcushare", "/srv/scheduler (read-only)"},
            id="an admin's configuration",
        ),
    ],
)
def test_the_config_manager_sees_its_own_files_and_the_static_pods(values: tuple[str, ...], mounted: set[str]) -> None:
    objects = rendered(EXTENDER_CHART, "logs.hostPath=", *(f"configManager.{value}" for value in values))
    spec = pod_specs(objects)["DaemonSet/gcushare-config-manager"]
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    (container,) = spec["containers"]
    mounts = [mount for mount in container["volumeMounts"] if mount["name"] in paths]
    assert {paths[mount["name"]] + " (read-only)" * mount.get("readOnly", False) for mount in mounts} == mounted
    assert all(mount["mountPath"] == f"/host{paths[mount['name']]}" for mount in mounts)
    assert f"--files-dir={paths['files']}" in container["args"]


def secret_items(spec: Object) -> set[str]:
    (secret,) = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
    return {item["key"] for item in secret["items"]}


def test_the_config_manager_gets_the_authority_and_not_the_extenders_key() -> None:
    specs = pod_specs(rendered(EXTENDER_CHART, "tls.mode=own", "scheduler.verbs=plain"))
    assert secret_items(specs["DaemonSet/gcushare-config-manager"]) == {"ca.crt"}


@pytest.mark.parametrize(
    ("mode", "name"),
    [("config-manager", "DaemonSet/gcushare-config-manager"), ("second-scheduler", "Deployment/gcushare-scheduler")],
)
def test_the_schedulers_side_gets_its_own_certificate_and_no_key_of_the_extender_or_an_authority(
    mode: str, name: str
) -> None:
    specs = pod_specs(rendered(EXTENDER_CHART, f"scheduler.mode={mode}"))
    assert secret_items(specs[name]) == {CA, CLIENT_CERT, CLIENT_KEY}
    for other, spec in specs.items():
        assert other == name or not [volume for volume in spec.get("volumes", ()) if "secret" in volume], other


@pytest.mark.parametrize("serves_claims", [False, True])
def test_limits_by_the_driver_take_one_capability_and_the_hosts_control_groups(serves_claims: bool) -> None:
    claims = ["claims.enabled=true"] if serves_claims else []
    objects = rendered(PLUGIN_CHART, "vendor=both", "memoryLimit=driver", "podUse=true", *claims)
    limited = {name: spec for name, spec in pod_specs(objects).items() if name.startswith("DaemonSet/")}
    found = {name: containers(spec)[0] for name, spec in limited.items()}
    assert len(found) == 2
    for name, container in found.items():
        is_nvidia = name.endswith("-aliyun")
        added = {"add": ["SYS_ADMIN"]} if is_nvidia else {}
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], **added}
        assert ("--memory-limit=driver" in container["args"]) == is_nvidia
        mounts = {each["mountPath"]: each.get("readOnly") for each in container["volumeMounts"]}
        assert mounts.get("/host/cgroup") is (True if is_nvidia else None)
        assert limited[name].get("hostPID") is (None if is_nvidia else True)
    (policy,) = (
        each for each in of_kind(objects, "ValidatingAdmissionPolicy") if "pod-variables" in each["metadata"]["name"]
    )
    text = json.dumps(policy["spec"])
    assert "NVIDIA_GPU_MEMORY_LIMIT" in text
    assert ("object.spec.resourceClaims" in text) == serves_claims


def test_pods_may_choose_what_they_see_where_an_admin_says_so() -> None:
    objects = rendered(PLUGIN_CHART, "ownVisibleCards.action=allow")
    assert not [each for each in of_kind(objects, "ValidatingAdmissionPolicy") if "pod-variables" in str(each)]
