"""The voices as a set: speakers apart, sound behind every spectrogram, and speakers that can be told apart."""

import numpy as np
import pytest

from diskoop import Sequences, load_data
from diskoop.data import sound
from diskoop.data.builtin import voice_synthesis as synthesis
from diskoop.data.timit import PHONES
from diskoop.interfaces.describe import describe_data


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


def test_every_frame_has_its_phone(voices: Sequences) -> None:
    assert voices.values["phone"] == PHONES
    assert voices.tracks["phone"].shape == (len(voices.frames),)
    test = voices.part("test")
    for clips, index, number in ((voices, 0, 0), (voices, 671, 671), (test, 9, 480 + 9)):
        segments = synthesis.segments(number)
        (codes,) = clips.track("phone", [index])
        spoken = [phone for start, end, phone in segments for _ in range(start, end)]  # of each sample
        for at, code in enumerate(codes[:-1]):
            phone = spoken[160 * at]
            same = {"ao": "aa", "ax": "ah", "zh": "sh", "pau": "sil", "h#": "sil"}
            assert PHONES[code] == ("sil" if phone.endswith("cl") else same.get(phone, phone))
    last = voices.tracks["phone"][voices.starts + voices.lengths - 1]
    assert set(np.unique(last)) <= {-1, PHONES.index("sil")}  # -1 where it is centred past the last sample
    assert (voices.tracks["phone"] < 0).sum() < 0.02 * len(voices)
    assert set(np.unique(voices.tracks["phone"])) == {-1, *range(39)} - {PHONES.index("dx")}  # nobody flaps here


def test_vowels_are_loud_where_the_track_has_them(voices: Sequences) -> None:
    loudness = voices.frames.mean(1)
    vowels, silence = (voices.tracks["phone"] == PHONES.index(phone) for phone in ("ae", "sil"))
    for shift in (-10, 10):
        apart = [loudness[np.roll(vowels, by)].mean() - loudness[np.roll(silence, by)].mean() for by in (0, shift)]
        assert apart[0] > 3
        assert apart[1] < apart[0] - 2


def test_windows_keep_their_phones(voices: Sequences) -> None:
    pieces = load_data("voices", "all", window=50, stride=30)
    assert pieces.clips is not None
    assert pieces.offsets is not None
    for index in range(0, len(pieces), 97):
        begin = pieces.offsets[index]
        (whole,) = voices.track("phone", [pieces.clips[index]])
        assert np.array_equal(pieces.track("phone", [index])[0], whole[begin : begin + 50])


def test_a_track_is_no_label(voices: Sequences) -> None:
    assert set(describe_data(voices)["labels"]) == {"speaker", "sex"}
    assert voices.label_text(0) == "speaker f00, sex f"
