"""Speaker verification and the phone probe on known codes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from diskoop.data.sequences import Sequences
from diskoop.errors import InputError
from diskoop.evaluation.metrics import Summary
from diskoop.evaluation.protocols import speech
from diskoop.evaluation.protocols.speech import (
    find_speaker_label,
    measure_phones,
    measure_speakers,
    verification_error,
    whole_recordings,
)
from diskoop.evaluation.registry import EvalConfig, EvalContext
from diskoop.evaluation.results import Key, Values
from diskoop.run import Run
from tests.helpers.known_models import DOUBLE, plain_run
from tests.helpers.media import tone, write_sound

Array = NDArray[Any]
CONFIG = EvalConfig(repeats=1)
# Two codes of each of two people, as angles in degrees. In the first a voice is nearer to itself. In the second both
# pairs of one voice, 80 and 90 apart, come after three pairs of two voices and before the fourth: 3/4 are let in.
APART, CROSSED = (0, 10, 90, 100), (0, 80, 5, 95)
WHO = np.array([0, 0, 1, 1])


def random(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def directions(degrees: tuple[int, ...]) -> Array:
    angles = np.deg2rad(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], 1)


def voices(who: Array = WHO, **more: Any) -> Sequences:
    return Sequences.of(np.zeros((len(who), 8, 2)), {"speaker": who}, units=DOUBLE, **more)


def error_rate(codes: Array, clips: Sequences, label: str, config: EvalConfig) -> Summary:
    return verification_error(codes, EvalContext(clips, clips, config=config, speaker_label=label))


def speakers(run: Run, clips: Sequences, label: str, config: EvalConfig) -> Values:
    return measure_speakers(run, EvalContext(clips, clips, config=config, speaker_label=label)).values


def phones(run: Run, train: Sequences, clips: Sequences, config: EvalConfig) -> tuple[Values, str]:
    values, (note,) = measure_phones(run, EvalContext(train, clips, config=config))
    return values, note


# --- speakers


@pytest.mark.parametrize(("degrees", "rate"), [(APART, 0), (CROSSED, 3 / 4)])
def test_known_codes_have_the_known_rate(degrees: tuple[int, ...], rate: float) -> None:
    found = error_rate(3 * directions(degrees), voices(), "speaker", CONFIG)
    assert found.mean == pytest.approx(rate)
    assert (found.std, found.count) == (None, 1)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.mean <= found.high


def test_an_intervals_seed_is_the_plans() -> None:
    codes, who = random(3).normal(size=(30, 2)), np.arange(30) % 6
    one, again, other = (error_rate(codes, voices(who), "speaker", EvalConfig(seed=seed)) for seed in (0, 0, 1))
    assert one == again
    assert one.mean == other.mean
    assert (one.low, one.high) != (other.low, other.high)


def test_each_part_has_its_own_rate_with_either_operator() -> None:
    """Two coordinates that stay tell voices apart, two that fade do not; the frozen operator has it backwards."""
    start = np.concatenate([directions(APART), directions(CROSSED)], 1)  # (4, 4)
    fade = 0.8 ** np.arange(12)[:, None] * [0, 0, 1, 1] + [1, 1, 0, 0]
    clips = Sequences.of(start[:, None] * fade, {"speaker": WHO}, units=DOUBLE)
    run = plain_run(np.diag([0.8, 0.8, 1.0, 1.0]), 2)
    values = speakers(run, clips, "speaker", CONFIG)
    wanted = {"batch": (0, 3 / 4, 3 / 4), "frozen": (3 / 4, 0, -3 / 4)}
    assert set(values) == {Key("eer", part, name) for name in wanted for part in ("static", "dynamic", "gap")}
    for name, rates in wanted.items():
        assert [values[Key("eer", part, name)].mean for part in ("static", "dynamic", "gap")] == pytest.approx(rates)


def test_pieces_of_a_recording_are_one_code_by_their_lengths() -> None:
    lengths = np.array([6, 8, 8, 2, 8, 8])
    owner = np.array([7, 2, 3, 7, 9, 2])  # two recordings came in two pieces
    codes = np.array([[1.0, 0.0], [2, 2], [0, 1], [0, 4], [5, 5], [4, 0]])
    clips = voices(np.array([1, 0, 0, 1, 1, 0]), lengths=lengths, clips=owner)
    whole, who = speech._by_recording(codes, clips, "speaker")
    assert np.allclose(whole, np.array([[3, 1], [0, 1], [0.75, 1], [5, 5]]))  # 2, 3, 7 and 9
    assert who.tolist() == [0, 0, 1, 1]
    once = error_rate(whole, voices(who), "speaker", CONFIG)
    assert error_rate(codes, clips, "speaker", CONFIG) == once


def test_who_speaks_is_the_label_that_was_named_or_is_called_so() -> None:
    clips = Sequences.of(
        np.zeros((4, 8, 2)), {"word": WHO, "folder": WHO, "speaker": WHO}, units=DOUBLE, name="some words"
    )
    assert find_speaker_label(clips, None) == "speaker"
    assert find_speaker_label(clips, "word") == "word"
    with pytest.raises(InputError, match="unknown label 'speakr'; did you mean 'speaker'"):
        find_speaker_label(clips, "speakr")
    nobody = replace(clips, labels={"word": WHO})
    with pytest.raises(InputError, match="some words does not say who speaks: expected a label speaker, got word"):
        find_speaker_label(nobody, None)
    with pytest.raises(InputError, match="got none"):
        find_speaker_label(replace(clips, labels={}), None)


def test_a_voice_is_classified_by_all_that_it_said(tmp_path: Path) -> None:
    for number in range(10):
        write_sound(tmp_path / f"{number}.wav", tone(0.4 + 0.02 * number, 200.0 + 40 * number))
    data = {"path": str(tmp_path), "window": 10, "stride": 5}
    run = plain_run(np.eye(2), 1, data=data)
    whole = whole_recordings(run)
    assert len(whole) == 10
    assert whole.lengths.tolist() == [41 + 2 * number for number in range(10)]
    windows = run.data("all")
    assert len(windows) > 40
    assert set(windows.lengths) == {10}


# --- phones

SAID = 3  # phones


def spoken(count: int, seed: int, order: tuple[int, ...] = (0, 1, 2), **more: Any) -> Sequences:
    """Two coordinates that stay for each recording, and in each frame one of three others that says its phone."""
    draw = random(seed)
    lengths = draw.integers(20, 31, count)
    phone = draw.integers(SAID, size=(count, 30))
    voice = np.broadcast_to(draw.normal(size=(count, 1, 2)), (count, 30, 2))
    x = np.concatenate([voice, np.eye(SAID)[phone] + 0.05 * draw.normal(size=(count, 30, SAID))], 2)
    x[np.arange(30) >= lengths[:, None]] = 99.0
    track = np.array(order)[phone].reshape(-1)
    return Sequences.of(x, lengths=lengths, units=DOUBLE, frame_labels={"phone": track}, **more)


def test_phones_are_read_from_the_part_that_holds_them() -> None:
    run = plain_run(np.diag([1, 1, 0.5, 0.5, 0.5]), 2)
    values, note = phones(run, spoken(60, 0), spoken(60, 1), CONFIG)
    assert values[Key("phones", "dynamic")].mean == 1
    assert values[Key("phones", "spectrum")].mean == 1
    assert values[Key("phones", "static")].mean == pytest.approx(1 / 3, abs=0.05)
    assert values[Key("phones", "chance")].mean == pytest.approx(1 / 3)
    assert note == "the phone probe reads 3 phones from single frames, learnt from 60 training recordings"
    swapped = plain_run(np.diag([0.5, 0.5, 1, 1, 1]), 3)
    values, _ = phones(swapped, spoken(60, 0), spoken(60, 1), CONFIG)
    assert values[Key("phones", "static")].mean == 1
    assert values[Key("phones", "dynamic")].mean == pytest.approx(1 / 3, abs=0.05)


def test_phones_are_learnt_from_training_speakers_alone() -> None:
    """Where those who test call every phone by another's name, none is read rightly."""
    run = plain_run(np.diag([1, 1, 0.5, 0.5, 0.5]), 2)
    values, _ = phones(run, spoken(40, 0), spoken(40, 1, (1, 2, 0)), CONFIG)
    assert values[Key("phones", "dynamic")].mean == 0
    assert values[Key("phones", "spectrum")].mean == 0


def test_frames_of_no_phone_and_phones_nobody_taught_are_not_asked_for() -> None:
    run = plain_run(np.diag([1, 1, 0.5, 0.5, 0.5]), 2)
    values, note = phones(run, spoken(40, 0, (0, -1, 2)), spoken(40, 1, (0, 7, -1)), CONFIG)
    assert "reads 2 phones" in note
    assert values[Key("phones", "chance")].mean == 0.5
    assert values[Key("phones", "dynamic")].mean == 1


def test_frames_are_laid_end_to_end_without_padding() -> None:
    clips = spoken(5, 0)
    wanted = np.concatenate([x[:length] for x, length in zip(clips.x, clips.lengths, strict=True)])
    assert np.array_equal(speech._scaled_frames(clips), wanted)
    dynamic = speech._part_frames(plain_run(np.diag([1, 1, 0.5, 0.5, 0.5]), 2), "dynamic")(clips)
    assert np.allclose(dynamic, wanted * [0, 0, 1, 1, 1])


def test_a_few_recordings_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "PHONE_CLIPS", 12)
    run = plain_run(np.diag([1, 1, 0.5, 0.5, 0.5]), 2)
    values, note = phones(run, spoken(40, 0), spoken(40, 1), CONFIG)
    assert values[Key("phones", "dynamic")].mean == 1
    assert "learnt from 12 training recordings" in note


KINDS = 4


def unwritten(count: int, seed: int, loud: float = 0.0) -> Sequences:
    """Each recording has each of four spectra ten times, coloured by its speaker, who alone decides the first bin."""
    draw = random(seed)
    spectra = 3 * random(9).normal(size=(KINDS, 16))
    spectra[:, 0] = 0
    kinds = np.stack([draw.permutation(np.repeat(np.arange(KINDS), 10)) for _ in range(count)])
    colour = 4 * draw.normal(size=(count, 1, 16))
    x = spectra[kinds] + colour + loud * np.arange(40)[:, None]
    noise = 0.1 * draw.normal(size=x.shape)
    noise[..., 0] = 0
    return Sequences.of(x + noise, units=DOUBLE)


def test_where_nobody_wrote_down_phones_kinds_of_sound_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "SOUND_CLUSTERS", KINDS)
    run = plain_run(np.diag([1.0, *[0.5] * 15]), 1)
    train, clips = unwritten(60, 0), unwritten(60, 1)
    values, note = phones(run, train, clips, CONFIG)
    assert "reads 4 kinds of sound (clusters of cepstra; there are no phones)" in note
    assert values[Key("phones", "chance")].mean == 1 / KINDS
    assert values[Key("phones", "static")].mean == pytest.approx(1 / KINDS, abs=0.02)  # constant in each recording
    assert values[Key("phones", "dynamic")].mean > 0.6  # the speaker's colour is still in it
    assert phones(run, train, clips, CONFIG)[0] == values
    truths = [speech._cluster_sounds(train, clips, EvalConfig(seed=seed)) for seed in (0, 0, 1)]
    assert all(np.array_equal(one, other) for one, other in zip(truths[0], truths[1], strict=True))
    assert not np.array_equal(truths[0][0], truths[2][0])


def test_too_few_frames_have_no_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    few, enough = unwritten(1, 0).select([0]), unwritten(2, 1)
    monkeypatch.setattr(speech, "SOUND_CLUSTERS", 41)
    with pytest.raises(InputError, match="40 frames are too few to tell 41 kinds of sound apart"):
        speech._cluster_sounds(few, enough, CONFIG)
    monkeypatch.setattr(speech, "SOUND_CLUSTERS", 40)
    first, second = speech._cluster_sounds(few, enough, CONFIG)
    assert (len(first), len(second)) == (40, 80)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_coefficients_that_never_change_are_not_divided_by_their_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """In silence no coefficient has any; where all frames have one shape, only its own has."""
    monkeypatch.setattr(speech, "SOUND_CLUSTERS", KINDS)
    kinds = np.stack([random(seed).permutation(np.repeat(np.arange(KINDS), 5)) for seed in range(8)])
    shape = np.cos(np.pi / 16 * (np.arange(16) + 0.5))
    silence, tones = (Sequences.of(loud * kinds[..., None] * shape, units=DOUBLE) for loud in (0.0, 1.0))
    with np.errstate(divide="raise", invalid="raise"):
        for found in speech._cluster_sounds(silence, silence, CONFIG):
            assert len(np.unique(found)) == 1
        for found in speech._cluster_sounds(tones, tones, CONFIG):
            assert len(set(zip(found.tolist(), kinds.reshape(-1).tolist(), strict=True))) == KINDS


def test_kinds_of_sound_are_the_same_whoever_speaks_and_however_loud(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters are found in training recordings; they put together what was made alike in all others."""
    monkeypatch.setattr(speech, "SOUND_CLUSTERS", KINDS)
    for loud in (0.0, 5.0):
        train, clips = unwritten(30, 0, loud), unwritten(30, 1, loud)
        first, second = speech._cluster_sounds(train, clips, CONFIG)
        for found, seed in ((first, 0), (second, 1)):
            draw = random(seed)
            kinds = np.concatenate([draw.permutation(np.repeat(np.arange(KINDS), 10)) for _ in range(30)])
            pairs = set(zip(found.tolist(), kinds.tolist(), strict=True))
            assert len(pairs) == KINDS
