"""`diskoop bench`: every section in one JSON object, a table for people, one sentence for bad input."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
import torch

from diskoop.bench import pieces, steps
from diskoop.errors import InputError
from diskoop.interfaces.benching import SECTIONS, Section, bench
from tests.bench.small import SMALL, VIDEO
from tests.interfaces.test_cli import diskoop

TINY = {
    "steps": partial(steps.steps, cases=SMALL),
    "shares": partial(steps.shares, cases=SMALL),
    "solvers": partial(pieces.solvers, sizes=(9, 12)),
    "growth": partial(steps.growth, base=VIDEO, axes={"k": (4, 6), "size": (32,)}),
    "loader": partial(pieces.loader, case=VIDEO, count=12),
    "inference": partial(pieces.inference, case=VIDEO, count=4),
}


def test_every_section_is_measured_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    small = {name: Section(SECTIONS[name].promise, measure) for name, measure in TINY.items()}
    assert list(small) == list(SECTIONS)
    facts = json.loads(json.dumps(bench([], "cpu", 1, 1, small)))
    assert list(facts["sections"]) == list(SECTIONS)
    assert (facts["kind"], facts["torch"], facts["turns"]) == ("cpu", torch.__version__, 1)
    shown = capsys.readouterr().out
    places = [shown.index(f"\n{name}: {section.promise}") for name, section in small.items()]
    assert places == sorted(places)
    for tables in facts["sections"].values():
        for table in tables:
            assert table["title"] in shown
            assert all(value is not None for row in table["rows"] for value in row.values())
    assert "…" not in shown  # nothing is cut off


def test_some_sections_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    small = {name: Section(SECTIONS[name].promise, measure) for name, measure in TINY.items()}
    facts = bench(["inference", "solvers"], "auto" if not torch.cuda.is_available() else "cpu", 1, 1, small)
    assert list(facts["sections"]) == ["solvers", "inference"]


def test_the_command_ends_with_its_numbers(tmp_path: Path) -> None:
    answer = diskoop("bench", "solvers", "--device", "cpu", "--turns", "1", "--steps", "1", "--json", cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    *tables, last = answer.stdout.splitlines()
    facts = json.loads(last)
    operators, spectra = facts["sections"]["solvers"]
    assert [row["k"] for row in spectra["rows"]] == [k for k in pieces.SIZES for _ in range(2)]
    assert all(row["off by"] < 1e-2 for row in operators["rows"])
    assert any("times faster" in line for line in tables)
    assert not any(tmp_path.iterdir())


WITHOUT_CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ((["stepps"], "cpu", None, None), "unknown section 'stepps'; did you mean 'steps'?"),
        ((["steps", "wheels"], "cpu", None, None), "unknown section 'wheels'; choose one of growth, inference, loader"),
        (([], "cpu", 0, None), "expected --turns of 1 or more, got 0"),
        (([], "cpu", None, -3), "expected --steps of 1 or more, got -3"),
        (([], "gpu", None, None), "expected --device to be auto or one that this machine has (cpu"),
        pytest.param(([], "cuda", None, None), "(cpu), got 'cuda'", marks=WITHOUT_CUDA),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is(
    asked: tuple[list[str], str, int | None, int | None], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        bench(*asked)
    assert capsys.readouterr().out == ""


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    for words in (["stepps"], ["solvers", "--turns", "0"]):
        answer = diskoop("bench", *words, cwd=tmp_path)
        assert answer.returncode == 2
        assert repr(words[0]) in answer.stderr or "got 0" in answer.stderr
        assert len(answer.stderr.splitlines()) == 1
        assert answer.stdout == ""
