"""`diskoop factors`: find, rename, score, tabulate and map factors of small trained runs."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from diskoop import load
from diskoop.analysis.discovery.results import DiscoveredFactor, DiscoveryResult
from diskoop.errors import InputError
from diskoop.evaluation import classifiers
from diskoop.numerics import Factor
from diskoop.workflows import factors
from diskoop.workflows.factors import score_text
from tests.helpers.cli import answer, diskoop


@pytest.fixture
def copied_run(series_run: Path, tmp_path: Path) -> Path:
    """A copy of the run on oscillators, called `run`, that a test may write to."""
    shutil.copytree(series_run, tmp_path / "run")
    return tmp_path / "run"


def test_factors_are_found_drawn_and_listed(video_run: Path, tmp_path: Path) -> None:
    shutil.copytree(video_run, tmp_path / "run")
    words = ("factors", "run", "--table", "all.csv", "--split", "val")
    refused = diskoop(*words, cwd=tmp_path)  # four steps teach it nothing
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "it has not learnt these clips; train longer" in refused.stderr
    assert "--anyway looks for factors all the same" in refused.stderr
    assert not (tmp_path / "run" / "factors.json").exists()
    assert not (tmp_path / "all.csv").exists()
    result = diskoop(*words, "--anyway", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("on 256 validation clips of puppets the model explains")
    assert result.stdout.index("verdict: poor: ") < result.stdout.index("label-free, in puppets, 128 sequences")
    for name in ("factors", "spectrum", "gap"):
        assert f"wrote run/{name}.png" in result.stdout
        assert np.asarray(Image.open(tmp_path / "run" / f"{name}.png").convert("L")).std() > 5
    table = (tmp_path / "all.csv").read_text().splitlines()
    names = load(tmp_path / "run").require_factors().names
    assert all(f"distance.{name}" in table[0] for name in names)
    assert len(table) == 901
    renamed = answer("factors", "run", "--rename", f"{names[0]}=looks", cwd=tmp_path)
    assert renamed["method"] == "label-free"
    assert renamed["factors"][0]["name"] == "looks"
    reserved = diskoop("factors", "run", "--rename", "looks=static", cwd=tmp_path)
    assert reserved.returncode == 2
    assert "a factor's name begins with a letter" in reserved.stderr


@pytest.mark.slow
def test_new_factors_keep_the_previous_ones_in_a_file(copied_run: Path, tmp_path: Path) -> None:
    before = (copied_run / "factors.json").read_bytes()
    facts = answer("factors", "run", "--method", "guided", "--labels", "level,mark", cwd=tmp_path)
    assert "run/factors-before.json" in facts["files"]
    assert (copied_run / "factors-before.json").read_bytes() == before
    assert (copied_run / "factors.json").read_bytes() != before
    assert "factors-before" not in str(answer("factors", "run", cwd=tmp_path)["files"])  # read, not found again
    again = answer("factors", "run", "--refit", cwd=tmp_path)
    assert (again["method"], "run/factors-before.json" in again["files"]) == ("label-free", True)


@pytest.mark.slow
def test_the_papers_search_finds_modes_for_a_label(copied_run: Path, tmp_path: Path) -> None:
    facts = answer("factors", "run", "--method", "modes", "--labels", "level", "--exhaustive", "--alone", cwd=tmp_path)
    assert facts["factors"][0]["name"] == "level"
    assert facts["source"] == "oscillators, 256 sequences"
    assert "classifier" in facts["notes"][-1]


def test_factors_named_like_labels_need_no_matching(copied_run: Path, tmp_path: Path) -> None:
    run = load(copied_run)
    first, *others = [factor.name for factor in run.require_factors().without_remainder]
    run.rename_factors({first: "fade"})
    facts = answer("factors", "run", "--score", cwd=tmp_path)
    matched = facts["matched"]
    assert matched["fade"] == ["fade"]
    if others:
        assert list(matched) == ["level", "mark", "slow", "fast", "fade"]
    assert len(facts["matrix"]) == len(matched)
    assert "100.0%" in facts["classifier"]


def test_fractions_kept_are_reported_with_the_score(copied_run: Path, tmp_path: Path) -> None:
    facts = answer("factors", "run", "--score", cwd=tmp_path)
    alone = facts["single"]
    for scores in (facts, alone):
        kept = np.array(scores["kept_matrix"], float)  # null is NaN
        others = ~np.eye(len(kept), dtype=bool)
        assert np.isnan(np.diag(kept)).all()
        assert scores["kept"] == pytest.approx(kept[others].mean())
        assert 0 <= scores["kept"] <= 1
    assert alone["matched"] == {label: names[:1] for label, names in facts["matched"].items()}
    assert "run/matrix.png" in facts["files"]
    result = diskoop("factors", "run", "--score", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "the swapped label, and how often each label still shows its own value" in result.stdout
    assert f"score {facts['score']:.3f}, kept {facts['kept']:.3f}, floor {facts['floor']:.3f}" in result.stdout
    assert f"with one factor a label: score {alone['score']:.3f}, kept {alone['kept']:.3f}" in result.stdout


def test_a_remainder_stays_one_under_another_name(copied_run: Path, tmp_path: Path) -> None:
    run = load(copied_run)
    first, *others = run.require_factors().factors
    remainder = replace(first.rename("rest"), kind="remainder")
    run = run.save_factors(replace(run.require_factors(), factors=(remainder, first, *others)))
    run.rename_factors({"rest": "level"})
    facts: dict[str, Any] = answer("factors", "run", "--score", cwd=tmp_path)
    assert facts["factors"][0]["kind"] == "remainder"
    assert "level" not in facts["matched"]["level"]
    answer("swap", "run", "--pair", "0:1", "--out", "o", cwd=tmp_path)
    with np.load(tmp_path / "o" / "swap.npz") as arrays:
        captions = " ".join(arrays["captions"])
    assert f"with {first.name} of" in captions
    assert "with level of" not in captions
    named = diskoop("swap", "run", "level", "--out", "p", cwd=tmp_path)
    assert named.returncode == 0, named.stderr


@pytest.mark.slow
def test_weak_factors_are_folded_away(copied_run: Path, tmp_path: Path) -> None:
    run = load(copied_run)
    first = run.require_factors().factors[0]
    weak = [replace(first.rename(name), strength=0.004) for name in ("faint", "fainter")]
    run.save_factors(
        replace(run.require_factors(), factors=(replace(first, strength=0.5), *weak), notes=("odd", "odd"))
    )
    folded, everything = (diskoop("factors", "run", *words, cwd=tmp_path).stdout for words in ((), ("--all",)))
    assert "and 2 weaker factors below 1%: faint, fainter; see --all" in folded
    assert "0.4%" not in folded
    assert folded.count("note: odd") == 1
    assert everything.count("0.4%") == 2
    assert "weaker" not in everything
    sizes = []
    for words in ((), ("--all",)):
        facts = answer("factors", "run", *words, cwd=tmp_path)
        assert facts["weak"] == ["faint", "fainter"]
        assert len(facts["factors"]) == 3  # the JSON has all
        with Image.open(tmp_path / "run" / "factors.png") as picture:
            sizes.append(picture.size[1])
    assert sizes[0] < sizes[1]
    shown = facts["picture"]
    assert shown["source"]["name"].startswith("oscillators ")
    assert [len(shown["donors"]), sorted(shown["source"])] == [5, ["clip", "labels", "name"]]
    # Where all are weak, all are shown.
    run.save_factors(replace(run.require_factors(), factors=tuple(weak)))
    assert "weaker" not in diskoop("factors", "run", cwd=tmp_path).stdout


def test_a_note_is_printed_once(sound_run: Path, tmp_path: Path) -> None:
    """Clips are loaded for the picture and for the table; the next command says it again."""
    shutil.copytree(sound_run, tmp_path / "run")
    whole = DiscoveredFactor(Factor("whole", torch.eye(6, dtype=torch.float64)), 6, 1.0)
    load(tmp_path / "run").save_factors(DiscoveryResult((whole,), "by hand", "tones"))
    for _ in range(2):
        result = diskoop("factors", "run", "--table", "clips.csv", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert result.stderr.count("has fewer than two test clips") == 1


def test_unknown_scores_are_left_out_of_the_text() -> None:
    assert score_text(0.8714, 0.99, 0.578) == "score 0.871, kept 0.990, floor 0.578"
    assert score_text(0.8714, float("nan"), 0.578) == "score 0.871, floor 0.578"
    assert score_text(0.8714, None) == "score 0.871"


def test_a_map_of_clips_is_scored(copied_run: Path, tmp_path: Path) -> None:
    words = ("factors", "run", "--embed", "static", "--color", "level,mark", "--fix", "slow,fast")
    facts = answer(*words, cwd=tmp_path)
    assert facts["clusters"]["combinations"] == 12
    assert "run/embedding.png" in facts["files"]
    wrong = diskoop(*words[:4], "--color", "levle,mark", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "unknown label 'levle'" in wrong.stderr


@pytest.mark.slow
def test_factors_that_are_there_are_listed_below_a_poor_verdict(video_run: Path, tmp_path: Path) -> None:
    """Whoever asked for them anyway need not say so again."""
    shutil.copytree(video_run, tmp_path / "run")
    run = load(tmp_path / "run")
    run.save_factors(run.find_factors())
    listed = diskoop("factors", "run", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "verdict: poor: " in listed.stdout
    before = (tmp_path / "run" / "factors.json").read_bytes()
    again = diskoop("factors", "run", "--refit", cwd=tmp_path)
    assert again.returncode == 2
    assert (tmp_path / "run" / "factors.json").read_bytes() == before


def test_without_a_good_classifier_there_are_factors_and_no_score(
    copied_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classifiers, "MIN_SKILL", 1.01)
    facts = answer("factors", "run", "--score", cwd=tmp_path)
    assert "too poor to score anything: level: its accuracy is 100.0%" in facts["no_score"]
    assert not {"score", "matrix", "kept"} & facts.keys()
    assert "run/matrix.png" not in facts["files"]
    assert facts["verdict"]["has_learnt"]
    said = diskoop("factors", "run", "--score", cwd=tmp_path)
    assert "no score: the classifier is too poor" in said.stdout
    searched = diskoop("factors", "run", "--method", "modes", cwd=tmp_path)
    assert searched.returncode == 2
    assert "too poor to score anything" in searched.stderr


def test_no_modes_are_searched_for_a_label_that_cannot_be_told(
    series_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load(series_run)
    known = factors.load_classifier(run)
    poor = replace(known, accuracy={**known.accuracy, "mark": 0.4})
    monkeypatch.setattr(factors, "load_or_train_classifier", lambda *words: poor)
    with pytest.raises(InputError, match=r"factors cannot be searched for mark: its accuracy is 40\.0%"):
        factors.find_factors(run, factors.DiscoveryConfig("modes", {"labels": ("mark",)}))


def test_where_nothing_varies_that_is_said_and_no_factors_are_found(tmp_path: Path) -> None:
    np.save(tmp_path / "flat.npy", np.full((40, 12, 3), 3.5, np.float32))
    brief = ("model.k=4", "model.h=6", "spectrum.static=2", "train.steps=2")
    trained = diskoop("train", "data.path=flat.npy", *brief, "--out", "run", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    told = "nothing varies: every frame of 4 validation clips of flat.npy is the same"
    assert trained.stdout.splitlines()[-1].startswith(f"verdict: poor: {told}")
    assert "% of the variance" not in trained.stdout
    for words in ((), ("--anyway",)):
        refused = diskoop("factors", "run", *words, cwd=tmp_path)
        assert refused.returncode == 2
        assert f"there are no factors to find: {told}" in refused.stderr
        assert "--anyway" not in refused.stderr


def test_too_few_clips_for_factors_are_told_what_to_do(tmp_path: Path) -> None:
    series = np.random.Generator(np.random.PCG64(0)).normal(size=(9, 12, 3))  # no static direction agrees in these
    np.save(tmp_path / "few.npy", series)
    brief = ("model.k=4", "model.h=6", "spectrum.static=2", "train.steps=2")
    assert diskoop("train", "data.path=few.npy", *brief, "--out", "run", cwd=tmp_path).returncode == 0
    refused = diskoop("factors", "run", "--anyway", cwd=tmp_path)
    assert refused.returncode == 2
    assert "finding factors needs at least 16 sequences (8 for each of the 2 static directions" in refused.stderr
    assert "got 7 of few.npy; give more clips, or" in refused.stderr
    assert "the 0 static" not in refused.stderr
