"""the results of a search: tables in Markdown and JSON, and pictures of what mattered"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diskoop.errors import counted
from diskoop.plots.search import history_figure, importance_figure, settings_figure
from diskoop.plots.style import save_figure
from diskoop.search.plan import FIGURES, SearchPlan
from diskoop.search.trials import TrialRecord
from diskoop.storage import write_text

FORMAT = 1  # of table.json


@dataclass(frozen=True)
class SearchResults:
    """What a search has come to so far.

    Args:
        name: of the search.
        plan: its plan.
        trials: all that were begun, in the plan's order.
        importances: a setting's full name -> share of the objective's variance that it explains, the largest first.
    """

    name: str
    plan: SearchPlan
    trials: Sequence[TrialRecord]
    importances: Mapping[str, float]

    @property
    def ranked(self) -> list[TrialRecord]:
        """Complete trials by their objective, the best first, then the others in their order."""
        return sorted(self.trials, key=lambda each: (each.value is None, -(each.value or 0.0), each.place))

    @property
    def best(self) -> TrialRecord | None:
        first = self.ranked[:1]
        return first[0] if first and first[0].value is not None else None

    def counts(self) -> str:
        """`24 trials of 24: 15 complete, 8 pruned, 1 failed`."""
        states = [each.state for each in self.trials]
        parts = [f"{states.count(state)} {state}" for state in dict.fromkeys(sorted(states))]
        begun = f"{counted(len(states), 'trial')} of {self.plan.num_trials}"
        return f"{begun}: {', '.join(parts)}" if parts else begun

    def headings(self) -> list[str]:
        names = [name.partition(".")[2] for name in self.plan.space]
        taken = [*names, *FIGURES]  # loss.cycle beside the figure of that name
        settings = [name if taken.count(name) == 1 else full for name, full in zip(names, self.plan.space, strict=True)]
        return ["trial", "state", "objective", *self.plan.figures, *settings, "seconds"]

    def rows(self) -> list[list[str]]:
        """The ranked trials as texts, one for each heading."""
        return [
            [
                each.name,
                each.state,
                _number(each.value),
                *(_number(each.figures.get(name)) for name in self.plan.figures),
                *(_value(each.params.get(name)) for name in self.plan.space),
                "" if each.seconds is None else f"{each.seconds:.1f}",
            ]
            for each in self.ranked
        ]

    def markdown(self) -> str:
        """The table of trials, what mattered, and why some failed."""
        weights = ", ".join(f"{name} ({self.plan.objective[name]:g})" for name in self.plan.figures)
        blocks = [
            f"# Search: {self.name}",
            f"{self.counts()}. The objective is the weighted mean of figures on validation clips: {weights}.",
            _table(self.headings(), self.rows()),
            "\n".join(f"- {name}: {FIGURES[name]}" for name in self.plan.figures),
        ]
        if self.importances:
            shares = [[name, f"{share:.1%}"] for name, share in self.importances.items()]
            blocks += [
                "## What mattered",
                "Shares of the objective's variance over complete trials that settings explain by themselves (fANOVA).",
                _table(["setting", "share"], shares),
            ]
        if failed := [f"- {each.name}: {each.error}" for each in self.trials if each.error]:
            blocks += ["## What failed", "\n".join(failed)]
        return "\n\n".join(blocks) + "\n"

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "plan": self.plan.model_dump(exclude={"storage"}),
            "best": None if self.best is None else self.best.place,
            "importances": dict(self.importances),
            "trials": [asdict(each) for each in self.trials],
        }

    def write(self, folder: Path) -> list[Path]:
        """table.md and table.json."""
        files = [folder / "table.md", folder / "table.json"]
        write_text(files[0], self.markdown())
        write_text(files[1], json.dumps(self.as_json(), indent=1) + "\n")
        return files

    def draw(self, folder: Path) -> list[Path]:
        """history.png, and settings.png and importances.png where trials are complete; nothing before the first."""
        complete = [each for each in self.trials if each.value is not None]
        if not complete:
            return []
        values = {each.place: each.value for each in complete if each.value is not None}
        others = {each.place: each.state for each in self.trials if each.is_settled and each.value is None}
        columns = {name: [each.params[name] for each in complete] for name in self.plan.space}
        figures = {
            "history": history_figure(values, others),
            "settings": settings_figure(columns, list(values.values())),
        }
        if self.importances:
            figures["importances"] = importance_figure(self.importances)
        return [save_figure(figure, folder / f"{name}.png") for name, figure in figures.items()]


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |" for line in lines)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _value(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
