"""The four examples run, in their quick form."""

import wave
from pathlib import Path

import numpy as np
import pytest
from examples import own_model, series, sound, video
from PIL import Image

from diskoop.models.autoencoder import NETWORKS
from tests.helpers.media import tone, write_sound


@pytest.mark.slow
def test_video(tmp_path: Path) -> None:
    picture = video.main(tmp_path, quick=True)
    assert np.asarray(Image.open(picture).convert("L")).std() > 10


def test_sound(tmp_path: Path) -> None:
    for speaker, pitch in (("a", 200.0), ("b", 320.0), ("c", 440.0)):
        for number in range(8):
            write_sound(tmp_path / "in" / speaker / f"{number}.wav", tone(0.5, pitch + 5 * number))
    files = sound.main(tmp_path, quick=True, source=str(tmp_path / "in"))
    assert [file.name for file in files] == ["original-0.wav", "original-1.wav", "swapped-0.wav", "swapped-1.wav"]
    for file in files:
        with wave.open(str(file)) as stream:
            assert stream.getnframes() > 0.3 * stream.getframerate()


def test_series(tmp_path: Path) -> None:
    accuracy, error = series.main(tmp_path, quick=True)
    assert accuracy > 0.5  # chance is a third
    assert error < 2


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    before = dict(NETWORKS)
    try:
        assert np.isfinite(own_model.main(tmp_path, quick=True))
    finally:
        NETWORKS.clear()
        NETWORKS.update(before)
