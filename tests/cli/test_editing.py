"""`diskoop swap` says what it takes together."""

import json
import shutil
from pathlib import Path

import numpy as np

from diskoop import Sequences, load
from diskoop.data import Units
from diskoop.workflows.clips import parse_pairs, random_indices
from tests.helpers.cli import answer, diskoop


def test_factors_named_together_are_taken_together(series_run: Path, tmp_path: Path) -> None:
    words = ("swap", str(series_run), "static", "dynamic", "--pair", "0:9", "--out", "both")
    assert "taken all at once: static, dynamic (--gradual static,dynamic takes" in diskoop(*words, cwd=tmp_path).stdout
    alone = diskoop("swap", str(series_run), "static", "--pair", "0:9", "--out", "one", cwd=tmp_path)
    assert "at once" not in alone.stdout
    assert "all taken at once" in " ".join(diskoop("swap", "--help", cwd=tmp_path).stdout.replace("│", " ").split())


def test_an_earlier_name_of_a_factor_is_told_the_new_one(series_run: Path, tmp_path: Path) -> None:
    shutil.copytree(series_run, tmp_path / "run")
    old = load(tmp_path / "run").require_factors().names[0]
    answer("factors", "run", "--rename", f"{old}=mine", "--anyway", cwd=tmp_path)
    again = diskoop("swap", "run", old, "--pair", "0:9", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (2, f"diskoop: unknown factor {old!r}; it is now called 'mine'\n")


def test_drawn_pairs_differ_in_what_is_swapped(series_run: Path, tmp_path: Path) -> None:
    random = np.random.Generator(np.random.PCG64(0))
    labels = {name: random.integers(0, count, 60) for name, count in (("hair", 2), ("skin", 3), ("top", 4))}
    clips = Sequences.of(random.normal(size=(60, 5, 2)), labels, units=Units())
    for seed in range(20):
        for factors, wanted in (["hair"], ["hair"]), (["hair", "skin-2"], ["hair", "skin"]), ([], list(labels)):
            pairs = parse_pairs(clips, [], 2, seed, factors)
            assert len({member for pair in pairs for member in pair}) == 4
            assert all(labels[name][a] != labels[name][b] for name in wanted for a, b in pairs)
    plain = Sequences.of(random.normal(size=(60, 5, 2)), units=Units())
    drawn = random_indices(60, 4, 3).tolist()
    assert parse_pairs(plain, [], 2, 3) == [(drawn[0], drawn[1]), (drawn[2], drawn[3])]
    same = Sequences.of(random.normal(size=(3, 5, 2)), {"hair": np.zeros(3, int)}, units=Units())
    assert len(parse_pairs(same, [], 2, 0, ["hair"])) == 1  # nothing differs: any pair
    shown = json.loads(diskoop("swap", str(series_run), "--json", "--out", "out", cwd=tmp_path).stdout.splitlines()[-1])
    values = [[clip["labels"] for clip in pair] for pair in zip(shown["clips"][::2], shown["clips"][1::2], strict=True)]
    assert values
    assert all(a != b for a, b in values)
