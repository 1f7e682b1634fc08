"""figures with their origin, side by side in tables: Markdown for people, JSON for programs"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from diskoop.errors import InputError
from diskoop.evaluation.metrics import Summary
from diskoop.provenance import Origin
from diskoop.storage import write_text

Figures = dict[str, Summary]  # what was measured, such as "multifactor/score"


def exactly(value: float) -> Summary:
    """A figure that was measured once, on everything there is."""
    return Summary(float(value), None, None, None, 1)


@dataclass(frozen=True, eq=False)
class Measured:
    """All figures of one model, and where they come from: an Origin, or the page on which somebody printed them."""

    name: str
    figures: Mapping[str, Summary]
    origin: Origin | str
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        origin = asdict(self.origin) if isinstance(self.origin, Origin) else self.origin
        figures = {key: asdict(value) for key, value in self.figures.items()}
        return {"name": self.name, "origin": origin, "notes": list(self.notes), "figures": figures}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> "Measured":
        origin = facts["origin"] if isinstance(facts["origin"], str) else Origin(**facts["origin"])
        figures = {key: Summary(**value) for key, value in facts["figures"].items()}
        return cls(facts["name"], figures, origin, tuple(facts["notes"]))


def over_seeds(trainings: Sequence[Measured]) -> Measured:
    """One model that was trained several times: the mean of every figure over the trainings, and its deviation.

    Args:
        trainings: what was measured of each, in order of their seeds. Of one alone this is just that.

    Returns:
        The figures that all of them have. A note that not all of them have says which seed's it is.
    """
    first, *others = trainings
    if not others:
        return first
    origins = [each.origin for each in trainings if isinstance(each.origin, Origin)]
    seeds = [origin.seed for origin in origins]
    figures = {}
    for key in (key for key in first.figures if all(key in each.figures for each in others)):
        values = np.array([each.figures[key].mean for each in trainings])
        figures[key] = Summary(float(values.mean()), float(values.std(ddof=1)), None, None, len(values))
    notes = dict.fromkeys(
        note if all(note in every.notes for every in trainings) else f"seed {seed}: {note}"
        for seed, each in zip(seeds, trainings, strict=True)
        for note in each.notes
    )
    return Measured(first.name, figures, replace(origins[0], seed=f"{seeds[0]} to {seeds[-1]}"), tuple(notes))


class Difference(NamedTuple):
    """By how much a figure of some trainings exceeds that of others, on average over seeds."""

    by: float
    error: float  # its standard error
    needed: float  # how many standard errors chance exceeds in 5% (Student's t): 4.3 with three seeds

    @property
    def is_sure(self) -> bool:
        return abs(self.by) > self.needed * self.error


def difference(key: str, trainings: Sequence[Measured], others: Sequence[Measured]) -> Difference:
    """The difference between two models, each trained several times.

    Both are in order of the same seeds. Trainings with one seed begin alike and see the same sequences in the same
    order, so they are compared in pairs.
    """
    pairs = zip(trainings, others, strict=True)
    values = np.array([mine.figures[key].mean - theirs.figures[key].mean for mine, theirs in pairs])
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    return Difference(float(values.mean()), error, float(stats.t.ppf(0.975, len(values) - 1)))


@dataclass(frozen=True)
class Column:
    """One kind of figure, under a heading."""

    heading: str
    key: str  # what stands behind the beginning of a row's keys; with a / in front it is the whole key
    share: bool = False  # shown in percent
    better: str = ""  # an arrow


@dataclass(frozen=True, eq=False)
class Table:
    """A choice of figures: a row, or one of each kind, for every model that has some of them."""

    title: str
    columns: Sequence[Column]
    remark: str = ""
    kinds: Mapping[str, str] = field(default_factory=lambda: {"": ""})  # of rows: a name, and how their keys begin

    def rows(self, models: Sequence[Measured]) -> list[tuple[Measured, str, list[str]]]:
        """The models that have something to show here, what to call their rows, and the cells."""
        lines = []
        for model in models:
            own: dict[str, list[str]] = {}
            for kind, begin in self.kinds.items():
                keys = [c.key[1:] if c.key.startswith("/") else begin + c.key for c in self.columns]
                if any(key in model.figures for key in keys if key.startswith(begin)):
                    cells = [cell(model.figures.get(k), c.share) for k, c in zip(keys, self.columns, strict=True)]
                    own[kind] = cells
            first = next(iter(own.values()), [])
            if len(own) > 1 and all(cells == first for cells in own.values()):  # chance is the same everywhere
                own = {"": first}
            lines += [(model, ": ".join(filter(None, (model.name, kind))), cells) for kind, cells in own.items()]
        return lines

    def heads(self) -> list[str]:
        return [" ".join(filter(None, (column.heading, column.better))) for column in self.columns]


def cell(value: Summary | None, share: bool) -> str:
    """`99.8% ± 0.1`, with the interval behind it where nothing was repeated."""
    if value is None:
        return ""
    factor, sign = (100, "%") if share else (1, "")
    text = f"{_number(value.mean * factor, share)}{sign}"
    if value.std is not None:
        return f"{text} ± {_number(value.std * factor, share)}"
    if value.low is not None and value.high is not None:
        return f"{text} ({_number(value.low * factor, share)} to {_number(value.high * factor, share)})"
    return text


def _number(value: float, share: bool) -> str:
    return f"{value:.1f}" if share else f"{value:.2e}" if 0 < abs(value) < 1e-3 else f"{value:.4g}"


@dataclass(frozen=True, eq=False)
class Results:
    """Models side by side."""

    title: str
    models: Sequence[Measured]
    tables: Sequence[Table]
    notes: Sequence[str] = ()

    def grids(self) -> list[tuple[Table, list[tuple[Measured, str, list[str]]]]]:
        """The tables that hold something measured, and their rows: what others printed does not make one alone."""
        rows = [(table, table.rows(self.models)) for table in self.tables]
        return [(table, some) for table, some in rows if any(isinstance(model.origin, Origin) for model, _, _ in some)]

    def markdown(self) -> str:
        """Every table, each figure's origin below, and what one should know."""
        blocks = [f"# {self.title}", *self.notes]
        for table, rows in self.grids():
            blocks += [f"## {table.title}", *filter(None, [table.remark]), _grid(table, rows)]
        shown = [m for m in self.models if any(m is model for _, rows in self.grids() for model, _, _ in rows)]
        blocks.append("## Where the figures come from")
        blocks.append("\n".join(f"- {model.name}: {model.origin}" for model in shown))
        if said := [f"- {model.name}: {note}" for model in shown for note in model.notes]:
            blocks += ["## Notes", "\n".join(said)]
        return "\n\n".join(blocks) + "\n"

    def as_json(self) -> dict[str, Any]:
        tables = [
            {**vars(table), "columns": [asdict(column) for column in table.columns], "kinds": dict(table.kinds)}
            for table in self.tables
        ]
        models = [model.as_json() for model in self.models]
        return {"title": self.title, "notes": list(self.notes), "tables": tables, "models": models}

    def write(self, stem: Path) -> list[Path]:
        """`stem`.md and `stem`.json."""
        files = [stem.with_name(f"{stem.name}{ending}") for ending in (".md", ".json")]
        write_text(files[0], self.markdown())
        write_text(files[1], json.dumps(self.as_json(), indent=1) + "\n")
        return files


def read_results(path: Path) -> Results:
    """What `Results.write` wrote; an InputError if the file is anything else."""
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
        models = [Measured.from_json(each) for each in facts["models"]]
        tables = [
            Table(**each | {"columns": [Column(**column) for column in each["columns"]]}) for each in facts["tables"]
        ]
        return Results(facts["title"], models, tables, tuple(facts["notes"]))
    except FileNotFoundError:
        raise InputError(f"{path} is missing") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} holds no results: {type(error).__name__} {error}") from None


def _grid(table: Table, rows: Sequence[tuple[Measured, str, Sequence[str]]]) -> str:
    body = [[name, *cells] for _, name, cells in rows]
    lines = [["", *table.heads()], ["---", *["---:"] * len(table.columns)], *body]
    cells = [[text.replace("|", "\\|") for text in line] for line in lines]  # H(y|x) is one column
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)
