"""Names of new files and runs."""

from pathlib import Path

import pytest

from diskoop.cli.options import require_option
from diskoop.errors import InputError
from diskoop.storage import unused_path


def test_new_runs_get_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "puppets-1").mkdir(parents=True)
    assert unused_path(Path("runs"), "puppets") == Path("runs/puppets-2")
    assert unused_path(Path(), "puppets", ".png") == Path("puppets-1.png")
    (tmp_path / "puppets-1.wav").touch()
    assert unused_path(Path(), "puppets", ".png", ".wav") == Path("puppets-2.png")


def test_an_option_without_effect_is_rejected() -> None:
    require_option(False, "--table", {"--frames": False, "--data": None})
    require_option(True, "--table", {"--frames": True})
    with pytest.raises(InputError, match="--frames means nothing without --table"):
        require_option(False, "--table", {"--data": None, "--frames": True})
