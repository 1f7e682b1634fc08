"""The kind of a user's files decides the preset."""

import wave
from pathlib import Path

import numpy as np

from diskoop.data.presets import preset_for
from diskoop.settings import DataSettings, Settings


def test_each_kind_has_its_preset(tmp_path: Path) -> None:
    np.save(tmp_path / "video.npy", np.zeros((6, 4, 3, 32, 32), np.uint8))
    np.save(tmp_path / "series.npy", np.random.default_rng(0).normal(size=(6, 20, 3)))
    (tmp_path / "sound").mkdir()
    for number in range(4):
        with wave.open(str(tmp_path / "sound" / f"{number}.wav"), "wb") as file:
            file.setparams((1, 2, 16000, 0, "NONE", "not compressed"))
            noise = np.random.default_rng(number).normal(size=8000) * 3000
            file.writeframes(noise.astype("<i2").tobytes())
    for source, preset in (("video.npy", "video"), ("series.npy", "series"), ("sound", "sound")):
        assert preset_for(DataSettings(path=str(tmp_path / source))) == preset
        settings = Settings.load(preset)
        assert settings.model.pca_skip
        assert settings.train.steps
        assert settings.train.patience
