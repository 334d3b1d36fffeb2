"""Whose a process or a control group is: in every spelling of kubelets and runtimes, while processes come and go."""

from __future__ import annotations

import os
import threading
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.cards.process_owners import MAX_PROCESSES, ProcessOwners, find_pod_uid
from tests.fake_proc import FakeProc, cgroup_of

UID = "0f3c8e5a-1b2c-4d3e-8f90-a1b2c3d4e5f6"
OTHER = "11111111-2222-3333-4444-555555555555"
SYSTEMD = UID.replace("-", "_")
CONTAINER = "8c1f" * 16


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def test_processes_are_reported_with_their_pods_and_those_of_the_host_are_left_out(proc: FakeProc) -> None:
    proc.start_in_pod(42, UID)
    proc.start_in_pod(43, OTHER)
    proc.start(44, "0::/system.slice/sshd.service\n")
    assert ProcessOwners(proc.root).find([42, 43, 44, 45]) == {42: UID, 43: OTHER}


def test_a_number_that_was_given_again_is_the_new_processs_until_that_ends(proc: FakeProc) -> None:
    owners = ProcessOwners(proc.root)
    proc.start_in_pod(42, UID)
    assert owners.find([42]) == {42: UID}
    proc.start(42, "0::/init.scope\n")
    assert owners.find([42]) == {}
    proc.start_in_pod(42, OTHER)
    assert owners.find([42]) == {42: OTHER}
    proc.end(42)
    assert owners.find([42]) == {}


def test_the_group_of_a_known_process_is_read_again_only_after_no_one_asked_for_it(proc: FakeProc) -> None:
    owners = ProcessOwners(proc.root)
    proc.start_in_pod(42, UID)
    owners.find([42])
    (proc.root / "42" / "cgroup").unlink()
    assert owners.find([42]) == {42: UID}
    owners.find([])
    assert owners.find([42]) == {}


def test_a_process_that_is_moved_into_its_pod_later_is_found_then(proc: FakeProc) -> None:
    owners = ProcessOwners(proc.root)
    proc.start(42, "0::/system.slice/containerd.service\n")
    assert owners.find([42]) == {}
    (proc.root / "42" / "cgroup").write_text(cgroup_of(UID))
    assert owners.find([42]) == {42: UID}


def test_a_number_that_changes_hands_while_one_looks_is_no_ones(proc: FakeProc) -> None:
    proc.start_in_pod(42, UID)
    group = proc.root / "42" / "cgroup"
    group.unlink()
    os.mkfifo(group)  # opening it waits for the other side

    def change_hands() -> None:
        with group.open("w") as pipe:  # by now the first process's start time was read
            proc.start_again(42)
            pipe.write(cgroup_of(UID))

    other = threading.Thread(target=change_hands)
    other.start()
    assert ProcessOwners(proc.root).find([42]) == {}
    other.join()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("stat", "42 (python3) S 1 2", id="a stat that is cut off"),
        pytest.param("cgroup", "\udcff".encode("utf-8", "surrogateescape").decode("latin-1") * 5, id="no text"),
        pytest.param("cgroup", None, id="a file that cannot be read"),
    ],
)
def test_a_file_that_says_nothing_leaves_its_process_to_no_one(proc: FakeProc, name: str, text: str | None) -> None:
    proc.start_in_pod(42, UID)
    file = proc.root / "42" / name
    if text is None:
        file.unlink()
        file.mkdir()
    else:
        file.write_text(text)
    assert ProcessOwners(proc.root).find([42]) == {}


@pytest.mark.parametrize("name", ["a b", "a) S 1 2 3", "((", "\n"])
def test_a_programs_name_may_look_like_fields(proc: FakeProc, name: str) -> None:
    owners = ProcessOwners(proc.root)
    proc.start(42, cgroup_of(UID), name=name)
    assert owners.find([42]) == {42: UID}
    proc.start(42, cgroup_of(OTHER), name=name)
    assert owners.find([42]) == {42: OTHER}


@pytest.mark.slow
def test_however_many_processes_there_are_a_bounded_number_is_looked_at(proc: FakeProc) -> None:
    proc.start_in_pod(1, UID)
    proc.start_in_pod(MAX_PROCESSES + 1, UID)
    assert ProcessOwners(proc.root).find(range(MAX_PROCESSES, 0, -1)) == {1: UID}
    assert ProcessOwners(proc.root).find(range(1, MAX_PROCESSES + 2)) == {1: UID}


def test_within_a_container_or_without_a_proc_nothing_is_said_and_it_says_why(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc", namespace="pid:[4026532000]")
    proc.start_in_pod(42, UID)
    for root, words in ((proc.root, "hostPID"), (tmp_path / "nowhere", "nowhere")):
        owners = ProcessOwners(root)
        assert (owners.find([42]), owners.running_pods()) == ({}, None)
        assert words in owners.problem()


def test_the_real_proc_of_this_machine_is_read() -> None:
    owners = ProcessOwners()
    assert owners.find([1]) == {}, "the first process is no pod's, whether the machine's or unseen in a container"
    assert owners.problem() == "" or "hostPID" in owners.problem()
    assert (owners.running_pods() is None) is bool(owners.problem())


def test_the_pods_that_run_are_those_with_any_process_on_a_card_or_not(proc: FakeProc) -> None:
    owners = ProcessOwners(proc.root)
    assert owners.running_pods() == frozenset()
    proc.start_in_pod(42, UID)
    proc.start_in_pod(43, UID)
    proc.start_in_pod(44, OTHER)
    proc.start(45, "0::/system.slice/sshd.service\n")
    assert owners.running_pods() == frozenset({UID, OTHER})


# Control groups


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
