"""The driver is killed at every write of every step, started again, and called again as the kubelet would."""

from __future__ import annotations

from pathlib import Path

import pytest

from gcushare.core.errors import RemoteContractError
from gcushare.device_plugin.claims.claim_files import CheckpointFile, ClaimCdiFiles
from gcushare.device_plugin.claims.prepared_claims import PreparedClaims
from gcushare.wire.dra.checkpoint import PreparedClaim
from tests.unit.claims_driver_values import DRIVER, a_claim, a_result, an_inventory, prepared_claims
from tests.unit.cut_off import CutOff, Ended, every_cut_off

CARDS = an_inventory(16)
CLAIM = a_claim("one", a_result("card-0", 4))
OTHER = a_claim("other", a_result("card-0", 8))
WRITES_OF_PREPARE, WRITES_OF_UNPREPARE, WRITES_OF_REBUILD = 3, 2, 3


class CutCheckpoint(CheckpointFile):
    def __init__(self, directory: Path, cut: CutOff) -> None:
        super().__init__(directory)
        self._cut = cut

    def write(self, claims: dict[str, PreparedClaim]) -> None:
        with self._cut.write():
            super().write(claims)

    def copy_aside(self) -> Path | None:
        with self._cut.write():
            return super().copy_aside()


class CutCdi(ClaimCdiFiles):
    def __init__(self, directory: Path, cut: CutOff) -> None:
        super().__init__(directory, DRIVER)
        self._cut = cut

    def write(self, claim: PreparedClaim) -> None:
        with self._cut.write():
            super().write(claim)

    def remove(self, uid: str) -> None:
        with self._cut.write():
            super().remove(uid)

    def remove_others(self, uids: object) -> int:
        with self._cut.write():
            return super().remove_others(uids)  # type: ignore[arg-type] # the collection of the base class


def cut_claims(root: Path, cut: CutOff) -> PreparedClaims:
    return prepared_claims(root, checkpoint=CutCheckpoint(root / "plugin", cut), cdi=CutCdi(root / "cdi", cut))


def started(root: Path) -> PreparedClaims:
    prepared = prepared_claims(root)
    prepared.load()
    return prepared


def files(root: Path) -> set[str]:
    folder = root / "cdi"
    return {each.name for each in folder.iterdir()} if folder.exists() else set()


def expect_sound(root: Path, prepared: PreparedClaims) -> None:
    """No file without its entry, and a file for every claim that counts as prepared."""
    complete = {uid for uid, claim in prepared.claims.items() if claim.is_complete}
    found = {name.removeprefix(f"{DRIVER}-claim-").removesuffix(".json") for name in files(root)}
    assert complete <= found <= set(prepared.claims)


def cut_ids(cut: CutOff) -> str:
    return f"{'after' if cut.has_effect else 'before'} write {cut.at}"


@pytest.mark.parametrize("cut", list(every_cut_off(WRITES_OF_PREPARE)), ids=cut_ids)
def test_a_prepare_that_is_cut_off_ends_as_if_it_had_not_been(tmp_path: Path, cut: CutOff) -> None:
    prepared_claims(tmp_path).prepare(OTHER, "other", CARDS)
    dying = cut_claims(tmp_path, cut)
    dying.claims = started(tmp_path).claims
    with pytest.raises(Ended):
        dying.prepare(CLAIM, "one", CARDS)
    again = started(tmp_path)
    expect_sound(tmp_path, again)
    assert "other" in again.claims
    claim = again.prepare(CLAIM, "one", CARDS)
    assert claim.is_complete
    expect_sound(tmp_path, again)
    assert len(files(tmp_path)) == 2


@pytest.mark.parametrize("cut", list(every_cut_off(WRITES_OF_PREPARE)), ids=cut_ids)
def test_a_claim_whose_pod_goes_after_a_cut_off_prepare_leaves_nothing(tmp_path: Path, cut: CutOff) -> None:
    with pytest.raises(Ended):
        cut_claims(tmp_path, cut).prepare(CLAIM, "one", CARDS)
    again = started(tmp_path)
    again.unprepare("one")
    assert again.claims == {}
    assert files(tmp_path) == set()
    assert started(tmp_path).claims == {}


@pytest.mark.parametrize("cut", list(every_cut_off(WRITES_OF_UNPREPARE)), ids=cut_ids)
def test_an_unprepare_that_is_cut_off_is_finished_by_the_next_call(tmp_path: Path, cut: CutOff) -> None:
    prepared_claims(tmp_path).prepare(CLAIM, "one", CARDS)
    dying = cut_claims(tmp_path, cut)
    dying.claims = started(tmp_path).claims
    with pytest.raises(Ended):
        dying.unprepare("one")
    again = started(tmp_path)
    expect_sound(tmp_path, again)
    again.unprepare("one")
    assert again.claims == {}
    assert files(tmp_path) == set()


@pytest.mark.parametrize("cut", list(every_cut_off(WRITES_OF_REBUILD)), ids=cut_ids)
def test_a_rebuild_that_is_cut_off_never_forgets_a_claim(tmp_path: Path, cut: CutOff) -> None:
    prepared_claims(tmp_path).prepare(CLAIM, "one", CARDS)
    (tmp_path / "plugin" / "checkpoint.json").write_text("{")
    with pytest.raises(Ended):
        cut_claims(tmp_path, cut).rebuild([CLAIM])
    again = prepared_claims(tmp_path)
    try:
        again.load()
    except RemoteContractError:
        again.rebuild([CLAIM])
    assert set(again.claims) == {"one"}
    assert len(files(tmp_path)) == 1


def test_the_counts_of_writes_above_are_those_of_the_steps(tmp_path: Path) -> None:
    cut = CutOff()
    prepared = cut_claims(tmp_path, cut)
    prepared.prepare(CLAIM, "one", CARDS)
    assert cut.writes == WRITES_OF_PREPARE
    prepared.unprepare("one")
    assert cut.writes == WRITES_OF_PREPARE + WRITES_OF_UNPREPARE
    prepared.rebuild([CLAIM])
    assert cut.writes == WRITES_OF_PREPARE + WRITES_OF_UNPREPARE + WRITES_OF_REBUILD
