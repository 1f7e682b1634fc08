"""Plans are checked before anything is trained; a grid has every point once."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from diskoop.errors import InputError
from diskoop.search.plan import FIGURES, SearchPlan, plans
from diskoop.settings import Settings

SPACE = {
    "model.k": [8, 12],
    "loss.eig": {"low": 0.5, "high": 1.5, "step": 0.5},
    "model.decoder_memory": ["lstm", "none"],
}


def test_a_grid_has_every_point_once_in_an_order_of_the_seed() -> None:
    plan = SearchPlan.of({"space": SPACE, "sampler": "grid"})
    points = [plan.grid_point(index) for index in range(plan.num_trials)]
    assert plan.num_trials == 12
    assert len({tuple(point.values()) for point in points}) == 12
    assert {point["loss.eig"] for point in points} == {0.5, 1.0, 1.5}
    other = SearchPlan.of({"space": SPACE, "sampler": "grid", "seed": 1})
    assert [other.grid_point(index) for index in range(12)] != points
    assert SearchPlan.of({"space": SPACE, "sampler": "grid", "trials": 5}).num_trials == 5


def test_the_objective_is_a_weighted_mean_with_a_floor() -> None:
    plan = SearchPlan.of({"space": SPACE, "trials": 1, "objective": {"explained": 3, "kept": 1, "steady": 0}})
    assert plan.figures == ["explained", "kept"]
    assert plan.judge({"explained": 0.8, "kept": -50.0}) == pytest.approx((3 * 0.8 - 1) / 4)
    assert SearchPlan.of({"space": SPACE, "trials": 1, "objective": "explained"}).judge({"explained": 0.25}) == 0.25
    assert not plan.takes_labels
    assert SearchPlan.of({"space": SPACE, "trials": 1, "objective": ["score"]}).takes_labels


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"space": {"model.kk": [8]}}, "unknown setting 'model.kk'; did you mean 'model.k'?"),
        ({"space": {"model.k": [8, "many"]}}, "model.k should be a whole number, got 'many'"),
        ({"space": {"model.k": 8}}, "space.model.k should be a list of values, or low and high, got 8"),
        ({"space": {"model.k": [8, 8]}}, r"should be a list of different values, got \[8, 8\]"),
        ({"space": {"model.k": {"low": 4, "hihg": 8}}}, "unknown name 'space.model.k.hihg' in the plan; did you mean"),
        ({"space": {"model.k": {"low": 9, "high": 4}}}, "low = 9 should be below high = 4"),
        ({"space": {"model.k": {"low": "x", "high": 4}}}, "space.model.k.low should be a number, got 'x'"),
        ({"space": {"loss.eig": {"low": 0, "high": 4, "log": True}}}, "log: true takes low above 0 and no step, got 0"),
        (
            {"space": {"model.k": {"low": 8, "high": 12.0}}},
            r"whole number, got 10.47\d*, which lies between low = 8 and",
        ),
        ({"space": {"model.k": {"low": 8, "high": 12.0, "step": 0.5}}}, "whole number, got 8.5, which lies between"),
        (
            {"space": {"data.size": {"low": 32, "high": 128, "step": 32}}},
            "data.size.* got 96, which lies between low = 32",
        ),
        (
            {"space": {"loss.eig": {"low": 0, "high": 1e308, "step": 5e-324}}},
            "step = 5e-324 makes more than 10000000 steps from 0 to 1e.308",
        ),
        ({"space": {"loss.eig": {"low": -1.7e308, "high": 1.7e308}}}, "low = -1.7e.308 is too far from high"),
        (
            {"space": {"loss.eig": {"low": 0, "high": 10**400}}},
            r"should be a number of at most 2\*\*53, as whole numbers",
        ),
        ({"space": {"loss.eig": [1, 10**400]}}, "loss.eig should be a number, got 1000"),
        (
            {"space": {"loss.eig": {"low": 0.0, "high": 1, "step": 0.3}}},
            "step = 0.3 does not lead from 0.0 to high = 1 but to 0.9",
        ),
        (
            {"space": {"model.k": {"low": 4, "high": 9, "step": 2}}},
            "step = 2 does not lead from 4 to high = 9 but to 8",
        ),
        ({"space": {}}, "space is empty"),
        ({"space": {"train.seed": [1, 2]}}, "luckiest seed"),
        ({"spcae": SPACE}, "unknown name 'spcae' in the plan; did you mean 'space'?"),
        ({"objective": "explaind"}, "objective: names 'explaind'; did you mean 'explained'?"),
        ({"objective": {"kept": 0}}, "should weigh one figure at least"),
        ({"objective": [["explained"]]}, r"objective should name figures, got \[\['explained'\]\]"),
        ({"objective": [{}]}, r"objective should name figures, got \[{}\]"),
        ({"heartbeat": 0.5}, "heartbeat should be greater than or equal to 1, got 0.5"),
        ({"heartbeat": 1e308}, "heartbeat should be less than or equal to 86400, got 1e.308"),
        ({"sampler": "tep"}, "sampler should be 'tpe', 'random' or 'grid', got 'tep'"),
        ({"trials": None}, "trials is missing: sampler tpe has no end of its own"),
        ({"settings": {"modle": {"k": 3}}}, "unknown setting 'modle.k'; did you mean 'model.k'?"),
        ({"base": "seris"}, "no settings file and no preset 'seris'; did you mean 'series'?"),
        ({"base": "x" * 5000}, "cannot read settings from .*File name too long"),
        ({"settings": {"modle": {}}}, "unknown setting 'modle'; did you mean 'model'?"),
        ({"settings": {"model": {"k": 3}}}, "model.k stands in settings and in space; keep one of them"),
        (
            {"sampler": "grid", "space": {"loss.eig": {"low": 0.1, "high": 1}}},
            "a grid needs a step or a list of values",
        ),
        (
            {"sampler": "grid", "space": {"loss.eig": list(range(4000)), "loss.rec": list(range(4000))}},
            "10000000 at most",
        ),
        (
            {"sampler": "grid", "space": {"train.steps": {"low": 1, "high": 2**31 - 1}}},
            "the grid has 2147483647 points, wanted 10000000 at most",
        ),
        (
            {"sampler": "grid", "space": {"loss.eig": {"low": 0.0, "high": 1e308, "step": 1e-300}}},
            "makes more than 10000000 steps",
        ),
    ],
)
def test_a_mistake_is_named(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        SearchPlan.of({"space": SPACE, "trials": 3} | changes)


def test_steps_are_counted_as_they_are_written() -> None:
    """A tenth is no binary fraction: added up, three of them miss 0.3."""
    space = {
        "loss.eig": {"low": 0.1, "high": 0.7, "step": 0.1},
        "loss.rec": {"low": 1e-13, "high": 3e-13, "step": 1e-13},
    }
    plan = SearchPlan.of({"space": space, "sampler": "grid"})
    points = [plan.grid_point(index) for index in range(plan.num_trials)]
    assert {point["loss.eig"] for point in points} == {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}
    assert {point["loss.rec"] for point in points} == {1e-13, 2e-13, 3e-13}
    mixed = {"loss.eig": {"low": 0, "high": 0.4, "step": 0.1}, "loss.rec": {"low": 1, "high": 2.5}}
    assert SearchPlan.of({"space": mixed, "trials": 1}).num_trials == 1  # ends of both kinds, of any number


@pytest.mark.parametrize("values", [None, [1], "tpe"])
def test_what_is_no_plan(values: object) -> None:
    with pytest.raises(InputError, match="a plan should map names"):
        SearchPlan.of(values)


def test_a_missing_plan_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no search plan 'oscilators'; did you mean 'oscillators'\?"):
        SearchPlan.load("oscilators")
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(InputError, match="space is missing in the plan"):
        SearchPlan.load(tmp_path / "empty.yaml")


@pytest.mark.parametrize("name", plans())
def test_a_shipped_plan_says_what_its_trials_are(name: str) -> None:
    plan = SearchPlan.load(name)
    point = {key: values[0] if isinstance(values, list) else values.low for key, values in plan.space.items()}
    settings = plan.trial_settings(point)
    assert settings.data.val_fraction > 0
    assert settings.model.k == point["model.k"]
    assert SearchPlan.of({**plan.model_dump()}) == plan


def test_the_papers_grid() -> None:
    sprites, timit = SearchPlan.load("paper-sprites"), SearchPlan.load("paper-timit")
    assert (sprites.sampler, sprites.num_trials, timit.num_trials) == ("grid", 27_000, 5400)
    weights = [1, 3, 5, 10, 15, 20]
    assert sprites.space["loss.rec"] == sprites.space["loss.pred"] == sprites.space["loss.eig"] == weights
    assert (sprites.space["spectrum.radius"], timit.space["spectrum.radius"]) == ([0.4, 0.5, 0.55, 0.6, 0.65], [0])
    for plan in (sprites, timit):
        for name, low, high in (("model.k", 40, 200), ("spectrum.static", 4, 20)):
            values = plan.space[name]
            assert isinstance(values, list)
            assert (min(values), max(values)) == (low, high)


def test_a_base_may_lie_beside_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Settings.load("demo").replaced({"model": {"h": 77}}).save(tmp_path / "base.yaml")
    (tmp_path / "search.yaml").write_text("base: base.yaml\nspace: {model.k: [24, 28]}\ntrials: 2\n")
    monkeypatch.chdir("/")
    assert SearchPlan.load(tmp_path / "search.yaml").trial_settings({"model.k": 24}).model.h == 77


def test_a_base_is_read_once_and_checked(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("model: {k: 24, h: 77}\ntrain: {epochs: 3}\n")
    path = tmp_path / "search.yaml"
    path.write_text("base: base.yaml\nsettings: {train: {steps: 5}}\nspace: {model.k: [24, 28]}\ntrials: 2\n")
    plan = SearchPlan.load(path)
    (tmp_path / "base.yaml").write_text("model: {k: 24, h: 55}\n")
    settings = plan.trial_settings({"model.k": 28})
    assert (settings.model.k, settings.model.h, settings.train.steps, settings.train.epochs) == (28, 77, 5, None)
    assert SearchPlan.of(yaml.safe_load(plan.to_yaml())) == plan
    assert plan.identity() != SearchPlan.load(path).identity()
    for text, sentence in (
        ("model: {kk: 3}", r"base 'base.yaml': unknown setting 'model.kk'; did you mean 'model.k'\?"),
        ("modle: {}", "base 'base.yaml': unknown setting 'modle'; did you mean 'model'"),
        ("model: {h: wide}", "base 'base.yaml': model.h should be a whole number, got 'wide'"),
    ):
        (tmp_path / "base.yaml").write_text(text)
        with pytest.raises(InputError, match=sentence):
            SearchPlan.load(path)


def test_the_same_search_on_another_machine() -> None:
    one, two = (
        SearchPlan.of(
            {"space": SPACE, "trials": count, "settings": {"data": {"path": path}, "train": {"device": device}}}
        )
        for count, path, device in ((3, "a", "cpu"), (9, "/b", "cuda"))
    )
    assert one.identity() == two.identity()
    assert one.identity() != SearchPlan.of({"space": SPACE, "trials": 3, "settings": {"train": {"lr": 0.1}}}).identity()


def test_every_figure_is_described() -> None:
    assert set(SearchPlan.of({"space": SPACE, "trials": 1}).figures) < set(FIGURES)
