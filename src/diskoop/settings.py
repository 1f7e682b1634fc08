"""settings of a run: one small frozen record per section, YAML in and out, old names mapped to new ones"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import ErrorDetails

from diskoop.errors import InputError, quoted, suggest
from diskoop.input_files import exists, read_text
from diskoop.losses import LOSS_TERMS, LOSS_WEIGHTS
from diskoop.storage import write_text

FORMAT = 2  # of settings files and run folders; a file without a number is of format 1
# Names of settings that format 1 had, and what they are called now.
RENAMED = {
    "data.holdout": "data.val_fraction",
    "data.test": "data.test_fraction",
    "data.sa": "data.keep_sa",
    "model.latent": "model.latent_activation",
    "model.scope": "model.operator_scope",
    "train.batch": "train.batch_size",
    "train.clip": "train.grad_clip",
}
RENAMED_VALUES = {("model.decoder_memory", "started"): "lstm_init"}

STATIC_SHARE = 0.45  # of the eigenvalues stand for what stays where nobody says how many: see docs/experiments.md
FRAME_SIZES = (32, 64, 128)  # pixels across that the networks for video are made for
MAX_DEPTH = 8  # of lists and mappings in a settings file, which needs two
MAX_DIGITS = 100  # of a number there


# What a setting should be where a value is of another kind, by the first word of pydantic's error types.
KINDS_IN_WORDS = {
    "bool": "should be true or false",
    "int": "should be a whole number",
    "float": "should be a number",
    "string": "should be text",
}


class Section(BaseModel):
    """A section of settings: frozen, with no keys but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _not_bool(value: Any) -> Any:
    """YAML reads yes as true, which Python takes for 1."""
    if isinstance(value, bool):
        raise ValueError("should be a number")
    return value


def _int_or(word: str) -> Callable[[Any], Any]:
    """A check of a number that may be given as `word`, which `Settings.of` has replaced by now."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and not value.isdecimal():
            raise ValueError(f"should be a whole number or {word}")
        return value

    return check


def _bool_or_auto(value: Any) -> Any:
    if value not in (True, False, "auto"):
        raise ValueError("should be true, false or auto")
    return value


def _int_to_str(value: Any) -> Any:
    """YAML reads 32 as a number where the setting is a string."""
    return str(value) if type(value) is int else value


def _comma_separated(value: Any) -> Any:
    """A list of names as one text; no name is null."""
    return ",".join(map(str, value)) or None if isinstance(value, list | tuple) else value


def _check_strip(value: str | None) -> str | None:
    is_count = value is not None and value.isdecimal() and len(value) < 10 and int(value) >= 2
    if not (value in (None, "auto", "none") or is_count):
        raise ValueError("should be auto, none or a number of frames from 2")
    return value


MAX_INT = 2**31 - 1  # of any whole number: arrays are indexed with 64 bits, and products of two have to fit
Number = BeforeValidator(_not_bool)
PositiveInt = Annotated[int, Number, Field(ge=1, le=MAX_INT)]
NonNegativeInt = Annotated[int, Number, Field(ge=0, le=MAX_INT)]
NonNegativeFloat = Annotated[float, Number, Field(ge=0)]
PositiveFloat = Annotated[float, Number, Field(gt=0)]
Fraction = Annotated[float, Number, Field(ge=0, lt=1)]


class DataSettings(Section):
    """Which sequences, and how they are read and split."""

    name: str | None = None  # a set that diskoop knows; None is puppets, or the user's own where there is a path
    path: str | None = None  # the user's own files, or where those of a named set lie
    size: Annotated[Literal[32, 64, 128], Number] | None = None  # pixels; None takes the data set's own
    limit: PositiveInt | None = None  # train on the first so many sequences only
    # Cut clips into so many frames; None decides by kind.
    window: Annotated[int, Number, Field(ge=2, le=MAX_INT)] | None = None
    stride: PositiveInt | None = None  # frames from one window to the next; None is the window itself
    every: PositiveInt = 1  # of videos, take every so many-th frame
    # Images that are strips: clips of so many frames side by side; auto: as many squares as fit; none: single frames
    strip: Annotated[str | None, BeforeValidator(_int_to_str), AfterValidator(_check_strip)] = None
    labels: str | None = None  # a CSV with a row for each sequence
    group: str | None = None  # a label whose values no two splits share; None: one that says who, or "none"
    split_by: Literal["auto", "clip", "time"] = "auto"  # whole clips, or the end of each; auto: in time if few and long
    id: str | None = None  # of a table that holds many sequences: the column that tells them apart
    time: str | None = None  # and the one that puts their rows in order; None finds times and dates, "none" is none
    columns: Annotated[str | None, BeforeValidator(_comma_separated)] = None  # the features; None: all that can be
    drop: Annotated[str | None, BeforeValidator(_comma_separated)] = None  # columns to leave out
    words: Literal["auto", "categories", "drop"] = "auto"  # that change in a sequence: features if few, all, or none
    max_gap: NonNegativeInt = 6  # empty rows that are filled by interpolation; longer gaps cut a sequence
    test_fraction: Fraction = 0.1  # of the user's own, how much to test on
    val_fraction: Fraction = 0.1  # how much of the rest validates; 0 trains on all of it
    keep_sa: bool = False  # timit: keep the two sentences that everyone reads
    # Of a set that is read chunk by chunk: sequences within which an epoch is shuffled, and which are in memory,
    shuffle_window: PositiveInt = 2048
    # and sequences of each split that validate, fit the frozen operator, and are looked at; None is all of them.
    sample: PositiveInt | None = 1024
    # How many times the size of its file an array of over a GiB may unpack to; what unpacks to more looks like a bomb.
    max_expansion: PositiveInt = 100
    skip_bad: bool = False  # leave out what cannot be read, and say so


class ModelSettings(Section):
    """The networks, and how the operator between them is fitted."""

    network: str = "auto"  # the encoder and decoder, by name; auto is frames for video, signals for the rest
    k: PositiveInt = 40  # latent width, the size of the operator
    h: PositiveInt | None = 40  # the decoder's LSTM; None (signals only) makes it as wide as the signal
    width: PositiveInt = 32  # channels of the first convolution
    latent_activation: Literal["tanh", "leaky_relu"] = "tanh"  # what the frame encoder's last convolution ends in
    # How the decoder sees time: by an LSTM, by one whose first state comes from the first latent, or not at all.
    decoder_memory: Literal["lstm", "lstm_init", "none"] = "lstm"
    # Principal components of frames beside the networks, which then start from PCA with DMD and learn what is left.
    pca_skip: bool = False
    # How many of the latents are statistics of the whole clip, equal in all its frames; "static" is spectrum.static
    pooled: Annotated[NonNegativeInt, BeforeValidator(_int_or("static"))] = 0
    dropout: Fraction = 0.2  # on the latents that are decoded for reconstruction
    noise: NonNegativeFloat = 0.0  # uniform, added to the latents before the operator is solved
    # Noise on the latents that are decoded for reconstruction, inside the dynamic part and with its covariance; 1 is as
    # large as the part itself. It makes the model keep what does not change over a clip in the static part.
    dynamic_noise: NonNegativeFloat = 0.0
    # While training, relative to each latent's mean square; 0 factors the latents themselves.
    ridge: NonNegativeFloat = 1e-9
    operator_scope: Literal["batch", "sequence"] = "batch"  # what one operator is fitted on while training


class SpectrumSettings(Section):
    """Where the eigenvalues of the operator should be."""

    # k_s: how many eigenvalues stand for what stays; "auto" is STATIC_SHARE of model.k
    static: Annotated[NonNegativeInt, BeforeValidator(_int_or("auto"))] = 8
    radius: NonNegativeFloat = 0.5  # epsilon: where the other eigenvalues should stay
    delta: PositiveFloat = 0.3  # dynamic_penalty=ball and circle keep them this far from 1
    order: Literal["distance", "modulus"] = "distance"
    static_penalty: Literal["distance", "modulus"] = "distance"
    dynamic_penalty: Literal["modulus", "hinge", "real", "ball", "circle"] = "modulus"


_weights: dict[str, Any] = {
    name: (NonNegativeFloat, Field(default, description=about)) for name, (default, about) in LOSS_WEIGHTS.items()
}
LossWeights: Any = create_model("LossWeights", __base__=Section, **_weights)


class LossSettings(LossWeights):  # type: ignore[misc]
    """A weight for each of `losses.LOSS_WEIGHTS`, and how squared errors are averaged."""

    reduction: Literal["element", "frame"] = "element"


class TrainSettings(Section):
    """Optimisation, device and checkpoints."""

    # How long: passes over the training set, or steps; the one that is given replaces the other.
    epochs: PositiveInt | None = 100
    steps: PositiveInt | None = None
    # Stop after so many validations without a smaller loss, and take the weights of the smallest; None: neither.
    patience: PositiveInt | None = None
    batch_size: PositiveInt = 32
    lr: Annotated[float, Number, Field(gt=0, le=100)] = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: NonNegativeInt = 0  # steps of linear warm-up
    grad_clip: PositiveFloat | None = None  # largest gradient norm
    # Shift video by a few pixels, all frames of a clip alike; auto does so where there are few clips.
    augment: Annotated[bool | Literal["auto"], BeforeValidator(_bool_or_auto)] = False
    blur: bool = False  # blur what the encoder sees, not the target
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    # auto: bf16 on CUDA that computes in it, else 32
    precision: Annotated[Literal["auto", "32", "bf16", "64"], BeforeValidator(_int_to_str)] = "auto"
    seed: Annotated[int, Number, Field(ge=0, le=MAX_INT)] = 0
    # Steps between checkpoints inside an epoch; one at its end too; none that would cost over 1% of the time.
    save_every: PositiveInt = 500
    tensorboard: bool = False

    @model_validator(mode="before")
    @classmethod
    def _one_budget(cls, values: Any) -> Any:
        """Steps without epochs: the default of epochs does not count."""
        if isinstance(values, dict) and values.get("steps") is not None and "epochs" not in values:
            return values | {"epochs": None}
        return values


class Settings(Section):
    """All settings of a run.

    Example:
        >>> settings = Settings.of({"model": {"k": 24}, "spectrum": {"static": "auto"}})
        >>> settings.spectrum.static, settings.replaced({"train": {"lr": 0.01}}).train.lr
        (11, 0.01)
    """

    data: DataSettings = DataSettings()
    model: ModelSettings = ModelSettings()
    spectrum: SpectrumSettings = SpectrumSettings()
    loss: LossSettings = LossSettings()
    train: TrainSettings = TrainSettings()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        k, static, loss = self.model.k, self.spectrum.static, self.loss
        if static > k:
            raise ValueError(f"spectrum.static = {static} exceeds model.k = {k}: there are only k eigenvalues")
        if self.model.operator_scope == "sequence" and static > 1:
            raise ValueError(
                f"spectrum.static = {static} with model.operator_scope = sequence: one trajectory excites one "
                "eigenvalue 1 only, so spectrum.static must be 0 or 1 there"
            )
        if (pooled := self.model.pooled) and not (self.model.pca_skip and pooled <= static < k):
            raise ValueError(
                f"model.pooled = {pooled} needs model.pca_skip = true and model.pooled <= spectrum.static < model.k, "
                f"got {str(self.model.pca_skip).lower()}, {static} and {k}"
            )
        if pooled and self.spectrum.order != "distance":
            raise ValueError(f"model.pooled = {pooled} needs spectrum.order = distance, got {self.spectrum.order}")
        if self.model.operator_scope == "sequence" or not 0 < static < k:
            takes_parts = {
                f"loss.{t.weight}": getattr(loss, t.weight) for t in LOSS_TERMS.values() if "static" in t.uses
            }
            for name, amount in (takes_parts | {"model.dynamic_noise": self.model.dynamic_noise}).items():
                if amount:
                    raise ValueError(
                        f"{name} = {amount} needs one static and one dynamic part for a whole batch, which takes "
                        "model.operator_scope = batch and 0 < spectrum.static < model.k, got "
                        f"model.operator_scope = {self.model.operator_scope} and {static} of {k}"
                    )
        if (self.train.epochs is None) == (self.train.steps is None):
            raise ValueError(
                f"expected either train.epochs or train.steps, got {self.train.epochs} and {self.train.steps}"
            )
        if not (loss.rec or loss.pred):
            raise ValueError("loss.rec and loss.pred are both 0: nothing would train the decoder")
        return self

    @classmethod
    def load(cls, source: str | Path) -> "Settings":
        """A preset's name, or the path of a YAML file."""
        return cls.of(read_yaml(source))

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Settings":
        """Validated settings, or an InputError that names every key at fault."""
        try:
            return cls.model_validate(_with_pooled_count(_with_static_count(values)))
        except ValidationError as error:
            raise InputError("; ".join(_sentence(detail) for detail in error.errors())) from None

    def replaced(self, changes: dict[str, Any]) -> "Settings":
        """These settings with `changes`, {section: {key: value}}, laid over them."""
        return Settings.of(merged(self.model_dump(), changes))

    def for_linear(self, time: int) -> "Settings":
        """Settings of a linear model of the same size: one that keeps as many numbers of a clip of `time` frames.

        A latent that is pooled over the clip is kept once, where those of PCA are kept for every frame.

        Example:
            >>> values = {"model": {"k": 84, "pca_skip": True, "pooled": 20}, "spectrum": {"static": 20}}
            >>> Settings.of(values).for_linear(200).model.k  # 64 a frame and 20 a clip
            65
        """
        if not (pooled := self.model.pooled):
            return self
        k = max(self.model.k - pooled + math.ceil(pooled / time), self.spectrum.static + 1)
        return self.replaced({"model": {"k": k, "pooled": 0}})

    def to_yaml(self) -> str:
        """All settings as text, with the number of their format."""
        return yaml.safe_dump({"format": FORMAT, **self.model_dump()}, sort_keys=False)

    def save(self, path: str | Path) -> None:
        """Write them to a YAML file."""
        write_text(path, self.to_yaml())


def _with_static_count(values: dict[str, Any]) -> dict[str, Any]:
    """`spectrum.static: auto` as a number, so that a run's settings say what it was."""
    spectrum, model = values.get("spectrum"), values.get("model")
    if not (isinstance(spectrum, dict) and spectrum.get("static") == "auto"):
        return values
    try:
        k = ModelSettings.model_validate({"k": model["k"]}).k if isinstance(model, dict) and "k" in model else None
    except ValidationError:
        k = 0  # what is wrong with it is said when all settings are looked at
    static = round(STATIC_SHARE * (ModelSettings().k if k is None else k))
    return values | {"spectrum": spectrum | {"static": static}}


def _with_pooled_count(values: dict[str, Any]) -> dict[str, Any]:
    """`model.pooled: static` as a number, so that whoever changes spectrum.static need not know of it."""
    spectrum, model = values.get("spectrum"), values.get("model")
    if not (isinstance(model, dict) and model.get("pooled") == "static"):
        return values
    static = SpectrumSettings().static
    return values | {
        "model": model | {"pooled": spectrum.get("static", static) if isinstance(spectrum, dict) else static}
    }


def presets() -> list[str]:
    """Names of the presets that come with the package."""
    return shipped("presets")


def shipped(folder: str) -> list[str]:
    """Names of the YAML files in a folder of the package."""
    entries = (resources.files("diskoop") / folder).iterdir()
    return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))


def load_yaml(source: str | Path, folder: str, noun: str) -> Any:
    """What a YAML file holds, not yet validated.

    Args:
        source: the name of a file in a folder of the package, or a path.
        folder: that folder.
        noun: what such a file is, for messages.
    """
    if str(source) in shipped(folder):
        text = (resources.files("diskoop") / folder / f"{source}.yaml").read_text(encoding="utf-8")
    else:
        try:
            text = read_text(source)
        except FileNotFoundError:
            raise InputError(
                f"no settings file and no {noun} {str(source)!r}; {suggest(str(source), shipped(folder))}"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read settings from {str(source)!r}: {error}") from None
    try:
        return yaml.load(text, _SettingsLoader)
    except yaml.YAMLError as error:
        problem = "cannot be taken" if type(error) is yaml.YAMLError else "is not YAML"  # PyYAML raises its children
        raise InputError(f"{source} {problem}: {' '.join(str(error).split())}") from None


def read_yaml(source: str | Path) -> dict[str, Any]:
    """The mapping in a preset or a YAML file, not yet validated."""
    values = load_yaml(source, "presets", "preset")
    values = {} if values is None else values
    number = values.pop("format", 1) if isinstance(values, dict) else 1
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= FORMAT:
        raise InputError(f"{source} has format {quoted(number)}; this version reads formats 1 to {FORMAT}")
    if not isinstance(values, dict) or not all(isinstance(part, dict | None) for part in values.values()):
        raise InputError(f"{source} should map sections ({', '.join(Settings.model_fields)}) to their keys")
    return upgraded({section: part or {} for section, part in values.items()})


def upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """Settings of any format, {section: {key: value}}, under today's names.

    Example:
        >>> upgraded({"train": {"batch": 16, "lr": 0.001}, "model": {"decoder_memory": "started"}})
        {'train': {'batch_size': 16, 'lr': 0.001}, 'model': {'decoder_memory': 'lstm_init'}}
    """
    new: dict[str, Any] = {}
    for section, part in values.items():
        new[section] = {}
        for key, value in part.items():
            name = RENAMED.get(f"{section}.{key}", f"{section}.{key}")
            if (new_key := name.partition(".")[2]) in new[section]:
                raise InputError(f"{section}.{key} is called {name} now, and both are given; keep one of them")
            new[section][new_key] = RENAMED_VALUES.get((name, value), value) if isinstance(value, str) else value
    return new


class _SettingsLoader(yaml.SafeLoader):
    """YAML as settings need it: text, numbers, true, false and null in lists and mappings.

    Refused is what can only be a mistake or an attack here: a key that stands twice, of which the plain loader silently
    keeps the last, aliases, which multiply what a file holds, tags and deep nesting. A date is text.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own name
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":merge", ":value"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError(f"the alias *{event.anchor} has no place in settings; write the value again")
        if (tag := getattr(event, "tag", None)) not in (None, "!"):
            raise yaml.YAMLError(f"the tag {tag.replace('tag:yaml.org,2002:', '!!')} has no place in settings")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.YAMLError(f"lists and mappings are nested more than {MAX_DEPTH} deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            names = Counter(self.construct_object(key, deep=True) for key, _ in node.value)
            raise yaml.YAMLError(f"the key {quoted(names.most_common(1)[0][0])} stands twice")
        return mapping

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        """A number, of which YAML has forms that Python cannot read: `0x_`, or more digits than it converts."""
        text = str(node.value)
        is_float = node.tag.endswith(":float")
        try:
            if len(text) > MAX_DIGITS:
                raise ValueError
            return self.construct_yaml_float(node) if is_float else self.construct_yaml_int(node)
        except (ValueError, OverflowError):
            raise yaml.YAMLError(f"{quoted(text, 40)} is no number that can be read") from None


_SettingsLoader.add_constructor("tag:yaml.org,2002:int", _SettingsLoader.construct_number)
_SettingsLoader.add_constructor("tag:yaml.org,2002:float", _SettingsLoader.construct_number)


def parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """Settings as the command line has them.

    Example:
        >>> parse_overrides(["model.k=24", "data.path=clips/"])
        {'model': {'k': 24}, 'data': {'path': 'clips/'}}
    """
    changes: dict[str, Any] = {}
    for word in words:
        path, equals, text = word.partition("=")
        section, dot, key = path.partition(".")
        if not (equals and dot and section and key):
            hint = f"; files of your own go to data.path={word}" if not equals and exists(word) else ""
            raise InputError(f"expected section.key=value such as model.k=24, got {quoted(word)}{hint}")
        if path not in keys():
            raise InputError(f"unknown setting {path!r}; {_nearest(path)}")
        if _is_text(section, key):
            if not text:
                raise InputError(f"{path} is empty; give it a value, or null")
            value = None if text == "null" else text  # as it is: a path may hold # or look like a date
        else:
            try:
                value = yaml.load(text, _SettingsLoader)
            except yaml.YAMLError as error:
                why = f": {error}" if type(error) is yaml.YAMLError else ""  # PyYAML's own show lines of a file
                raise InputError(f"{path}: cannot read the value {quoted(text)}{why}") from None
        changes.setdefault(section, {})[key] = value
    return changes


def _is_text(section: str, key: str) -> bool:
    return getattr(Settings(), section).__class__.model_fields[key].annotation in (str, str | None)


def keys() -> list[str]:
    """Every setting's full name."""
    return [f"{section}.{key}" for section, record in Settings() for key in type(record).model_fields]


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by full name as {section: {key: value}}.

    Example:
        >>> nested({"model.k": 24, "model.h": 8, "train.lr": 0.1})
        {'model': {'k': 24, 'h': 8}, 'train': {'lr': 0.1}}
    """
    changes: dict[str, Any] = {}
    for name, value in values.items():
        section, _, key = name.partition(".")
        changes.setdefault(section, {})[key] = value
    return changes


def check_value(name: str, value: Any) -> None:
    """Raise an InputError unless there is a setting of this full name, and it takes this value.

    Example:
        >>> check_value("model.kk", 24)
        Traceback (most recent call last):
        diskoop.errors.InputError: unknown setting 'model.kk'; did you mean 'model.k'?
    """
    if name not in keys():
        raise InputError(f"unknown setting {quoted(name)}; {_nearest(name)}")
    section, _, key = name.partition(".")
    part = _with_pooled_count(_with_static_count({section: {key: value}}))[section]
    try:
        type(getattr(Settings(), section)).model_validate(part)
    except ValidationError as error:
        raise InputError("; ".join(f"{section}.{_sentence(detail)}" for detail in error.errors())) from None


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, section by section; a budget of training replaces another kind of budget."""
    sections = [*base, *(name for name in changes if name not in base)]
    result = {name: {**base.get(name, {}), **changes.get(name, {})} for name in sections}
    given = changes.get("train", {})
    for budget, other in (("steps", "epochs"), ("epochs", "steps")):
        if given.get(budget) is not None and given.get(other) is None:
            result["train"][other] = None
    return result


def is_own(data: Mapping[str, Any]) -> bool:
    """Whether a `data` section is about the user's own files, not a registered set."""
    return data.get("path") is not None and data.get("name") is None


def on_data(values: dict[str, Any], location: dict[str, Any]) -> dict[str, Any]:
    """`values` of a preset for data at another `location`, {"name": ...} or {"path": ...}, in place of its own."""
    options = {key: value for key, value in values.get("data", {}).items() if key not in ("name", "path")}
    return values | {"data": options | location}


def _nearest(name: str) -> str:
    """The end of a sentence about a setting that there is not."""
    if name in RENAMED:
        return f"it is called {RENAMED[name]!r} now"
    return suggest(name, keys() if "." in name else Settings.model_fields)


def _sentence(detail: ErrorDetails) -> str:
    name = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"unknown setting {name!r}; {_nearest(name)}"
    if not name:  # a combination; its message is written above
        return detail["msg"].removeprefix("Value error, ")
    kind = detail["type"].partition("_")[0]
    wanted = KINDS_IN_WORDS.get(kind) or detail["msg"].removeprefix("Input ").removeprefix("Value error, ")
    return f"{name} {wanted}, got {quoted(detail['input'])}"
