"""A proof runs each target once a commit, and its targets are those of the Makefile."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import proof
from tools.proof import ROOT, TARGETS, Outcome, read_outcomes


def test_the_targets_are_in_the_makefile() -> None:
    rules = {line.partition(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if ":" in line}
    assert set(TARGETS) <= rules


def test_what_passed_on_the_commit_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def run(target: str, commit: str) -> Outcome:
        ran.append(target)
        return Outcome(target, commit, int(target == "fuzz" and len(ran) < 3), 1.0, "done")

    monkeypatch.setattr(proof, "REPORT", tmp_path / "proof.json")
    monkeypatch.setattr(proof, "run_target", run)
    monkeypatch.setattr(proof, "find_commit", lambda: "abc")
    monkeypatch.setattr("sys.argv", ["proof", "long", "fuzz"])
    assert proof.main() == 1
    assert proof.main() == 0
    assert ran == ["long", "fuzz", "fuzz"]
    assert set(read_outcomes("abc")) == {"long", "fuzz"} and read_outcomes("another") == {}


def test_the_outcome_is_what_the_target_ended_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof, "REPORT", tmp_path / "proof.json")
    found = proof.run_target("there-is-no-such-target", "abc")
    assert found.status != 0 and "there-is-no-such-target" in found.last_line
    assert (tmp_path / "proof-there-is-no-such-target.log").is_file()
