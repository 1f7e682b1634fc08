"""values with their origin, side by side in tables: Markdown for people, JSON for programs"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from diskoop.errors import InputError
from diskoop.evaluation.metrics import Summary
from diskoop.input_files import parse_json, read_text
from diskoop.provenance import Origin
from diskoop.storage import write_text

FORMAT = 2  # of the JSON; 1 had keys made of slashes


class Key(NamedTuple):
    """What a value is of: a metric, one of its columns, and where it has several, one of its rows.

    The columns of one metric are either fixed names or labels of the data, never both, and so are its rows.

    Example:
        >>> Key("swap", column="hair", row="skin").row
        'skin'
    """

    metric: str
    column: str
    row: str = ""


Values = dict[Key, Summary]


def single_value(value: float) -> Summary:
    """A value that was measured once, on everything there is."""
    return Summary(float(value), None, None, None, 1)


@dataclass(frozen=True, eq=False)
class ModelResults:
    """All values of one model.

    Args:
        name: of the model, as its rows are called.
        values: what was measured.
        origin: how the values came about: an Origin, or the page on which they are printed.
        notes: what a reader should know of them.
    """

    name: str
    values: Mapping[Key, Summary]
    origin: Origin | str
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        origin = asdict(self.origin) if isinstance(self.origin, Origin) else self.origin
        return {"name": self.name, "origin": origin, "notes": list(self.notes), "values": to_records(self.values)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "ModelResults":
        origin = facts["origin"] if isinstance(facts["origin"], str) else Origin(**facts["origin"])
        return cls(facts["name"], from_records(facts["values"]), origin, tuple(facts["notes"]))


def merge_notes(notes: Mapping[str, Sequence[str]]) -> list[str]:
    """The notes of each model, by its name -> every note once, behind the names of the models that have it.

    Example:
        >>> merge_notes({"ours": ["few clips", "no classifier"], "PCA + DMD": ["few clips"]})
        ['ours, PCA + DMD: few clips', 'ours: no classifier']
    """
    owners = {note: [name for name, own in notes.items() if note in own] for every in notes.values() for note in every}
    return [f"{', '.join(names)}: {note}" for note, names in owners.items()]


def to_records(values: Mapping[Key, Summary]) -> list[dict[str, Any]]:
    """Values for JSON: a record for each, with the fields of its Key and of its Summary."""
    return [{**key._asdict(), **asdict(value)} for key, value in values.items()]


def from_records(records: Sequence[Mapping[str, Any]]) -> Values:
    """The inverse of `to_records`."""
    names = Key._fields
    return {
        Key(*(each[name] for name in names)): Summary(**{k: v for k, v in each.items() if k not in names})
        for each in records
    }


def over_seeds(trainings: Sequence[ModelResults]) -> ModelResults:
    """One model that was trained several times: the mean of every value over the trainings, and its deviation.

    Args:
        trainings: the results of each, in order of their seeds; a single one is returned as it is.

    Returns:
        The values that all of them have. A note that not all of them have is prefixed with its seed.
    """
    first, *others = trainings
    if not others:
        return first
    origins = [each.origin for each in trainings if isinstance(each.origin, Origin)]
    seeds = [origin.seed for origin in origins]
    values = {}
    for key in (key for key in first.values if all(key in each.values for each in others)):
        means = np.array([each.values[key].mean for each in trainings])
        values[key] = Summary(float(means.mean()), float(means.std(ddof=1)), None, None, len(means))
    notes = dict.fromkeys(
        note if all(note in every.notes for every in trainings) else f"seed {seed}: {note}"
        for seed, each in zip(seeds, trainings, strict=True)
        for note in each.notes
    )
    return ModelResults(first.name, values, replace(origins[0], seed=f"{seeds[0]} to {seeds[-1]}"), tuple(notes))


class Difference(NamedTuple):
    """By how much a value of some trainings exceeds that of others, on average over seeds."""

    mean: float
    error: float  # standard error
    critical: float  # standard errors that chance exceeds in 5% (Student's t): 4.3 with three seeds

    @property
    def is_significant(self) -> bool:
        return abs(self.mean) > self.critical * self.error


def difference(key: Key, trainings: Sequence[ModelResults], others: Sequence[ModelResults]) -> Difference:
    """The paired difference between two models, each trained with the same seeds in the same order.

    Trainings with one seed begin alike and get the same batches in the same order, so they are compared in pairs.
    """
    from scipy import stats  # slow to import

    pairs = zip(trainings, others, strict=True)
    deltas = np.array([mine.values[key].mean - theirs.values[key].mean for mine, theirs in pairs])
    error = float(deltas.std(ddof=1) / np.sqrt(len(deltas)))
    return Difference(float(deltas.mean()), error, float(stats.t.ppf(0.975, len(deltas) - 1)))


# --- tables


@dataclass(frozen=True)
class Column:
    """A table's column of values.

    Args:
        heading: what stands above it.
        metric, column: as in Key.
        percent: whether values are shown in percent.
        better: an arrow, where one direction is.
        row: a fixed row of the metric to show in every row of the table; by default the table's own.
    """

    heading: str
    metric: str
    column: str
    percent: bool = False
    better: str = ""
    row: str | None = None

    def key(self, row: str) -> Key:
        """The key of what stands in the table's row `row`."""
        return Key(self.metric, self.column, row if self.row is None else self.row)


class TableRow(NamedTuple):
    """One line of a table."""

    model: ModelResults
    name: str
    cells: list[str]


@dataclass(frozen=True, eq=False)
class Table:
    """A choice of values: a line, or one for each of `rows`, for every model that has some of them.

    Args:
        title: tables of one title are one table.
        columns: what is shown.
        remark: what a reader should know.
        rows: row of the columns' keys -> how the line is called behind the model's name.
    """

    title: str
    columns: Sequence[Column]
    remark: str = ""
    rows: Mapping[str, str] = field(default_factory=lambda: {"": ""})

    def lines(self, models: Sequence[ModelResults]) -> list[TableRow]:
        """The lines of all models that have something to show here."""
        lines = []
        for model in models:
            cells: dict[str, list[str]] = {}
            for row, name in self.rows.items():
                keys = [column.key(row) for column in self.columns]
                if any(key in model.values for key in keys if key.row == row):
                    cells[name] = [
                        format_cell(model.values.get(key), column.percent)
                        for key, column in zip(keys, self.columns, strict=True)
                    ]
            first = next(iter(cells.values()), [])
            if len(cells) > 1 and all(each == first for each in cells.values()):  # chance is the same everywhere
                cells = {"": first}
            lines += [TableRow(model, ": ".join(filter(None, (model.name, name))), cells[name]) for name in cells]
        return lines

    def headings(self) -> list[str]:
        return [" ".join(filter(None, (column.heading, column.better))) for column in self.columns]


def format_cell(value: Summary | None, percent: bool) -> str:
    """`99.8% ± 0.1`, with the interval in brackets where there is no deviation.

    Example:
        >>> format_cell(Summary(0.9984, 0.0012, None, None, 5), percent=True)
        '99.8% ± 0.1'
    """
    if value is None:
        return ""
    factor, sign = (100, "%") if percent else (1, "")
    text = f"{_number(value.mean * factor, percent)}{sign}"
    if value.std is not None:
        return f"{text} ± {_number(value.std * factor, percent) if percent else format(value.std, '.2g')}"
    if value.low is not None and value.high is not None:
        return f"{text} ({_number(value.low * factor, percent)} to {_number(value.high * factor, percent)})"
    return text


def _number(value: float, percent: bool) -> str:
    return f"{value:.1f}" if percent else f"{value:.2e}" if 0 < abs(value) < 1e-3 else f"{value:.4g}"


@dataclass(frozen=True, eq=False)
class Results:
    """Models side by side."""

    title: str
    models: Sequence[ModelResults]
    tables: Sequence[Table]
    notes: Sequence[str] = ()

    def filled_tables(self) -> list[tuple[Table, list[TableRow]]]:
        """The tables that hold something measured, and their lines; published values alone make no table."""
        lines = [(table, table.lines(self.models)) for table in self.tables]
        return [(table, some) for table, some in lines if any(isinstance(each.model.origin, Origin) for each in some)]

    def markdown(self) -> str:
        """Every table, below them where the values of each model come from, and notes."""
        blocks = [f"# {self.title}", *self.notes]
        tables = self.filled_tables()
        for table, lines in tables:
            blocks += [f"## {table.title}", *filter(None, [table.remark]), _markdown_table(table, lines)]
        shown = [m for m in self.models if any(m is line.model for _, lines in tables for line in lines)]
        blocks.append("## Where the values come from")
        blocks.append("\n".join(f"- {model.name}: {model.origin}" for model in shown))
        if notes := merge_notes({model.name: model.notes for model in shown}):
            blocks += ["## Notes", "\n".join(f"- {note}" for note in notes)]
        return "\n\n".join(blocks) + "\n"

    def as_json(self) -> dict[str, Any]:
        tables = [
            {**vars(table), "columns": [asdict(column) for column in table.columns], "rows": dict(table.rows)}
            for table in self.tables
        ]
        models = [model.as_json() for model in self.models]
        return {"format": FORMAT, "title": self.title, "notes": list(self.notes), "tables": tables, "models": models}

    def write(self, stem: Path) -> list[Path]:
        """`stem`.md and `stem`.json."""
        files = [stem.with_name(f"{stem.name}{ending}") for ending in (".md", ".json")]
        write_text(files[0], self.markdown())
        write_text(files[1], json.dumps(self.as_json(), indent=1) + "\n")
        return files


def read_results(path: Path) -> Results:
    """The JSON that `Results.write` wrote.

    Raises:
        InputError: if the file is missing, from an earlier version or anything else.
    """
    try:
        facts = parse_json(read_text(path))
        if "models" in facts and (version := facts.get("format", 1)) != FORMAT:
            raise InputError(f"{path} holds results of format {version}, expected {FORMAT}: evaluate the run again")
        models = [ModelResults.from_json(each) for each in facts["models"]]
        tables = [
            Table(**each | {"columns": [Column(**column) for column in each["columns"]]}) for each in facts["tables"]
        ]
        return Results(facts["title"], models, tables, tuple(facts["notes"]))
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} holds no results: {type(error).__name__} {error}") from None


def _markdown_table(table: Table, rows: Sequence[TableRow]) -> str:
    body = [[row.name, *row.cells] for row in rows]
    lines = [["", *table.headings()], ["---", *["---:"] * len(table.columns)], *body]
    cells = [[text.replace("|", "\\|") for text in line] for line in lines]  # H(y|x) is one column
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
