"""`diskoop bench`: every section in one JSON object, a table for people, one sentence for bad input."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
import torch

from diskoop.bench.inference import measure_inference
from diskoop.bench.loading import measure_loading
from diskoop.bench.steps import measure_shares, measure_steps
from diskoop.errors import InputError
from diskoop.workflows import benchmarks
from diskoop.workflows.benchmarks import SECTIONS, Section, run_benchmarks
from tests.helpers.cases import SMALL, VIDEO
from tests.helpers.cli import diskoop

MEASURES = {
    "steps": partial(measure_steps, cases=SMALL),
    "shares": partial(measure_shares, cases=SMALL),
    "loader": partial(measure_loading, case=VIDEO, count=12),
    "inference": partial(measure_inference, case=VIDEO, count=4),
}
TINY = {name: Section(SECTIONS[name].description, measure) for name, measure in MEASURES.items()}


@pytest.mark.slow
def test_every_section_is_measured_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(TINY) == list(SECTIONS)
    facts = json.loads(json.dumps(run_benchmarks([], "cpu", 1, 1, TINY)))
    assert list(facts["sections"]) == list(SECTIONS)
    assert (facts["kind"], facts["torch"], facts["turns"]) == ("cpu", torch.__version__, 1)
    shown = capsys.readouterr().out
    places = [shown.index(f"\n{name}: {section.description}") for name, section in TINY.items()]
    assert places == sorted(places)
    for tables in facts["sections"].values():
        for table in tables:
            assert table["title"] in shown
            assert all(value is not None for row in table["rows"] for value in row.values())
    assert "…" not in shown  # nothing is cut off


def test_some_sections_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    device = "auto" if not torch.cuda.is_available() else "cpu"
    facts = run_benchmarks(["inference", "loader"], device, 1, 1, TINY)
    assert list(facts["sections"]) == ["loader", "inference"]


def test_the_command_ends_with_its_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(benchmarks.SECTIONS, "steps", TINY["steps"])
    answer = diskoop("bench", "steps", "--device", "cpu", "--turns", "1", "--steps", "1", "--json", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    *tables, last = answer.stdout.splitlines()
    facts = json.loads(last)
    assert [table["title"].split(":")[0] for table in facts["sections"]["steps"]] == list(SMALL)
    assert any("speedup" in line for line in tables)
    assert not any(tmp_path.iterdir())


WITHOUT_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((["stepps"], "cpu", None, None), "unknown section 'stepps'; did you mean 'steps'?"),
        ((["steps", "wheels"], "cpu", None, None), "unknown section 'wheels'; choose one of inference, loader, shares"),
        (([], "cpu", 0, None), "expected --turns of 1 or more, got 0"),
        (([], "cpu", None, -3), "expected --steps of 1 or more, got -3"),
        (([], "gpu", None, None), "expected --device to be auto or one that this machine has (cpu"),
        pytest.param(([], "cuda", None, None), "(cpu), got 'cuda'", marks=WITHOUT_CUDA),
    ],
)
def test_bad_input_is_rejected_before_anything_is_measured(
    arguments: tuple[list[str], str, int | None, int | None], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        run_benchmarks(*arguments)
    assert capsys.readouterr().out == ""


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    for words in (["stepps"], ["steps", "--turns", "0"]):
        answer = diskoop("bench", *words, cwd=tmp_path)
        assert answer.returncode == 2
        assert repr(words[0]) in answer.stderr or "got 0" in answer.stderr
        assert len(answer.stderr.splitlines()) == 1
        assert answer.stdout == ""
