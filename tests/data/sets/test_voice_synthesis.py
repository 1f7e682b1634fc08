"""What was asked of the voices is measured in their sound."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from diskoop.data.sets import voice_synthesis as voices
from diskoop.data.sets.voice_synthesis import RATE, Note, Segment, Speaker, Utterance

Array = NDArray[np.float64]
SOME = tuple(range(0, voices.UTTERANCES, 29))  # of women and men, for training and testing


@pytest.fixture(scope="module")
def utterances() -> list[Utterance]:
    return [voices.utterance(number) for number in SOME]


def spoken(utterance: Utterance, phones: set[str], shortest: int = 800) -> list[Array]:
    """The middle three fifths of such segments, at least `shortest` samples long."""
    fifths = [((end - start) // 5, start, end, phone) for start, end, phone in utterance.segments]
    pieces = [utterance.sound[start + fifth : end - fifth] for fifth, start, end, phone in fifths if phone in phones]
    return [piece.astype(float) for piece in pieces if len(piece) >= shortest]


def long_vowel(phone: str, voice: Speaker) -> Array:
    """Half a second of it."""
    segments = [Segment(0, 1600, "h#"), Segment(1600, 11200, phone), Segment(11200, 12800, "h#")]
    sound = voices.pronounce(segments, [Note(6400, 0, 0)], voice, np.random.default_rng(0))
    return sound[3000:9800]


def plain(**changes: float) -> Speaker:
    """A deep voice without habits of its own, so that the table's formants are the sound's."""
    voice = voices.speaker(1)
    own = np.ones_like(voice.habits)
    still = replace(voice, pitch=85, open_quotient=0.6, softness=3000, breath=-60, nasality=0, damping=1, habits=own)
    return replace(still, **changes)  # type: ignore[arg-type]


def periodicity(sound: Array) -> tuple[float, float]:
    """The frequency from 70 to 330 hertz at which a sound is most like itself, and how much it is."""
    lags = np.arange(RATE // 330, RATE // 70)
    size = len(sound) - lags[-1]
    alike = [np.corrcoef(sound[:size], sound[lag : lag + size])[0, 1] for lag in lags]
    # a sound is also like itself after two periods: the first peak that is nearly the highest counts
    best = next(i for i, value in enumerate(alike) if value > 0.92 * max(alike) and value >= max(alike[i : i + 12]))
    return RATE / lags[best], float(alike[best])


def formants(sound: Array, order: int = 20) -> Array:
    """Narrow resonances of linear prediction, lowest first."""
    sharper = np.diff(sound) * np.hamming(len(sound) - 1)
    correlation = np.correlate(sharper, sharper, "full")[len(sharper) - 1 :][: order + 1]
    matrix = correlation[np.abs(np.subtract.outer(np.arange(order), np.arange(order)))]
    roots = np.roots([1, *-np.linalg.solve(matrix, correlation[1:])])
    roots = roots[(roots.imag > 0) & (np.abs(roots) > 0.9)]
    return np.sort(np.angle(roots) * RATE / (2 * np.pi))


def nearest(found: Array, wanted: tuple[float, ...]) -> Array:
    return np.array([found[np.argmin(np.abs(found - frequency))] for frequency in wanted])


def spectrum(utterance: Utterance) -> Array:
    """(bins,) the mean over time of the log spectrogram."""
    frames = np.lib.stride_tricks.sliding_window_view(utterance.sound, 400)[::160] * np.hanning(401)[:-1]
    return np.asarray(np.log(np.abs(np.fft.rfft(frames)) + 1e-6).mean(0))


def equal_error_rate(scores: Array, same: NDArray[np.bool_]) -> float:
    same = same[np.argsort(-scores)]
    missed, mistaken = 1 - np.cumsum(same) / same.sum(), np.cumsum(~same) / (~same).sum()
    at = np.argmin(np.abs(missed - mistaken))
    return float(missed[at] + mistaken[at]) / 2


def test_it_says_the_same_again() -> None:
    for number in (0, 500):
        one, other = voices.utterance(number), voices.utterance(number)
        assert one.sound.tobytes() == other.sound.tobytes()
        assert one.segments == other.segments
        assert one.speaker.name == other.speaker.name


def test_sounds_are_of_a_sentences_length_and_level(utterances: list[Utterance]) -> None:
    for utterance in utterances:
        assert utterance.sound.dtype == np.float32
        assert 1.2 < len(utterance.sound) / RATE < 6
        assert np.isfinite(utterance.sound).all()
        assert 0.05 < np.abs(utterance.sound).max() < 1
    assert 2 < np.mean([len(utterance.sound) for utterance in utterances]) / RATE < 4


def test_segments_are_known_without_the_sound(utterances: list[Utterance]) -> None:
    assert [voices.segments(number) for number in SOME] == [utterance.segments for utterance in utterances]


def test_every_sample_is_in_one_segment(utterances: list[Utterance]) -> None:
    for utterance in utterances:
        segments = utterance.segments
        assert segments[0].start == 0
        assert segments[-1].end == len(utterance.sound)
        assert all(before.end == after.start for before, after in pairwise(segments))
        assert all(segment.start < segment.end and segment.phone in voices.PHONES for segment in segments)


def test_segments_are_what_the_sentence_says(utterances: list[Utterance]) -> None:
    for number, utterance in zip(SOME, utterances, strict=True):
        syllables = voices.sentence(number)
        assert [phone for syllable in syllables for phone in syllable.phones] == [s.phone for s in utterance.segments]
        assert 8 <= sum(segment.phone in voices.VOWELS for segment in utterance.segments) <= 14


def test_nobody_shares_a_sentence_and_every_phone_is_said() -> None:
    sentences = [voices.sentence(number) for number in range(voices.UTTERANCES)]
    assert len({tuple(syllable.phones for syllable in syllables) for syllables in sentences}) == voices.UTTERANCES
    assert {phone for syllables in sentences for syllable in syllables for phone in syllable.phones} == set(
        voices.PHONES
    )


def test_speakers_are_different_people_half_of_them_women() -> None:
    speakers = [voices.speaker(number) for number in range(voices.SPEAKERS)]
    train, test = speakers[: voices.TRAIN_SPEAKERS], speakers[voices.TRAIN_SPEAKERS :]
    assert (len(train), len(test)) == (60, 24)
    assert not {speaker.name for speaker in train} & {speaker.name for speaker in test}
    assert len({(speaker.pitch, speaker.tract) for speaker in speakers}) == voices.SPEAKERS
    for group in (train, test):
        women = [speaker for speaker in group if speaker.sex == "f"]
        assert len(women) == len(group) / 2
        assert all(165 <= speaker.pitch <= 255 for speaker in women)
        assert all(85 <= speaker.pitch <= 155 for speaker in group if speaker.sex == "m")


def test_a_speaker_reads_eight_sentences() -> None:
    assert {voices.utterance(number).speaker.name for number in range(8, 16)} == {"m01"}
    assert voices.utterance(16).speaker.name == "f02"


def test_vowels_have_the_speakers_pitch(utterances: list[Utterance]) -> None:
    for utterance in utterances:
        pitches = [periodicity(vowel)[0] for vowel in spoken(utterance, set(voices.VOWELS))]
        semitones = 12 * np.log2(np.median(pitches) / utterance.speaker.pitch)
        assert -1.5 < semitones < utterance.speaker.accent  # long vowels are stressed ones


@pytest.mark.parametrize("pitch", [90, 130, 190, 250])
def test_a_long_vowel_keeps_the_pitch(pitch: float) -> None:
    assert periodicity(long_vowel("ah", plain(pitch=pitch, declination=0)))[0] == pytest.approx(pitch, rel=0.03)


@pytest.mark.parametrize("phone", ["iy", "eh", "aa", "uw", "er"])
def test_a_long_vowel_has_its_formants(phone: str) -> None:
    wanted = voices.PHONES[phone].formants[:3]
    found = nearest(formants(long_vowel(phone, plain(tract=1))), wanted)
    assert found == pytest.approx(wanted, rel=0.05, abs=50)


def test_a_longer_tract_lowers_the_formants() -> None:
    short, long = (formants(long_vowel("eh", plain(tract=tract))) for tract in (0.85, 1.1))
    wanted = voices.PHONES["eh"].formants
    ratio = nearest(short, tuple(f / 0.85 for f in wanted)) / nearest(long, tuple(f / 1.1 for f in wanted))
    assert ratio == pytest.approx(1.1 / 0.85, rel=0.08)


def test_vowels_are_periodic_and_hisses_high(utterances: list[Utterance]) -> None:
    def high(sound: Array) -> float:
        power = np.abs(np.fft.rfft(sound * np.hanning(len(sound)))) ** 2
        return float(power[len(power) * 3 // 8 :].sum() / power.sum())  # above 3 kHz

    vowels = [piece for utterance in utterances for piece in spoken(utterance, set(voices.VOWELS))]
    hisses = [piece for utterance in utterances for piece in spoken(utterance, {"s", "sh", "th", "f"})]
    assert np.mean([periodicity(piece)[1] > 0.7 for piece in vowels]) > 0.9
    assert max(periodicity(piece)[1] for piece in hisses) < 0.6
    assert np.median([high(piece) for piece in vowels]) < 0.05
    assert np.quantile([high(piece) for piece in vowels], 0.95) < 0.2 < min(high(piece) for piece in hisses)
    assert np.median([high(piece) for piece in hisses]) > 0.8


def test_a_stop_is_a_gap_and_a_burst(utterances: list[Utterance]) -> None:
    steps = []
    for utterance in utterances:
        for closure, release in pairwise(utterance.segments):
            if (closure.phone, release.phone) in (("tcl", "t"), ("kcl", "k")):
                gap, burst = utterance.sound[release.start - 160 : release.start - 32], utterance.sound[release.start :]
                steps.append(10 * np.log10((burst[:128] ** 2).mean() / (gap**2).mean()))
    assert len(steps) > 20
    assert np.median(steps) > 20
    assert min(steps) > 8


def test_formants_move_smoothly(utterances: list[Utterance]) -> None:
    for utterance in utterances:
        frame_labels = voices.shapes(utterance.segments, utterance.speaker, np.random.default_rng(0))
        assert np.abs(np.diff(np.log(frame_labels.formants), axis=0)).max() < 0.2  # within 5 ms
        assert frame_labels.formants.max() < RATE / 2
        assert frame_labels.formants.min() > 150


def test_frames_add_up_to_the_sound() -> None:
    sound = np.random.default_rng(0).normal(size=4321)
    frames = voices._frames(sound, (len(sound) + voices.WINDOW) // voices.HOP)
    assert np.allclose(voices._overlap(frames, len(sound)), sound, atol=1e-12)


def test_the_recording_does_not_tell_who_speaks(utterances: list[Utterance]) -> None:
    for utterance in utterances:
        silence = 20 * np.log10(utterance.sound[:800].std())
        assert -87 < silence < -81


def test_speakers_are_told_apart_about_as_well_as_real_ones() -> None:
    """By the mean spectrum, a weak clue: 20% errors on real recordings."""
    numbers = [speaker * 8 + i for speaker in range(60, 84, 2) for i in range(4)]
    spectra = np.stack([spectrum(voices.utterance(number)) for number in numbers])
    spectra -= spectra.mean(0)
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True)
    i, j = np.triu_indices(len(numbers), 1)
    who = np.array(numbers) // voices.SENTENCES
    assert 0.1 < equal_error_rate((spectra @ spectra.T)[i, j], who[i] == who[j]) < 0.3


def test_others_are_refused() -> None:
    with pytest.raises(ValueError, match="from 0 to 671, got 672"):
        voices.utterance(672)
    with pytest.raises(ValueError, match="from 0 to 671, got -1"):
        voices.segments(-1)
    with pytest.raises(ValueError, match="from 0 to 83, got -1"):
        voices.speaker(-1)
