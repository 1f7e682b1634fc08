"""what a run is: one small frozen record per stage, YAML in and out"""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from diskoop.errors import InputError, suggest
from diskoop.storage import write_text

STATIC_SHARE = 0.45  # of the eigenvalues stand for what stays where nobody says how many: see docs/experiments.md
FRAME_SIZES = (32, 64, 128)  # pixels across that the networks for video are made for


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _no_flag(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("should be a number")
    return value


def _whole_or_auto(value: Any) -> Any:
    if isinstance(value, str) and not value.isdecimal():  # auto itself is a number by now, see Settings.of
        raise ValueError("should be a whole number or auto")
    return value


def _word(value: Any) -> Any:
    """YAML reads 32 as a number where the setting is a word."""
    return str(value) if type(value) is int else value


Number = BeforeValidator(_no_flag)
Count = Annotated[int, Number, Field(ge=1)]
Whole = Annotated[int, Number, Field(ge=0)]
Weight = Annotated[float, Number, Field(ge=0)]
Positive = Annotated[float, Number, Field(gt=0)]
Share = Annotated[float, Number, Field(ge=0, lt=1)]


class DataSettings(Record):
    name: str | None = None  # a set that diskoop knows; None is puppets, or the user's own where there is a path
    path: str | None = None  # the user's own files, or where those of a named set lie
    size: Annotated[Literal[32, 64, 128], Number] | None = None  # pixels; None takes the data set's own
    limit: Count | None = None  # train on the first so many sequences only
    window: Annotated[int, Number, Field(ge=2)] | None = None  # cut clips into so many frames; None decides by kind
    stride: Count | None = None  # frames from one window to the next; None is the window itself
    every: Count = 1  # of videos, take every so many-th frame
    labels: str | None = None  # a CSV with a row for each sequence
    group: str | None = None  # a label whose values no two splits share; None: one that says who, or "none"
    id: str | None = None  # of a table that holds many sequences: the column that tells them apart
    time: str | None = None  # and the one that puts their rows in order
    test: Share = 0.1  # of the user's own, how much to test on
    holdout: Share = 0.1  # how much of the rest validates; 0 trains on all of it
    sa: bool = False  # timit: keep the two sentences that everyone reads
    skip_bad: bool = False  # leave out what cannot be read, and say so


class ModelSettings(Record):
    k: Count = 40  # latent width, the size of the operator
    h: Count | None = 40  # the decoder's LSTM; None (signals only) makes it as wide as the signal
    width: Count = 32  # channels of the first convolution
    latent: Literal["tanh", "leaky_relu"] = "tanh"  # what the frame encoder's last convolution ends in
    # How the decoder sees time: by an LSTM, by one whose first state comes from the first latent, or not at all.
    decoder_memory: Literal["lstm", "started", "none"] = "lstm"
    dropout: Share = 0.2  # on the latents that are decoded for reconstruction
    noise: Weight = 0.0  # uniform, added to the latents before the operator is solved
    # Noise on the latents that are decoded for reconstruction, inside the dynamic part and distributed like it; 1 is as
    # large as the part itself. What a clip can say by its static part it then says there.
    dynamic_noise: Weight = 0.0
    ridge: Weight = 1e-9  # while training, relative to each latent's mean square; 0 factors the latents themselves
    scope: Literal["batch", "sequence"] = "batch"  # whom one operator serves while training


class SpectrumSettings(Record):
    # k_s: how many eigenvalues stand for what stays; "auto" is STATIC_SHARE of model.k
    static: Annotated[Whole, BeforeValidator(_whole_or_auto)] = 8
    radius: Weight = 0.5  # epsilon: where the other eigenvalues should stay
    delta: Positive = 0.3  # dynamic_penalty=ball and circle keep them this far from 1
    order: Literal["distance", "modulus"] = "distance"
    static_penalty: Literal["distance", "modulus"] = "distance"
    dynamic_penalty: Literal["modulus", "hinge", "real", "ball", "circle"] = "modulus"


class LossSettings(Record):
    rec: Weight = 15.0  # decoded latents against the data
    pred: Weight = 1.0  # a step of the operator against the next frame, in both spaces
    eig: Weight = 1.0  # where the eigenvalues are
    stat: Weight = 1.0  # the two halves of eig, for ablations
    dyn: Weight = 1.0
    cycle: Weight = 0.0  # static parts exchanged, decoded and encoded again, should still be there
    reduction: Literal["element", "frame"] = "element"


class TrainSettings(Record):
    epochs: Count = 100
    batch: Count = 32
    lr: Annotated[float, Number, Field(gt=0, le=100)] = 1e-3
    schedule: Literal["constant", "cosine"] = "constant"
    warmup: Whole = 0  # steps of linear warm-up
    clip: Positive | None = None  # largest gradient norm
    blur: bool = False  # what the encoder sees, not what it is judged by
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    # auto: bf16 on CUDA that computes in it, else 32
    precision: Annotated[Literal["auto", "32", "bf16", "64"], BeforeValidator(_word)] = "auto"
    seed: Annotated[int, Number, Field(ge=0, lt=2**31)] = 0
    save_every: Count = 500  # steps between checkpoints inside an epoch, and at its end; none that would cost over 1%
    tensorboard: bool = False


class Settings(Record):
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
        if self.model.scope == "sequence" and static > 1:
            raise ValueError(
                f"spectrum.static = {static} with model.scope = sequence: one trajectory excites one eigenvalue 1 "
                "only, so spectrum.static must be 0 or 1 there"
            )
        if self.model.scope == "sequence" or not 0 < static < k:
            for name, amount in (("loss.cycle", loss.cycle), ("model.dynamic_noise", self.model.dynamic_noise)):
                if amount:
                    raise ValueError(
                        f"{name} = {amount} needs one static and one dynamic part for a whole batch, which takes "
                        "model.scope = batch and 0 < spectrum.static < model.k, got "
                        f"model.scope = {self.model.scope} and {static} of {k}"
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
            return cls.model_validate(_with_counts(values))
        except ValidationError as error:
            raise InputError("; ".join(_sentence(detail) for detail in error.errors())) from None

    def replaced(self, changes: dict[str, Any]) -> "Settings":
        return Settings.of(merged(self.model_dump(), changes))

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(), sort_keys=False)

    def save(self, path: str | Path) -> None:
        write_text(path, self.to_yaml())


def _with_counts(values: dict[str, Any]) -> dict[str, Any]:
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


def presets() -> list[str]:
    folder = resources.files("diskoop") / "presets"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def read_yaml(source: str | Path) -> dict[str, Any]:
    """The mapping in a preset or a YAML file, not yet validated."""
    if str(source) in presets():
        text = (resources.files("diskoop") / "presets" / f"{source}.yaml").read_text(encoding="utf-8")
    else:
        try:
            text = Path(source).read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InputError(
                f"no settings file and no preset {str(source)!r}; {suggest(str(source), presets())}"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read settings from {str(source)!r}: {error}") from None
    try:
        values = yaml.load(text, _OnceLoader) or {}
    except yaml.YAMLError as error:
        raise InputError(f"{source} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict) or not all(isinstance(part, dict | None) for part in values.values()):
        raise InputError(f"{source} should map sections ({', '.join(Settings.model_fields)}) to their keys")
    return {section: part or {} for section, part in values.items()}


class _OnceLoader(yaml.SafeLoader):
    """YAML in which a key stands once; the plain loader silently keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        for name in names:
            if names.count(name) > 1:
                raise yaml.YAMLError(f"the key {name!r} stands twice")
        return super().construct_mapping(node, deep)


def parse_overrides(words: Sequence[str]) -> dict[str, Any]:
    """`["model.k=24"]` -> `{"model": {"k": 24}}`."""
    changes: dict[str, Any] = {}
    for word in words:
        path, equals, text = word.partition("=")
        section, dot, key = path.partition(".")
        if not (equals and dot and section and key):
            raise InputError(f"expected section.key=value such as model.k=24, got {word!r}")
        if path not in keys():
            raise InputError(f"unknown setting {path!r}; {suggest(path, keys())}")
        if _is_text(section, key):
            if not text:
                raise InputError(f"{path} is empty; give it a value, or null")
            value = None if text == "null" else text  # as it is: a path may hold # or look like a date
        else:
            try:
                value = yaml.safe_load(text)
            except yaml.YAMLError:
                raise InputError(f"{path}: cannot read the value {text!r}") from None
        changes = merged(changes, {section: {key: value}})
    return changes


def _is_text(section: str, key: str) -> bool:
    return getattr(Settings(), section).__class__.model_fields[key].annotation in (str, str | None)


def keys() -> list[str]:
    """Every setting's full name."""
    return [f"{section}.{key}" for section, record in Settings() for key in type(record).model_fields]


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, section by section."""
    sections = [*base, *(name for name in changes if name not in base)]
    return {name: {**base.get(name, {}), **changes.get(name, {})} for name in sections}


def on_data(values: dict[str, Any], where: dict[str, Any]) -> dict[str, Any]:
    """`values` of a preset with `where` for its data: the name and the path that it had are not the other set's."""
    options = {key: value for key, value in values.get("data", {}).items() if key not in ("name", "path")}
    return values | {"data": options | where}


def _sentence(detail: ErrorDetails) -> str:
    name = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"unknown setting {name!r}; {suggest(name, keys() if '.' in name else Settings.model_fields)}"
    if not name:  # a combination; its message is written above
        return detail["msg"].removeprefix("Value error, ")
    wanted = detail["msg"].removeprefix("Input ").removeprefix("Value error, ")
    wanted = wanted.removesuffix(", unable to parse string as an integer")
    return f"{name} {wanted}, got {detail['input']!r}"
