"""the plan of a search: which settings, over which values, judged by which figures; YAML in and out"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import yaml
from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator
from pydantic_core import ErrorDetails

from diskoop.errors import InputError, quoted, suggest
from diskoop.input_files import exists
from diskoop.settings import (
    KINDS_IN_WORDS,
    NonNegativeInt,
    Number,
    PositiveInt,
    Section,
    Settings,
    check_value,
    keys,
    load_yaml,
    merged,
    nested,
    read_yaml,
    shipped,
)

# What trained models can be judged by, each at most 1, which is best.
FIGURES = {
    "explained": "share of the frames' variance that reconstructions explain",
    "steady": "share of the static part's variance that lies between clips, not within them",
    "cycle": "1 - the cycle error: the static code after a swap, decoding and encoding, beside what was put in",
    "kept": "share of the dynamic part's variance that is as before after that swap, decoding and encoding",
    "score": "the multifactor score of the factors found, which takes labels",
}
LABELLED = ("score",)
DEFAULT_OBJECTIVE = {"explained": 1.0, "steady": 1.0, "cycle": 1.0, "kept": 1.0}
WORST = -1.0  # what a figure counts at least: an untrained model's have no bound
WANTED = KINDS_IN_WORDS | {"dict": "should map names to values"}
MAX_GRID = 10**7  # points that are counted out
MAX_WHOLE = 2**53  # of a range: larger ones are no floats, which samplers compute with
GOLDEN = (5**0.5 - 1) / 2  # of a range: no whole number lies there but by chance
LOCAL = (("data", "path"), ("data", "labels"), ("train", "device"))  # settings that differ from machine to machine


def _plain_number(value: Any) -> Any:
    """A number, whole or not, as it was given."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise ValueError("should be a number")
    if isinstance(value, int) and abs(value) > MAX_WHOLE:
        raise ValueError("should be a number of at most 2**53, as whole numbers go")
    return value


Plain = Annotated[Any, BeforeValidator(_plain_number)]


class Range(Section):
    """Numbers from `low` to `high`: whole ones where both are, in steps where there is a `step`."""

    low: Plain
    high: Plain
    step: Plain | None = None
    log: bool = False

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low = {self.low} should be below high = {self.high}")
        if not math.isfinite(self.high - self.low):
            raise ValueError(f"low = {self.low} is too far from high = {self.high}")
        if self.step is not None and self.step <= 0:
            raise ValueError(f"step = {self.step} should be above 0")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError(f"log: true takes low above 0 and no step, got {self.low} and {self.step}")
        if self.is_whole and isinstance(self.step, float):
            raise ValueError(f"whole numbers have whole steps, got step = {self.step}")
        if self.step is not None and not self.is_whole and self._steps > MAX_GRID:
            raise ValueError(f"step = {self.step} makes more than {MAX_GRID} steps from {self.low} to {self.high}")
        if self.step is not None and self._steps.denominator > 1:
            last = self.value(int(self._steps))
            raise ValueError(f"step = {self.step} does not lead from {self.low} to high = {self.high} but to {last}")
        return self

    @property
    def is_whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def _steps(self) -> Fraction:
        """How many steps there are from `low` to `high`."""
        return (_exact(self.high) - _exact(self.low)) / _exact(self.step or 1)

    @property
    def size(self) -> int:
        """How many values it has in a grid; an InputError where there is no step."""
        if self.step is None and (self.log or not self.is_whole):
            raise InputError(f"a grid needs a step or a list of values, got low: {self.low}, high: {self.high}")
        return int(self._steps) + 1

    def value(self, index: int) -> Any:
        """The value so many steps above `low`."""
        value = _exact(self.low) + index * _exact(self.step or 1)
        return int(value) if self.is_whole else float(value)

    def inner(self) -> list[Any]:
        """Values between the ends; a setting that takes them and the ends takes the whole range."""
        if self.step is None and not self.is_whole:
            return [self.low + GOLDEN * (self.high - self.low)]
        last = int(self._steps)
        return [self.value(index) for index in sorted({1, (last + 1) // 2, last - 1} - {0, last})]


def _exact(number: float) -> Fraction:
    """The decimal number that somebody wrote: 0.1 is a tenth."""
    return Fraction(str(number))


def _choices(value: Any) -> Any:
    """A list of different values of a setting."""
    if not isinstance(value, list):
        raise ValueError("should be a list of values, or low and high")
    if not value or len({repr(each) for each in value}) < len(value):
        raise ValueError("should be a list of different values")
    if any(isinstance(each, list | Mapping) for each in value):
        raise ValueError("should be a list of plain values")
    return value


def _weights(value: Any) -> Any:
    """A figure's name, a list of names, or their weights."""
    if isinstance(value, str):
        return {value: 1.0}
    if not isinstance(value, list):
        return value
    if not all(isinstance(each, str) for each in value):
        raise ValueError("should name figures")
    return dict.fromkeys(value, 1.0)


def _known_figures(value: dict[str, float]) -> dict[str, float]:
    for name in value:
        if name not in FIGURES:
            raise ValueError(f"names {quoted(name)}; {suggest(name, FIGURES)}")
    if not any(value.values()):
        raise ValueError("should weigh one figure at least")
    return value


def _named(value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise ValueError("should be a name")
    return value


def _kind(value: Any) -> str:
    return "range" if isinstance(value, Mapping | Range) else "list"


Values = Annotated[
    Annotated[list[Any], BeforeValidator(_choices), Tag("list")] | Annotated[Range, Tag("range")], Discriminator(_kind)
]


class SearchPlan(Section):
    """The plan of a search.

    Example:
        >>> plan = SearchPlan.of({"space": {"model.k": [8, 12], "loss.eig": {"low": 0.1, "high": 10}}, "trials": 9})
        >>> plan.sampler, plan.describe({"model.k": 8, "loss.eig": 2.5})
        ('tpe', 'model.k=8 loss.eig=2.5')
    """

    name: Annotated[str | None, AfterValidator(_named)] = None  # of the search in its storage; None is the file's
    base: str | None = None  # a preset or a YAML file whose settings are taken over below, once
    settings: dict[str, dict[str, Any]] = Field(default_factory=dict)  # {section: {key: value}}
    space: dict[str, Values]  # a setting's full name -> its values
    objective: Annotated[
        dict[str, Annotated[float, Number, Field(ge=0)]], BeforeValidator(_weights), AfterValidator(_known_figures)
    ] = DEFAULT_OBJECTIVE  # a figure -> its weight
    sampler: Literal["tpe", "random", "grid"] = "tpe"
    pruner: Literal["median", "halving", "none"] = "median"
    trials: PositiveInt | None = None  # None: every point of a grid
    seed: NonNegativeInt = 0
    storage: str | None = None  # what workers share; None is a file in the search's folder
    heartbeat: Annotated[float, Number, Field(ge=1, le=86_400)] = 30.0  # seconds between signs of life of a worker

    @classmethod
    def of(cls, values: Any, folder: str | Path = "") -> "SearchPlan":
        """A validated plan with the settings of its base, or an InputError that names what is at fault.

        Args:
            values: by their names.
            folder: where the base may lie.
        """
        if not isinstance(values, dict):
            raise InputError(f"a plan should map names ({', '.join(cls.model_fields)}) to values, got {quoted(values)}")
        try:
            plan = cls.model_validate(values)
        except ValidationError as error:
            raise InputError("; ".join(_sentence(each) for each in error.errors())) from None
        plan._check()
        return plan if plan.base is None else plan._with_base(Path(folder))

    @classmethod
    def load(cls, source: str | Path, changes: Mapping[str, Any] | None = None) -> "SearchPlan":
        """A plan that comes with the package, by its name, or one from a YAML file, whose `base` may be beside it.

        Args:
            source: the name or the path.
            changes: a name in the plan -> what replaces its value, unless that is None.
        """
        values = load_yaml(source, "plans", "search plan")
        if isinstance(values, dict):
            values = values | {name: value for name, value in (changes or {}).items() if value is not None}
        return cls.of({} if values is None else values, Path(source).parent)

    def _check(self) -> None:
        if not self.space:
            raise InputError("space is empty: name settings and their values, such as model.k: [8, 12, 16]")
        for name, values in self.space.items():
            if name not in keys():
                check_value(name, None)
            for value in _ends(values):
                check_value(name, value)
            if isinstance(values, Range):
                _check_inner(name, values)
        _check_settings(self.settings)
        given = [f"{section}.{key}" for section, part in self.settings.items() for key in part]
        if twice := [name for name in given if name in self.space]:
            raise InputError(f"{twice[0]} stands in settings and in space; keep one of them")
        if "train.seed" in self.space:
            raise InputError("train.seed in space: a search for the luckiest seed tells nothing of the settings")
        if self.sampler == "grid":
            self.grid_size()
        elif self.trials is None:
            raise InputError(f"trials is missing: sampler {self.sampler} has no end of its own")

    def _with_base(self, folder: Path) -> "SearchPlan":
        """This plan with what its base says among its settings, without what trials try: the file may change."""
        assert self.base is not None
        beside = folder / self.base
        base = read_yaml(beside if self.base not in shipped("presets") and exists(beside) else self.base)
        try:
            _check_settings(base)
        except InputError as error:
            raise InputError(f"base {quoted(self.base)}: {error}") from None
        fixed = {
            section: {key: value for key, value in part.items() if f"{section}.{key}" not in self.space}
            for section, part in base.items()
        }
        return self.model_copy(update={"base": None, "settings": merged(fixed, self.settings)})

    def trial_settings(self, params: Mapping[str, Any]) -> Settings:
        """The settings of a trial; an InputError where its values do not go together."""
        return Settings.of(merged(self.settings, nested(params)))

    def data_settings(self) -> Settings:
        """Settings with the data of the trials, or of the first where they differ in that, and their device."""
        first = {name: _ends(values)[0] for name, values in self.space.items() if name.startswith("data.")}
        device = {key: value for key, value in self.settings.get("train", {}).items() if key == "device"}
        return Settings.of(merged({"data": self.settings.get("data", {}), "train": device}, nested(first)))

    def grid_size(self) -> int:
        """How many points the grid has."""
        count = math.prod(_size(values) for values in self.space.values())
        if count > MAX_GRID:
            raise InputError(f"the grid has {count} points, wanted {MAX_GRID} at most; sampler: tpe finds its own way")
        return count

    def grid_point(self, index: int) -> dict[str, Any]:
        """The point that the trial `index` tries: all points once, in an order that the seed shuffles."""
        counts = [_size(values) for values in self.space.values()]
        order = np.random.Generator(np.random.PCG64(self.seed)).permutation(math.prod(counts))
        places = np.unravel_index(int(order[index]), counts)
        return {
            name: values.value(int(place)) if isinstance(values, Range) else values[int(place)]
            for (name, values), place in zip(self.space.items(), places, strict=True)
        }

    @property
    def num_trials(self) -> int:
        """How many trials the search has."""
        if self.sampler != "grid":
            assert self.trials is not None
            return self.trials
        return min(self.trials or MAX_GRID, self.grid_size())

    @property
    def takes_labels(self) -> bool:
        return any(self.objective.get(name) for name in LABELLED)

    @property
    def figures(self) -> list[str]:
        """The figures that count."""
        return [name for name, weight in self.objective.items() if weight]

    def judge(self, figures: Mapping[str, float]) -> float:
        """The objective: the weighted mean of a trial's figures, each at least WORST."""
        weights = {name: self.objective[name] for name in self.figures}
        total = sum(weight * max(WORST, figures[name]) for name, weight in weights.items())
        return total / sum(weights.values())

    def identity(self) -> dict[str, Any]:
        """What all workers of a search have in common."""
        local = {section: {key for each, key in LOCAL if each == section} for section, _ in LOCAL}
        settings = {
            section: {key: value for key, value in part.items() if key not in local.get(section, ())}
            for section, part in self.settings.items()
        }
        return self.model_dump(include={"space", "objective", "sampler", "pruner", "seed"}) | {"settings": settings}

    @staticmethod
    def describe(params: Mapping[str, Any]) -> str:
        """A trial's values as on the command line."""
        return " ".join(
            f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in params.items()
        )

    def to_yaml(self) -> str:
        """The plan as text, without what is not given."""
        return yaml.safe_dump(self.model_dump(exclude_none=True), sort_keys=False)


def _check_settings(settings: Mapping[str, Mapping[str, Any]]) -> None:
    """An InputError unless every setting exists and takes its value."""
    for section, part in settings.items():
        if not part and section not in Settings.model_fields:
            check_value(section, None)
        for key, value in part.items():
            check_value(f"{section}.{key}", value)


def _check_inner(name: str, values: Range) -> None:
    """An InputError unless a setting takes what lies in a range, not only its ends."""
    for value in values.inner():
        try:
            check_value(name, value)
        except InputError as error:
            raise InputError(f"{error}, which lies between low = {values.low} and high = {values.high}") from None


def _size(values: Sequence[Any] | Range) -> int:
    return values.size if isinstance(values, Range) else len(values)


def _ends(values: Sequence[Any] | Range) -> list[Any]:
    """The values of a list, or the ends of a range."""
    return [values.low, values.high] if isinstance(values, Range) else list(values)


def plans() -> list[str]:
    """Names of the plans that come with the package."""
    return shipped("plans")


def _sentence(detail: ErrorDetails) -> str:
    place = [str(each) for each in detail["loc"]]
    if place[0] == "space" and len(place) > 2:
        del place[2]  # which kind of values it was taken for
    name = ".".join(place)
    if detail["type"] == "extra_forbidden":
        known = Range.model_fields if place[0] == "space" else SearchPlan.model_fields
        return f"unknown name {quoted(name)} in the plan; {suggest(place[-1], known)}"
    if detail["type"] == "missing":
        return f"{name} is missing in the plan"
    message = detail["msg"].removeprefix("Value error, ")
    if " = " in message or message.startswith("names "):  # quotes what came
        return f"{name}: {message}"
    wanted = WANTED.get(detail["type"].partition("_")[0]) or message.removeprefix("Input ")
    return f"{name} {wanted}, got {quoted(detail['input'])}"
