"""The voices as a set: speakers apart, sound behind every spectrogram, and speakers that can be told apart."""

from collections.abc import Iterator

import numpy as np
import pytest

from diskoop import Sequences, load_data
from diskoop.data.formats import audio
from diskoop.data.sets import voice_synthesis as synthesis
from diskoop.data.sets.timit import PHONES
from diskoop.workflows.describe import describe_data


@pytest.fixture(scope="module", params=[1, pytest.param(synthesis.SENTENCES, marks=pytest.mark.slow)])
def sentences(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """How many each speaker reads; a smaller set has a cache of its own."""
    count = int(request.param)
    with pytest.MonkeyPatch.context() as patch:
        if count != synthesis.SENTENCES:
            patch.setenv("DISKOOP_CACHE", str(tmp_path_factory.mktemp("voices")))
            patch.setattr(synthesis, "SENTENCES", count)
            patch.setattr(synthesis, "UTTERANCES", count * synthesis.SPEAKERS)
        yield count


@pytest.fixture(scope="module")
def voices(sentences: int, cache: object) -> Sequences:
    return load_data("voices", "all")


def test_the_whole_set_has_eight_sentences_of_each_speaker() -> None:
    assert (synthesis.SPEAKERS, synthesis.SENTENCES, synthesis.UTTERANCES) == (84, 8, 672)


def test_a_disjoint_test_of_24_speakers(voices: Sequences, sentences: int) -> None:
    counts = [54 * sentences, 6 * sentences, 24 * sentences]
    assert [voices.split_size(split) for split in ("train", "val", "test")] == counts
    assert load_data("voices", "all", val_fraction=0).split_size("train") == 60 * sentences
    who = [set(voices.split(split).labels["speaker"].tolist()) for split in ("train", "val", "test")]
    assert [len(part) for part in who] == [54, 6, 24]
    assert len(set.union(*who)) == 84
    assert voices.shape[2] == audio.BINS
    assert voices.mask is not None


def test_there_is_sound_behind_it(voices: Sequences) -> None:
    assert voices.load_audio is not None
    for index in (0, len(voices) - 1):
        original = voices.load_audio(voices.clip_name(index))
        logs = voices.read([index])[0]
        assert np.allclose(logs, audio.spectrogram(original), atol=1e-5)
        assert np.abs(audio.spectrogram_to_audio(logs, original) - original).max() < 1e-3


def test_every_frame_has_its_phone(voices: Sequences, sentences: int) -> None:
    assert voices.values["phone"] == PHONES
    assert voices.frame_labels["phone"].shape == (len(voices.frames),)
    test, last = voices.split("test"), len(voices) - 1
    for clips, index, number in ((voices, 0, 0), (voices, last, last), (test, 9, len(voices) - len(test) + 9)):
        segments = synthesis.segments(number)
        (codes,) = clips.frame_label("phone", [index])
        spoken = [phone for start, end, phone in segments for _ in range(start, end)]  # of each sample
        for at, code in enumerate(codes[:-1]):
            phone = spoken[160 * at]
            same = {"ao": "aa", "ax": "ah", "zh": "sh", "pau": "sil", "h#": "sil"}
            assert PHONES[code] == ("sil" if phone.endswith("cl") else same.get(phone, phone))
    final = voices.frame_labels["phone"][voices.starts + voices.lengths - 1]
    assert set(np.unique(final)) <= {-1, PHONES.index("sil")}  # -1 where it is centred past the last sample
    assert (voices.frame_labels["phone"] < 0).sum() < 0.02 * len(voices)
    spoken_codes = set(np.unique(voices.frame_labels["phone"]).tolist())
    assert spoken_codes | {-1} == {-1, *range(39)} - {PHONES.index("dx")}  # there are no flaps
    assert -1 in spoken_codes or sentences < 8


def test_vowels_are_loud_where_frames_are_labelled_so(voices: Sequences) -> None:
    loudness = voices.frames.mean(1)
    vowels, silence = (voices.frame_labels["phone"] == PHONES.index(phone) for phone in ("ae", "sil"))
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
        (whole,) = voices.frame_label("phone", [pieces.clips[index]])
        assert np.array_equal(pieces.frame_label("phone", [index])[0], whole[begin : begin + 50])


def test_a_frame_label_is_no_label(voices: Sequences) -> None:
    assert set(describe_data(voices)["labels"]) == {"speaker", "sex"}
    assert voices.label_text(0) == "speaker f00, sex f"
