"""Values side by side: what a cell says, which rows there are, and what is written can be read again."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from diskoop.errors import InputError, ResourceError
from diskoop.evaluation.metrics import Summary
from diskoop.evaluation.results import (
    Column,
    Difference,
    Key,
    ModelResults,
    Results,
    Table,
    difference,
    format_cell,
    over_seeds,
    read_results,
    single_value,
)
from diskoop.provenance import Origin

A = Key("a", "x")
SCORE = Key("multifactor", "score")
ORIGIN = Origin(3, "demo, train.epochs=60", "0123456789ab+", "diskoop evaluate runs/ours")


def ours() -> ModelResults:
    values = {
        Key("sampling", "acc", "paper"): Summary(0.998, 0.001, 0.997, 0.999, 5),
        Key("sampling", "hyx", "paper"): Summary(1.6e-7, None, None, None, 1),
        Key("sampling", "acc", "factors"): Summary(0.5, None, 0.4, 0.61, 1),
        SCORE: single_value(0.9876543),
    }
    return ModelResults("ours", values, ORIGIN, ("the classifier is right", "trained for an hour"))


def theirs() -> ModelResults:
    return ModelResults(
        "theirs",
        {Key("sampling", "acc", "paper"): single_value(1), SCORE: single_value(0.976)},
        "their paper, p. 7",
    )


def scored() -> ModelResults:
    return ModelResults("scored only", {SCORE: single_value(0.5)}, "a repository", ("no notes on twos",))


def silent() -> ModelResults:
    return ModelResults("silent", {Key("cost", "parameters"): single_value(2e6)}, "somewhere else", ("never shown",))


TWO = Table(
    "Two factors",
    [
        Column("Acc", "sampling", "acc", percent=True, better="↑"),
        Column("H(y|x)", "sampling", "hyx", better="↓"),
        Column("multifactor score", "multifactor", "score", row=""),
    ],
    "What the paper measures.",
    {"paper": "as printed", "factors": "as found"},
)
ONE = Table("Many factors", [Column("score", "multifactor", "score", better="↑")])
UNUSED = Table("Speech", [Column("gap", "eer", "gap")], "Nobody has any.")


@pytest.fixture
def all_of_it() -> Results:
    return Results("Comparison", [ours(), theirs(), scored(), silent()], [TWO, ONE, UNUSED], ("Read with care.",))


# --- one model, several trainings


def test_over_seeds_figures_are_means_with_their_deviation() -> None:
    first = ModelResults(
        "ours", {A: single_value(1), Key("b", "x"): single_value(5)}, replace(ORIGIN, seed=3), ("shared", "mine")
    )
    second = ModelResults("ours", {A: Summary(3, 0.5, 2, 4, 7)}, replace(ORIGIN, seed=4), ("shared", "another"))
    pooled = over_seeds([first, second])
    assert list(pooled.values) == [A]  # b was not measured of both
    assert (pooled.values[A].mean, pooled.values[A].count) == (2, 2)
    assert pooled.values[A].std == pytest.approx(2**0.5)
    assert pooled.notes == ("shared", "seed 3: mine", "seed 4: another")
    assert str(pooled.origin).startswith("trained with seeds 3 to 4, preset demo")
    assert ModelResults.from_json(json.loads(json.dumps(pooled.as_json()))).origin == pooled.origin
    assert over_seeds([first]) is first


def test_a_difference_is_of_pairs_with_one_seed() -> None:
    """Seeds that differ more than the models do say nothing against a difference between the models."""
    mine, theirs = ([ModelResults("", {A: single_value(x)}, ORIGIN) for x in some] for some in ((1, 5, 9), (0, 4, 7)))
    found = difference(A, mine, theirs)
    assert found == pytest.approx((4 / 3, 1 / 3, 4.3027), rel=1e-4)
    assert not found.is_significant  # four standard errors of three seeds are less than they seem
    assert found._replace(error=0.3).is_significant
    assert not Difference(0.0, 0.0, 2.0).is_significant


# --- a cell


@pytest.mark.parametrize(
    ("value", "share", "text"),
    [
        (None, False, ""),
        (None, True, ""),
        (single_value(0.99849), True, "99.8%"),
        (single_value(1), True, "100.0%"),
        (single_value(0), True, "0.0%"),
        (single_value(-0.0525), True, "-5.2%"),
        (single_value(0.9876543), False, "0.9877"),
        (single_value(2.197), False, "2.197"),
        (single_value(3), False, "3"),
        (single_value(0), False, "0"),
        (single_value(21e6), False, "2.1e+07"),
        (single_value(1.6e-7), False, "1.60e-07"),
        (single_value(-1.6e-7), False, "-1.60e-07"),
        (single_value(9.99e-4), False, "9.99e-04"),
        (single_value(1e-3), False, "0.001"),
        (single_value(1.6e-7), True, "0.0%"),
        (Summary(0.9984, 0.0012, None, None, 5), True, "99.8% ± 0.1"),
        (Summary(8.999, 2.3e-6, None, None, 300), False, "8.999 ± 2.3e-06"),
        (Summary(0.7424, 0.001776, None, None, 30), False, "0.7424 ± 0.0018"),
        (Summary(2.197, 0.0, None, None, 300), False, "2.197 ± 0"),
        (Summary(0.9984, None, 0.9931, 1.0, 1), True, "99.8% (99.3 to 100.0)"),
        (Summary(0.12, None, 1e-4, 0.24, 1), False, "0.12 (1.00e-04 to 0.24)"),
        (Summary(0.12, None, 0.0, 0.24, 1), False, "0.12 (0 to 0.24)"),
        (Summary(0.12, 0.03, 0.06, 0.18, 4), False, "0.12 ± 0.03"),
        (Summary(0.12, None, 0.06, None, 1), False, "0.12"),
        (Summary(0.12, None, None, 0.18, 1), False, "0.12"),
    ],
)
def test_what_a_cell_says(value: Summary | None, share: bool, text: str) -> None:
    assert format_cell(value, share) == text


def test_what_was_measured_once_has_no_spread() -> None:
    assert single_value(2) == Summary(2.0, None, None, None, 1)
    assert type(single_value(2).mean) is float


# --- rows


def shown(table: Table, *models: ModelResults) -> list[tuple[str, list[str]]]:
    return [(name, cells) for _, name, cells in table.lines(models)]


def test_a_model_has_a_row_of_each_kind_that_it_has_something_of() -> None:
    assert shown(TWO, ours(), theirs()) == [
        ("ours: as printed", ["99.8% ± 0.1", "1.60e-07", "0.9877"]),
        ("ours: as found", ["50.0% (40.0 to 61.0)", "", "0.9877"]),
        ("theirs: as printed", ["100.0%", "", "0.976"]),
    ]


def test_a_whole_key_stands_in_a_row_but_makes_none() -> None:
    assert shown(TWO, scored()) == []
    assert shown(ONE, scored()) == [("scored only", ["0.5"])]


def test_a_whole_key_is_all_a_table_without_kinds_needs() -> None:
    assert shown(Table("Score", [Column("score", "multifactor", "score", row="")]), scored()) == [
        ("scored only", ["0.5"])
    ]


def test_nothing_to_show_is_no_row() -> None:
    assert shown(TWO, silent()) == []
    assert shown(TWO) == []


def test_a_row_knows_its_model() -> None:
    one, other = ours(), theirs()
    assert [model for model, _, _ in TWO.lines([other, one])] == [other, one, one]


def test_heads_say_which_way_is_better() -> None:
    assert TWO.headings() == ["Acc ↑", "H(y|x) ↓", "multifactor score"]


# --- Markdown


def grids(text: str) -> list[list[list[str]]]:
    """Each Markdown table of a text as a reader sees it: rows of cells."""
    found = []
    for block in text.split("\n\n"):
        if block.startswith("|"):
            lines = block.splitlines()
            assert all(line.startswith("| ") and line.endswith(" |") for line in lines)
            found.append([[part.strip() for part in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines])
    return found


def test_markdown_has_every_table_that_has_rows(all_of_it: Results) -> None:
    text = all_of_it.markdown()
    headings = [line for line in text.splitlines() if line.startswith("#")]
    wanted = ["# Comparison", "## Two factors", "## Many factors", "## Where the values come from", "## Notes"]
    assert headings == wanted
    assert "\n\nRead with care.\n\n" in text
    assert "\n\nWhat the paper measures.\n\n|" in text
    assert "Nobody has any." not in text
    assert text.endswith("trained for an hour\n- scored only: no notes on twos\n")


def test_markdown_tables_are_tables(all_of_it: Results) -> None:
    two, one = grids(all_of_it.markdown())
    assert [len(row) for row in two] == [4] * 5
    assert two[0] == ["", "Acc ↑", "H(y\\|x) ↓", "multifactor score"]
    assert two[1] == ["---", "---:", "---:", "---:"]
    assert two[2] == ["ours: as printed", "99.8% ± 0.1", "1.60e-07", "0.9877"]
    assert two[4] == ["theirs: as printed", "100.0%", "", "0.976"]
    assert one == [["", "score ↑"], ["---", "---:"], ["ours", "0.9877"], ["theirs", "0.976"], ["scored only", "0.5"]]


def test_a_bar_in_a_name_makes_no_column() -> None:
    odd = ModelResults("a|b", {SCORE: single_value(1)}, ORIGIN)
    (grid,) = grids(Results("Odd", [odd], [ONE]).markdown())
    assert grid[2] == ["a\\|b", "1"]


def test_what_others_printed_makes_no_table_alone() -> None:
    printed = ModelResults("printed", {SCORE: single_value(1)}, "a page")
    assert Results("Nothing", [printed], [ONE]).filled_tables() == []
    mine = ModelResults("mine", {SCORE: single_value(0.5)}, ORIGIN)
    ((table, rows),) = Results("Both", [printed, mine], [ONE]).filled_tables()
    assert table is ONE
    assert [name for _, name, _ in rows] == ["printed", "mine"]


def test_a_model_that_is_shown_says_once_where_its_figures_come_from(all_of_it: Results) -> None:
    text = all_of_it.markdown()
    for model in (ours(), theirs(), scored()):
        assert text.count(f"- {model.name}: {model.origin}\n") == 1
        assert text.count(str(model.origin)) == 1
        for note in model.notes:
            assert text.count(f"- {model.name}: {note}\n") == 1
    assert str(ORIGIN) in text


def test_a_model_that_shows_nothing_is_not_spoken_of(all_of_it: Results) -> None:
    text = all_of_it.markdown()
    for word in ("silent", "somewhere else", "never shown"):
        assert word not in text


def test_without_notes_there_is_no_heading_for_them() -> None:
    assert "## Notes" not in Results("Theirs", [theirs()], [ONE]).markdown()


# --- written and read


def facts(of: Results) -> dict[str, Any]:
    return {
        "title": of.title,
        "notes": list(of.notes),
        "tables": [(t.title, list(t.columns), t.remark, dict(t.rows)) for t in of.tables],
        "models": [(m.name, dict(m.values), m.origin, m.notes) for m in of.models],
    }


def test_what_was_written_is_read(all_of_it: Results, tmp_path: Path) -> None:
    markdown, data = all_of_it.write(tmp_path / "new" / "sprites.v2")
    assert (markdown.name, data.name) == ("sprites.v2.md", "sprites.v2.json")
    assert markdown.read_text(encoding="utf-8") == all_of_it.markdown()
    again = read_results(data)
    assert facts(again) == facts(all_of_it)
    assert again.markdown() == all_of_it.markdown()


def test_programs_find_figures_under_their_names(all_of_it: Results, tmp_path: Path) -> None:
    told = json.loads(all_of_it.write(tmp_path / "all")[1].read_text(encoding="utf-8"))
    mine, others, *_ = told["models"]
    assert len(told["models"]) == 4  # those that no table shows too
    assert mine["values"][0] == {
        "metric": "sampling",
        "column": "acc",
        "row": "paper",
        "mean": 0.998,
        "std": 0.001,
        "low": 0.997,
        "high": 0.999,
        "count": 5,
    }
    assert mine["origin"] == asdict(ORIGIN)
    assert others["origin"] == "their paper, p. 7"
    assert told["tables"][0]["columns"][0] == {
        "heading": "Acc",
        "metric": "sampling",
        "column": "acc",
        "percent": True,
        "better": "↑",
        "row": None,
    }


def test_files_are_written_whole(all_of_it: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = all_of_it.write(tmp_path / "all")
    before = [file.read_text(encoding="utf-8") for file in files]

    def full(self: Path, data: str, *more: Any, **words: Any) -> int:
        self.write_bytes(data[:10].encode())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(ResourceError, match="no space left"):
        Results("Other", [theirs()], [ONE]).write(tmp_path / "all")
    monkeypatch.undo()
    assert [file.read_text(encoding="utf-8") for file in files] == before
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(f"{tmp_path / 'none.json'} is missing")):
        read_results(tmp_path / "none.json")


def test_a_folder_is_no_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, wanted a file"):
        read_results(tmp_path)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5000, "[]", "null"])
def test_json_of_another_kind_is_no_results(text: str, tmp_path: Path) -> None:
    (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(InputError, match="holds no results"):
        read_results(tmp_path / "evaluation.json")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b"3",
        b"null",
        b"{}",
        b'{"format": 2, "title": "t", "notes": [], "tables": []}',
        b'{"format": 2, "title": "t", "notes": [], "models": [{"name": "a"}], "tables": []}',
        b'{"format": 2, "title": "t", "notes": [], "models": [], "tables": [{"title": "t"}]}',
        b'{"format": 2, "title": "t", "notes": [], "models": [], "tables": '
        b'[{"title": "t", "columns": [{"bogus": 1}]}]}',
        b'{"format": 2, "title": "t", "notes": [], "tables": [], "models": '
        b'[{"name": "a", "origin": "b", "notes": [], "values": 3}]}',
        b'{"format": 2, "title": "t", "notes": [], "tables": [], "models": '
        b'[{"name": "a", "origin": {"seed": 1}, "notes": [], "values": {}}]}',
        b'{"format": 2, "title": "t", "notes": [], "tables": [], "models": '
        b'[{"name": "a", "origin": "b", "notes": [], "values": {"x": {"mean": 1}}}]}',
    ],
)
def test_a_file_of_anything_else_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"^{re.escape(str(path))} holds no results: \w+ ."):
        read_results(path)


def test_results_of_an_earlier_version_are_named(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text('{"title": "t", "notes": [], "tables": [], "models": [{"figures": {"multifactor/score": 1}}]}')
    with pytest.raises(InputError, match=r"old.json holds results of format 1, expected 2: evaluate the run again$"):
        read_results(path)


def test_half_a_file_is_a_sentence(all_of_it: Results, tmp_path: Path) -> None:
    path = all_of_it.write(tmp_path / "all")[1]
    whole = path.read_bytes()
    for share in (0.1, 0.5, 0.9):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(InputError, match="holds no results"):
            read_results(path)
