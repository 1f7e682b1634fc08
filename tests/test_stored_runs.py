"""Runs that earlier versions wrote are read, used and gone on with.

`stored_runs/format1` and `stored_runs/format1-unfinished` were written before settings had a format number.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from diskoop.errors import InputError
from diskoop.run import load
from diskoop.settings import FORMAT, RENAMED, Settings, keys, parse_overrides, read_yaml, upgraded
from diskoop.training import loop
from tests.helpers.cli import answer
from tests.helpers.training import Quiet

STORED = Path(__file__).parent / "stored_runs"


def test_a_finished_run_keeps_its_settings_under_new_names() -> None:
    old = yaml.safe_load((STORED / "format1" / "settings.yaml").read_text())
    run = load(STORED / "format1")
    new = run.settings.model_dump()
    assert "format" not in old
    for name in keys():
        section, key = name.split(".")
        before = next((o.split(".")[1] for o, n in RENAMED.items() if n == name), key)
        if before in old[section] and name != "model.decoder_memory":
            assert new[section][key] == old[section][before]
    assert (old["model"]["decoder_memory"], new["model"]["decoder_memory"]) == ("started", "lstm_init")
    assert (run.settings.train.batch_size, run.settings.data.val_fraction) == (32, 0.05)


def test_a_finished_run_is_used_like_any_other(tmp_path: Path) -> None:
    shutil.copytree(STORED / "format1", tmp_path / "run")
    run = load(tmp_path / "run")
    assert run.require_factors().method == "label-free"
    parts = run.decompose(run.data("test").select([0, 1]))
    assert np.allclose(parts.swap("static", [1, 0]).decode()[0] - parts.decode()[0], 0, atol=10)
    facts = answer("swap", "run", run.require_factors().names[0], "--pair", "0:1", "--out", "new", cwd=tmp_path)
    assert len(facts["files"]) == 2


def test_an_unfinished_run_goes_on(tmp_path: Path) -> None:
    shutil.copytree(STORED / "format1-unfinished", tmp_path / "run")
    loop.resume(tmp_path / "run", reporter=Quiet())
    run = load(tmp_path / "run")
    assert run.summary()["last_epoch"]["step"] == 6


def test_a_settings_file_has_a_format_number(tmp_path: Path) -> None:
    Settings().save(tmp_path / "settings.yaml")
    assert yaml.safe_load((tmp_path / "settings.yaml").read_text())["format"] == FORMAT
    assert Settings.load(tmp_path / "settings.yaml") == Settings()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"format: {FORMAT + 1}", f"has format {FORMAT + 1}; this version reads formats 1 to {FORMAT}"),
        ("format: true", "has format True; this version reads formats 1 to"),
        ("train: {batch: 3, batch_size: 4}", "is called train.batch_size now, and both are given; keep one"),
    ],
)
def test_bad_formats_are_named(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_yaml(tmp_path / "a.yaml")


def test_the_table_of_old_names_leads_to_settings_there_are() -> None:
    assert set(RENAMED.values()) <= set(keys())
    assert not set(RENAMED) & set(keys())
    new = {"train": {"batch_size": 3}}
    assert upgraded(new) == new


def test_an_old_name_on_the_command_line_is_told_its_new_one() -> None:
    with pytest.raises(InputError, match=r"unknown setting 'train.batch'; it is called 'train.batch_size' now"):
        parse_overrides(["train.batch=3"])
