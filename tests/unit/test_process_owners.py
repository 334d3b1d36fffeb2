"""Whose a process is, read from the files of a /proc: numbers are given again, and processes end while one looks."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gcushare.cards.process_owners import MAX_PROCESSES, ProcessOwners
from tests.fake_proc import FakeProc, cgroup_of

UID = "0f3c8e5a-1b2c-4d3e-8f90-a1b2c3d4e5f6"
OTHER = "11111111-2222-3333-4444-555555555555"


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


def test_the_group_of_a_known_process_is_not_read_again(proc: FakeProc) -> None:
    owners = ProcessOwners(proc.root)
    proc.start_in_pod(42, UID)
    owners.find([42])
    (proc.root / "42" / "cgroup").unlink()
    assert owners.find([42]) == {42: UID}


def test_only_what_was_asked_for_last_is_remembered(proc: FakeProc) -> None:
    owners = ProcessOwners(proc.root)
    proc.start_in_pod(42, UID)
    owners.find([42])
    owners.find([])
    (proc.root / "42" / "cgroup").unlink()
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
        pytest.param("stat", "", id="an empty stat"),
        pytest.param("stat", "42 (python3) S 1 2", id="a stat that is cut off"),
        pytest.param("cgroup", "", id="no control group"),
        pytest.param("cgroup", "\udcff".encode("utf-8", "surrogateescape").decode("latin-1") * 5, id="no text"),
    ],
)
def test_a_file_that_says_nothing_leaves_its_process_to_no_one(proc: FakeProc, name: str, text: str) -> None:
    proc.start_in_pod(42, UID)
    (proc.root / "42" / name).write_text(text)
    assert ProcessOwners(proc.root).find([42]) == {}


def test_a_file_that_cannot_be_read_leaves_its_process_to_no_one(proc: FakeProc) -> None:
    proc.start_in_pod(42, UID)
    (proc.root / "42" / "cgroup").unlink()
    (proc.root / "42" / "cgroup").mkdir()
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


def test_within_a_container_nothing_is_said_and_it_says_why(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path / "proc", namespace="pid:[4026532000]")
    proc.start_in_pod(42, UID)
    owners = ProcessOwners(proc.root)
    assert owners.find([42]) == {}
    assert "hostPID" in owners.problem()


def test_without_a_proc_nothing_is_said_and_it_says_why(tmp_path: Path) -> None:
    owners = ProcessOwners(tmp_path / "nowhere")
    assert (owners.find([42]), owners.running_pods()) == ({}, None)
    assert "nowhere" in owners.problem()


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
