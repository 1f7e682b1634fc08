"""A verdict is measured once, and never taken for that of another model."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from diskoop.analysis import verdict
from diskoop.analysis.verdict import Verdict
from diskoop.run_folder import RunFolder
from diskoop.verdict_file import load_verdicts, save_verdicts

VERDICT = Verdict("3 test clips", 0.5, 0.25, within=None, pca_within=0.5, static_effect=0.75, dynamic_effect=None)


def test_verdicts_come_back_as_they_were(tmp_path: Path) -> None:
    folder, model = RunFolder(tmp_path), nn.Linear(2, 2)
    assert load_verdicts(folder, model) == {}
    verdicts = {"val": VERDICT, "test": replace(VERDICT, explained=-2.0)}
    save_verdicts(folder, verdicts, model)
    assert load_verdicts(folder, model) == verdicts
    assert [file.name for file in tmp_path.iterdir()] == ["verdict.json"]
    with torch.no_grad():
        model.weight += 1
    assert load_verdicts(folder, model) == {}


def test_what_counts_as_poor_is_decided_when_a_verdict_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, model = RunFolder(tmp_path), nn.Linear(2, 2)
    save_verdicts(folder, {"val": replace(VERDICT, within=0.1, dynamic_effect=0.5, differs=0.5)}, model)
    assert load_verdicts(folder, model)["val"].problems == []
    monkeypatch.setattr(verdict, "MAX_WITHIN", 0.05)  # another rule
    assert "10% of the static part's variance" in load_verdicts(folder, model)["val"].problems[0]


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": "diskoop verdict 1"}', "\x00", "[" * 100_000])
def test_a_damaged_file_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "verdict.json").write_text(text)
    assert load_verdicts(RunFolder(tmp_path), nn.Linear(2, 2)) == {}


def test_an_entry_of_another_version_is_none(tmp_path: Path) -> None:
    folder, model = RunFolder(tmp_path), nn.Linear(2, 2)
    save_verdicts(folder, {"val": VERDICT}, model)
    page = json.loads(folder.verdict.read_text())
    (entry,) = page["verdicts"].values()
    without = {name: value for name, value in entry.items() if name != "differs"}  # which the rule asks for
    entries = ({"score": 1}, without, entry | {"more": 1})
    assert load_verdicts(folder, model)
    for changed in (page | {"format": "diskoop verdict 2"}, *(page | {"verdicts": {"val": each}} for each in entries)):
        folder.verdict.write_text(json.dumps(changed))
        assert load_verdicts(folder, model) == {}
