"""Whose a control group is, in every spelling that kubelets and runtimes have for it."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.cards.process_owners import find_pod_uid

UID = "0f3c8e5a-1b2c-4d3e-8f90-a1b2c3d4e5f6"
SYSTEMD = UID.replace("-", "_")
OTHER = "11111111-2222-3333-4444-555555555555"
STATIC = "3b1f6c0a9d8e7f6a5b4c3d2e1f0a9b8c"
CONTAINER = "8c1f" * 16


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
            f"kubelet-kubepods-besteffort-pod{SYSTEMD}.slice/docker-{CONTAINER}.scope\n",
            id="systemd below a cgroup root",
        ),
        pytest.param(
            f"0::/system.slice/containerd.service/kubepods-burstable-pod{SYSTEMD}.slice:cri-containerd:{CONTAINER}\n",
            id="the kubelet's driver is systemd, the runtime's is not",
        ),
        pytest.param(
            f"12:devices:/kubepods/besteffort/pod{UID}/{CONTAINER}\n"
            f"11:cpu,cpuacct:/kubepods/besteffort/pod{UID}/{CONTAINER}\n1:name=systemd:/kubepods/besteffort/pod{UID}/c\n",
            id="version 1",
        ),
        pytest.param(
            f"4:memory:/kubepods/pod{UID}/{CONTAINER}\n0::/system.slice/containerd.service\n",
            id="both versions, and only one knows pods",
        ),
        pytest.param(f"0::/../../pod{UID}/{CONTAINER}\n", id="seen from a pod of the same class, cgroupfs"),
        pytest.param(
            f"0::/../../../kubepods-burstable.slice/kubepods-burstable-pod{SYSTEMD}.slice/cri-containerd-8c.scope\n",
            id="seen from another pod, systemd",
        ),
        pytest.param(f"0::/kubepods/pod{UID} (deleted)\n", id="in a group that was removed"),
        pytest.param(f"0::/kubepods/pod{UID}/c\u2028 1:cpu:/kubepods/pod{OTHER}/c\n", id="a name with a separator"),
    ],
)
def test_the_pod_is_found(text: str) -> None:
    """Spellings that the property below does not draw."""
    assert find_pod_uid(text) == UID


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"0::/kubepods/burstable/pod{STATIC}/{CONTAINER}\n", id="cgroupfs"),
        pytest.param(f"0::/kubepods.slice/kubepods-pod{STATIC}.slice/cri-containerd-8c.scope\n", id="systemd"),
    ],
)
def test_a_static_pod_has_the_uid_of_its_manifest(text: str) -> None:
    assert find_pod_uid(text) == STATIC


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"0::/kubepods/{UID}/{CONTAINER}\n", id="a uid that is no pod's"),
        pytest.param(f"0::/user.slice/user-1000.slice/user@1000.service/app.slice/pod{UID}/x\n", id="a user's group"),
        pytest.param(f"0::/user.slice/user@1000.service/kubepods/pod{UID}/x\n", id="a user's group, named like ours"),
        pytest.param(f"0::/user.slice/kubepods-burstable-pod{SYSTEMD}.slice/x\n", id="a user's slice"),
        pytest.param(f"0::/../../../../user.slice/kubepods/pod{UID}/x\n", id="a user's group, seen from a pod"),
        pytest.param(f"0::/system.slice/pod{UID}/x\n", id="a service's group"),
        pytest.param(f"0::/pod{UID}/x\n", id="a group at the root"),
        pytest.param(f"0::/../../../../machine.slice/pod{UID}/x\n", id="another manager's group, seen from a pod"),
        pytest.param(f"0::/system.slice/my-pod{SYSTEMD}.slice/x\n", id="a slice without the kubelet's word"),
        pytest.param(f"0::/kubepods/pod{UID}0/c\n", id="longer than a uid"),
        pytest.param(f"0::/kubepods/pod{UID[:-1]}/c\n", id="shorter than a uid"),
        pytest.param(f"0::/kubepods/xpod{UID}/c\n", id="a word that ends in pod"),
        pytest.param(f"0::/kubepods/pod{UID.replace('-', '_', 1)}/c\n", id="two spellings in one"),
        pytest.param(f"2:cpu:/kubepods/pod{UID}/c\n1:memory:/kubepods/pod{OTHER}/c\n", id="lines that disagree"),
    ],
)
def test_nothing_is_said_of_what_carries_no_pod(text: str) -> None:
    assert find_pod_uid(text) is None


_CLASSES = st.sampled_from(["", "burstable", "besteffort"])
_NAMES = st.text(st.characters(exclude_characters="/\n", exclude_categories=["Cs"]), min_size=1, max_size=40).filter(
    lambda name: "pod" not in name
)


@given(uid=st.uuids(), quality=_CLASSES, below=st.lists(_NAMES, max_size=3), root=st.lists(_NAMES, max_size=2))
def test_every_uid_is_found_in_both_drivers_spellings_whatever_stands_around_it(
    uid: uuid.UUID, quality: str, below: list[str], root: list[str]
) -> None:
    above = [*root, "kubepods", *([quality] if quality else [])]
    plain = "/".join([*above, f"pod{uid}", *below])
    words = "-".join(["kubepods", *([quality] if quality else []), f"pod{str(uid).replace('-', '_')}.slice"])
    systemd = "/".join([*root, words, *below])
    assert find_pod_uid(f"0::/{plain}\n") == find_pod_uid(f"3:cpu:/{systemd}\n") == str(uid)


@given(text=st.text(max_size=300))
def test_any_text_is_read_and_without_a_uid_it_names_no_pod(text: str) -> None:
    assert find_pod_uid(text) is None


@given(uid=st.uuids(), other=st.uuids(), inner=st.lists(_NAMES, max_size=2))
def test_what_is_made_within_a_pod_names_no_other_pod(uid: uuid.UUID, other: uuid.UUID, inner: list[str]) -> None:
    path = "/".join(["kubepods", f"pod{uid}", "container", *inner, f"pod{other}", "x"])
    assert find_pod_uid(f"0::/{path}\n") == str(uid)
