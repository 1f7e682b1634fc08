"""The voices as a set: speakers apart, sound behind every spectrogram, and speakers that can be told apart."""

import numpy as np
import pytest

from diskoop import Sequences, load_data
from diskoop.data import sound


@pytest.fixture(scope="module")
def voices(cache: object) -> Sequences:
    return load_data("voices", "all")


def test_a_disjoint_test_of_24_speakers_by_8(voices: Sequences) -> None:
    assert [voices.count(split) for split in ("train", "val", "test")] == [432, 48, 192]
    assert load_data("voices", "all", holdout=0).count("train") == 480
    who = [set(voices.part(split).labels["speaker"].tolist()) for split in ("train", "val", "test")]
    assert [len(part) for part in who] == [54, 6, 24]
    assert len(set.union(*who)) == 84
    assert voices.shape[2] == sound.BINS
    assert voices.mask is not None


def test_there_is_sound_behind_it(voices: Sequences) -> None:
    assert voices.listen is not None
    for index in (0, 671):
        original = voices.listen(voices.clip_name(index))
        logs = voices.take([index])[0]
        assert np.allclose(logs, sound.spectrogram(original), atol=1e-5)
        assert np.abs(sound.sound_of(logs, original) - original).max() < 1e-3
