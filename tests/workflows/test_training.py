"""One call that trains, resumes, or loads what is finished."""

from pathlib import Path

import pytest

from diskoop.errors import InputError
from diskoop.workflows.training import train_or_resume
from tests.helpers.training import SMALL, Quiet

BRIEF = SMALL.replaced({"train": {"epochs": 1, "device": "cpu"}})


def test_a_finished_run_is_only_loaded(tmp_path: Path) -> None:
    first = train_or_resume(BRIEF, tmp_path / "run", "again", Quiet())
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    reporter = Quiet()
    elsewhere = BRIEF.replaced({"train": {"device": "auto"}})  # the device makes no difference
    second = train_or_resume(elsewhere, tmp_path / "run", "again", reporter)
    assert reporter.messages == []
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    assert second.summary() == first.summary()
    with pytest.raises(InputError, match="holds a run with other settings; choose another folder with --out"):
        train_or_resume(BRIEF.replaced({"loss": {"rec": 2.0}}), tmp_path / "run", "again", Quiet())


def test_an_interrupted_run_is_resumed_and_ends_bit_equal(tmp_path: Path) -> None:
    train_or_resume(BRIEF, tmp_path / "whole", "again", Quiet())
    with pytest.raises(MemoryError):
        train_or_resume(BRIEF, tmp_path / "broken", "again", Quiet(crash_at=5))
    train_or_resume(BRIEF, tmp_path / "broken", "again", Quiet())
    for name in ("model.safetensors", "operator.safetensors"):
        assert (tmp_path / "broken" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
