"""The faces as a set: every take in one split, as the art draws it."""

from pathlib import Path

import numpy as np
import pytest

from diskoop import load_data
from diskoop.data.sets import face_art
from diskoop.errors import InputError


@pytest.fixture(params=["blank", pytest.param("drawn", marks=pytest.mark.long)])  # all faces take a minute
def drawn(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether pictures are drawn; blank ones have a cache of their own."""
    if request.param == "blank":
        monkeypatch.setenv("DISKOOP_CACHE", str(tmp_path))
        monkeypatch.setattr(face_art, "draw", lambda size, out, advance: None)
    return bool(request.param == "drawn")


def test_the_set_is_the_art_split_by_take(drawn: bool) -> None:
    clips = load_data("faces", "all", size=32)
    assert clips.shape == (52 * 6 * 11, 15, 3, 32, 32)
    assert [clips.split_size(split) for split in ("train", "val", "test")] == [2317, 257, 858]
    assert list(clips.labels) == ["subject", "expression"]
    assert np.bincount(clips.labels["subject"]).tolist() == [66] * 52
    assert len(set(clips.split("test").labels["subject"].tolist())) == 52
    by_subject = load_data("faces", "all", size=32, group="subject")
    who = [set(by_subject.split(split).labels["subject"].tolist()) for split in ("train", "val", "test")]
    assert [len(part) for part in who] == [35, 4, 13]
    assert len(set.union(*who)) == 52
    for index in (0, 700, 3431) if drawn else ():
        subject, expression = (int(clips.labels[name][index]) for name in ("subject", "expression"))
        assert np.array_equal(clips.read([index])[0], face_art.draw_clip(subject, expression, index % 11, 32))
    with pytest.raises(InputError, match=r"data\.group = hair, but the labels are subject, expression"):
        load_data("faces", size=32, group="hair")


def test_other_sizes_are_named() -> None:
    with pytest.raises(InputError, match=r"faces are drawn at 32 or 64 pixels, got data\.size = 128"):
        load_data("faces", size=128)
