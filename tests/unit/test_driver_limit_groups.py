"""Where the control groups of pods are found, and how much of a shared claim each of its pods may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulation.control_groups import ControlGroups

from gcushare.node.driver_limits.control_groups import child_groups, find_pod_groups
from gcushare.node.driver_limits.pod_amounts import divide

UID = "0f3c8e5a-1b2c-4d3e-8f90-a1b2c3d4e5f6"
SLICE = UID.replace("-", "_")
HASH = "0f3c8e5a1b2c4d3e8f90a1b2c3d4e5f6"


@pytest.mark.parametrize(
    ("path", "uid"),
    [
        (f"kubepods/pod{UID}", UID),
        (f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{SLICE}.slice", UID),
        (f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{SLICE}.slice", UID),
        (f"some/other/folder/kubepods/pod{UID}", UID),
        (f"system.slice/docker-1234.scope/kubelet/kubepods/burstable/pod{UID}", UID),
        (f"kubepods/burstable/pod{HASH}", HASH),
        (f"kubepods.slice/kubepods-pod{HASH}.slice", HASH),
    ],
)
def test_a_pods_group_is_found(tmp_path: Path, path: str, uid: str) -> None:
    groups = ControlGroups(tmp_path / "cgroup")
    group = groups.make(path)
    container = groups.make(f"{path}/cri-containerd-1.scope")
    found = find_pod_groups(groups.root)
    assert found.pods == {uid: (group,)}
    assert not found.problem
    assert found.top is not None
    assert "kubepods" in found.top.name
    assert child_groups(group) == (container,)


def test_what_a_pod_makes_within_its_own_group_is_no_other_pods(tmp_path: Path) -> None:
    groups = ControlGroups(tmp_path / "cgroup")
    group = groups.make(f"kubepods/pod{UID}")
    groups.make(f"kubepods/pod{UID}/kubepods/pod{UID.replace('0f', '1f')}")
    groups.make(f"user.slice/pod{UID}")
    assert find_pod_groups(groups.root).pods == {UID: (group,)}


def test_links_are_not_followed_and_a_group_that_is_gone_has_no_children(tmp_path: Path) -> None:
    groups = ControlGroups(tmp_path / "cgroup")
    outside = tmp_path / "outside" / f"pod{UID}"
    outside.mkdir(parents=True)
    (groups.make("kubepods") / "link").symlink_to(outside.parent)
    assert find_pod_groups(groups.root).pods == {}
    assert child_groups(groups.root / "gone") == ()


@pytest.mark.parametrize(("make", "words"), [(False, "version 2"), (True, "no control groups of pods")])
def test_why_there_are_none(tmp_path: Path, make: bool, words: str) -> None:
    root = ControlGroups(tmp_path / "cgroup").root if make else tmp_path
    assert words in find_pod_groups(root).problem


@given(size=st.integers(0, 64), needs=st.dictionaries(st.sampled_from("abcdef"), st.integers(-9, 99), min_size=1))
def test_pods_that_share_have_all_of_it_and_who_uses_more_than_its_part_keeps_it_as_far_as_it_goes(
    size: int, needs: dict[str, int]
) -> None:
    parts = divide(size, needs)
    assert sum(parts.values()) == size
    assert all(part >= 0 for part in parts.values())
    if sum(max(0, need) for need in needs.values()) <= size:
        assert all(parts[each] >= need for each, need in needs.items())


def test_pods_that_use_no_more_than_their_part_have_equal_parts() -> None:
    assert divide(8, {"a": 2, "b": 0, "c": 1, "d": 2}) == dict.fromkeys("abcd", 2)
    assert divide(8, {"a": 6, "b": 0, "c": 1}) == {"a": 6, "b": 1, "c": 1}
    assert divide(8, {"a": 8, "b": 0}) == {"a": 8, "b": 0}
