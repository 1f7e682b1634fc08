"""Settings come and go unchanged; every mistake is named with what was meant."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from diskoop.errors import InputError
from diskoop.settings import Settings, keys, on_data, parse_overrides, presets, read_yaml


@pytest.mark.parametrize("name", presets())
def test_presets_are_valid_and_survive_yaml(name: str, tmp_path: Path) -> None:
    settings = Settings.load(name)
    settings.save(tmp_path / "settings.yaml")
    assert Settings.load(tmp_path / "settings.yaml") == settings


def test_paper_presets_hold_the_printed_values() -> None:
    """Batch, k, h, epochs, the three weights, k_s and epsilon: the paper's hyper-parameter table."""
    printed: dict[str, tuple[float | None, ...]] = {
        "paper-sprites": (32, 40, 40, 800, 15, 1, 1, 8, 0.5),
        "paper-mug": (16, 40, 100, 1000, 20, 1, 1, 5, 0.5),
        "paper-timit": (30, 165, None, 400, 15, 3, 1, 15, 0),
    }
    for name, values in printed.items():
        s = Settings.load(name)
        ours: tuple[float | None, ...] = (
            s.train.batch_size, s.model.k, s.model.h, s.train.epochs,
            s.loss.rec, s.loss.pred, s.loss.eig, s.spectrum.static, s.spectrum.radius,
        )  # fmt: skip
        assert ours == values
        assert s.train.lr == 0.001
        assert s.loss.cycle == 0
    assert Settings.load("paper-sprites").train.blur
    assert Settings.load("paper-timit").model.noise == 0.005


def test_overrides_replace_only_what_they_name() -> None:
    changes = parse_overrides(["model.k=24", "loss.eig=3", "train.lr=1e-4", "model.h=null", "train.blur=true"])
    settings = Settings().replaced(changes)
    assert (settings.model.k, settings.loss.eig, settings.train.lr) == (24, 3.0, 1e-4)
    assert settings.model.h is None
    assert settings.train.blur is True
    assert Settings().replaced(parse_overrides(["train.precision=64"])).train.precision == "64"
    assert settings.model.width == Settings().model.width


def test_settings_cannot_be_changed_by_accident() -> None:
    with pytest.raises(ValidationError):
        setattr(Settings().model, "k", 3)  # noqa: B010 - as a plain assignment the type checker refuses it first


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("model.kk=3", r"unknown setting 'model.kk'; did you mean 'model.k'\?"),
        ("model.static=3", r"did you mean 'spectrum.static'\?"),
        ("modle.k=3", r"did you mean 'model.k'\?"),
        ("k=3", "expected section.key=value such as model.k=24, got 'k=3'"),
        ("model.k", "got 'model.k'"),
        ("model.k=abc", "model.k should be a whole number, got 'abc'"),
        ("model.k=2.5", r"model.k should be a whole number.*, got 2.5"),
        ("model.k=0", "model.k should be greater than or equal to 1, got 0"),
        ("train.lr=nan", "train.lr should be a finite number"),
        ("model.pca_skip=maybe", "model.pca_skip should be true or false, got 'maybe'$"),
        ("train.augment=maybe", "^train.augment should be true, false or auto, got 'maybe'$"),
        ("train.lr=fast", "train.lr should be a number, got 'fast'"),
        ("train.blur=perhaps", "train.blur should be true or false, got 'perhaps'"),
        ("spectrum.static=atuo", "spectrum.static should be a whole number or auto, got 'atuo'"),
        ("train.precision=16", "train.precision should be 'auto', '32', 'bf16' or '64', got '?16"),
        ("model.k=true", "model.k should be a number, got True"),
        ("train.lr=1e6", "train.lr should be less than or equal to 100"),
        ("spectrum.static=41", r"spectrum.static = 41 exceeds model.k = 40"),
        ("model.operator_scope=sequence", r"one trajectory excites one eigenvalue 1"),
        ("model.dropout=1", "model.dropout should be less than 1"),
        ("model.k=[", "model.k: cannot read the value '\\['"),
        ("model.k=" + "[" * 20_000, "model.k: cannot read the value .*nested more than 8 deep"),
        ("model.k=" + "9" * 5000, "model.k: cannot read the value .*no number that can be read"),
        ("model.k=!!int x", "model.k: cannot read the value .*the tag !!int has no place"),
        ("model.k=2001-13-45", "model.k should be a whole number, got '2001-13-45'"),
        ("model.k=&a [*a]", r"the alias \*a has no place"),
        (
            "data.strip=" + "9" * 5000,
            r"a number of frames from 2, got '9{199}\.\.\.$",
        ),
        ("data.window=1000000000000", "data.window should be less than or equal to 2147483647, got 1000000000000"),
        ("train.batch_size=1000000000000", "train.batch_size should be less than or equal to 2147483647"),
        ("x" * 5000, "expected section.key=value"),
    ],
)
def test_mistakes_are_named(word: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Settings().replaced(parse_overrides([word]))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loss": {"cycle": 1}, "spectrum": {"static": 0}}, r"0 < spectrum.static < model.k"),
        ({"model": {"dynamic_noise": 1, "k": 8}, "spectrum": {"static": 8}}, r"model.dynamic_noise = 1.* 8 of 8"),
        (
            {"loss": {"cycle": 1}, "spectrum": {"static": 1}, "model": {"operator_scope": "sequence"}},
            "model.operator_scope = batch",
        ),
        ({"loss": {"rec": 0, "pred": 0}}, "nothing would train the decoder"),
        ({"modle": {"k": 1}}, r"unknown setting 'modle'; did you mean 'model'\?"),
    ],
)
def test_impossible_combinations_are_named(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Settings().replaced(changes)


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(InputError, match=r"model.k should.*; train.epochs should"):
        Settings.of({"model": {"k": -1}, "train": {"epochs": "many"}})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model: [", "is not YAML"),
        ("- a\n- b", "should map sections"),
        ("model: 3", "should map sections"),
        ("model: {k: 3, k: 4}", "the key 'k' stands twice"),
        ("model: {k: 3}\nmodel: {h: 4}", "the key 'model' stands twice"),
        ("!!python/object/apply:os.getcwd []", "the tag !!python/object/apply:os.getcwd has no place in settings"),
        ("model: {k: !!int x}", "the tag !!int has no place"),
        ("data: {skip_bad: !!bool x}", "the tag !!bool has no place"),
        ("train: {lr: !!float x}", "the tag !!float has no place"),
        ("data: {path: !!binary aGVsbG8=}", "the tag !!binary has no place"),
        ("data: {limit: 2001-13-45}", "data.limit should be a whole number, got '2001-13-45'"),
        (f"model: {{k: {'9' * 5000}}}", r"'9{39}\.\.\. is no number that can be read"),
        (f"model: {{k: 0x{'f' * 5000}}}", r"'0xf+\.\.\. is no number that can be read"),
        ("model: {k: 0x_}", "'0x_' is no number that can be read"),
        (f"train: {{lr: 1{':1' * 40}.}}", "train.lr should be less than"),
        (f"format: {'9' * 90}", r"has format 9+; this version reads formats 1 to 2"),
        ("model: " + "[" * 20_000, "nested more than 8 deep"),
        ("model: " + "{a: " * 20_000, "nested more than 8 deep"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", r"the alias \*a has no place in settings"),
        ("model: &m {k: *m}", r"the alias \*m has no place in settings"),
        ("model: {[1, 2]: 3}", "found unhashable key"),
        ("model: {{a: b}: 3}", "found unhashable key"),
        ("model: {3: 3}", "unknown setting 'model.3'|model.3 Keys should be strings"),
        ('data: {path: "a\\0b"}\nmodel: {k: x}', "model.k should be"),
        ("\x00", "is not YAML"),
    ],
)
def test_files_that_are_no_settings_are_named(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(InputError, match=sentence):
        Settings.load(tmp_path / "bad.yaml")


def test_a_number_of_any_size_can_be_named() -> None:
    with pytest.raises(InputError, match=r"model.k .*, got a number of 16610 bits"):
        Settings.of({"model": {"k": 10**5000}})
    with pytest.raises(InputError, match=r"train.lr .*, got \["):
        Settings.of({"train": {"lr": [10**20] * 10_000}})


def test_a_path_that_looks_like_a_date_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "dated.yaml").write_text("data: {path: 2024-01-31}")
    assert Settings.load(tmp_path / "dated.yaml").data.path == "2024-01-31"


def test_many_keys_are_looked_at_once(tmp_path: Path) -> None:
    names = ", ".join(f"k{number}: 1" for number in range(3000))
    (tmp_path / "many.yaml").write_text(f"model: {{{names}, k7: 2}}")
    with pytest.raises(InputError, match="the key 'k7' stands twice"):
        Settings.load(tmp_path / "many.yaml")


def test_missing_files_suggest_a_preset(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"did you mean 'paper-sprites'\?"):
        Settings.load("paper-sprite")
    with pytest.raises(InputError, match="is a folder, wanted a file"):
        Settings.load(tmp_path)
    for name in ("a\0b", "x" * 5000):
        with pytest.raises(InputError):
            Settings.load(name)


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    for text in ("# nothing\n", "model:\n"):
        (tmp_path / "empty.yaml").write_text(text)
        assert Settings.load(tmp_path / "empty.yaml") == Settings()


def test_a_preset_on_other_data_forgets_its_own() -> None:
    preset = {"data": {"name": "sprites", "path": "sheets", "size": 64}, "model": {"k": 40}}
    assert on_data(preset, {"path": "clips"}) == {"data": {"size": 64, "path": "clips"}, "model": {"k": 40}}
    assert on_data({}, {"name": "faces"}) == {"data": {"name": "faces"}}


def test_keys_are_complete() -> None:
    assert {"data.name", "model.k", "spectrum.radius", "loss.rec", "train.seed"} <= set(keys())
    assert len(keys()) == sum(len(type(record).model_fields) for _, record in Settings())


@pytest.mark.parametrize(("k", "static"), [(40, 18), (20, 9), (None, 18)])
def test_an_automatic_count_is_a_share_of_the_eigenvalues_and_is_written_down(k: int | None, static: int) -> None:
    model = {"dynamic_noise": 0.5} | ({} if k is None else {"k": k})
    chosen = Settings.of({"spectrum": {"static": "auto"}, "model": model})
    assert chosen.spectrum.static == static
    assert "static: auto" not in chosen.to_yaml()
    for same in (20.0, "20"):  # what pydantic takes for 20 is 20
        assert Settings.of({"spectrum": {"static": "auto"}, "model": {"k": same}}).spectrum.static == 9
    with pytest.raises(InputError, match="spectrum"):
        Settings.of({"spectrum": "auto"})
    with pytest.raises(InputError, match="model"):
        Settings.of({"spectrum": {"static": "auto"}, "model": None})
    assert Settings().replaced(parse_overrides(["spectrum.static=auto", "model.k=20"])).spectrum.static == 9
    with pytest.raises(InputError, match=r"model\.k should be a whole number"):
        Settings.of({"spectrum": {"static": "auto"}, "model": {"k": "many"}})


def test_every_setting_is_documented_with_its_default() -> None:
    text = (Path(__file__).parents[1] / "docs" / "settings.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (\S+) \| \S", text, re.MULTILINE))
    assert list(rows) == keys()
    for name, shown in rows.items():
        section, key = name.split(".")
        assert yaml.safe_load(shown) == getattr(getattr(Settings(), section), key), name
    assert all(f"`{preset}`" in text for preset in presets())


def test_one_budget_replaces_the_other() -> None:
    assert Settings.of({"train": {"steps": 7}}).train.epochs is None
    demo = Settings.load("demo")
    assert demo.train.epochs is not None
    in_steps = demo.replaced({"train": {"steps": 7}})
    assert (in_steps.train.steps, in_steps.train.epochs) == (7, None)
    in_epochs = in_steps.replaced({"train": {"epochs": 3}})
    assert (in_epochs.train.steps, in_epochs.train.epochs) == (None, 3)
    assert in_epochs.replaced({"train": {"lr": 0.1}}).train.epochs == 3
    assert Settings.of(in_steps.model_dump()) == in_steps
    for budgets in ({"steps": 7, "epochs": 3}, {"epochs": None}):
        with pytest.raises(InputError, match=r"expected either train.epochs or train.steps"):
            Settings.of({"train": budgets})


@pytest.mark.parametrize("text", ["false", "0", "[]", "a word"])
def test_a_file_that_maps_nothing_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match="should map sections"):
        read_yaml(tmp_path / "mine.yaml")
    (tmp_path / "mine.yaml").write_text("# nothing\n")
    assert read_yaml(tmp_path / "mine.yaml") == {}
