"""Recordings and spectrograms: torch agrees, sound comes back, every format is read, every fault is named."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from diskoop import load_data
from diskoop.data.formats import audio
from diskoop.errors import InputError
from tests.helpers.media import tone, write_sound

RANDOM = np.random.Generator(np.random.PCG64(5))
SPEECH = (np.cumsum(RANDOM.normal(size=12_345)) * 0.002 + 0.05 * RANDOM.normal(size=12_345)).astype(np.float32)


def test_the_spectrogram_is_torchs() -> None:
    reference = torch.stft(
        torch.from_numpy(SPEECH).double(),
        n_fft=400,
        hop_length=160,
        window=torch.hann_window(400, dtype=torch.float64),
        center=True,
        return_complex=True,
    )
    logs = audio.spectrogram(SPEECH)
    assert logs.shape == (1 + len(SPEECH) // 160, 201)
    assert logs.dtype == np.float32
    assert np.allclose(logs, (reference.abs() + 1e-6).log().T.numpy(), atol=1e-5)


def test_a_tone_is_a_line_at_its_frequency() -> None:
    logs = audio.spectrogram(tone(0.5, pitch=1000))
    assert (logs[3:-3].argmax(1) == 1000 / 40).all()


def test_a_frame_is_of_the_segment_that_holds_its_centre() -> None:
    exact = audio.frame_codes([(0, 160, 5), (160, 161, 6), (161, 480, 7)], 5)
    assert exact.tolist() == [5, 6, 7, -1, -1]  # centred on 0, 160, 320, 480, 640
    assert exact.dtype == np.int64
    assert audio.frame_codes([(0, 161, 1), (161, 321, 2)], 3).tolist() == [1, 1, 2]
    assert audio.frame_codes([(1, 160, 1), (321, 480, 2)], 4).tolist() == [-1] * 4  # between two centres
    assert audio.frame_codes([(200, 600, 1)], 5).tolist() == [-1, -1, 1, 1, -1]  # nobody said what lies around it
    assert audio.frame_codes([(0, 400, 1), (300, 10**6, 2)], 4).tolist() == [1, 1, 2, 2]  # past the end
    assert audio.frame_codes([(320, 320, 1)], 4).tolist() == [-1] * 4
    assert audio.frame_codes([], 2).tolist() == [-1, -1]


@given(some.lists(some.tuples(some.integers(0, 2000), some.integers(0, 700)), max_size=6), some.integers(0, 15))
def test_codes_of_frames_are_those_of_samples(spans: list[tuple[int, int]], count: int) -> None:
    samples = np.full(15 * 160, -1)
    segments = [(begin, begin + size, code) for code, (begin, size) in enumerate(spans)]
    for begin, end, code in segments:
        samples[begin:end] = code
    assert np.array_equal(audio.frame_codes(segments, count), samples[::160][:count])


def test_codes_lie_on_the_frames_that_hear_their_segment() -> None:
    burst = tone(0.8, 1000)
    burst[:3120] = burst[7920:] = 0  # each half a hop from the nearest centres
    power = np.exp(2 * audio.spectrogram(burst)).sum(1)
    codes = audio.frame_codes([(3120, 7920, 0)], len(power))
    assert power[codes == 0].min() > 3 * power[codes != 0].max()


@settings(max_examples=20, deadline=None)
@given(some.integers(560, 4000), some.integers(0, 1000))
def test_with_its_own_phase_sound_comes_back(samples: int, seed: int) -> None:
    original = np.random.Generator(np.random.PCG64(seed)).uniform(-0.5, 0.5, samples).astype(np.float32)
    back = audio.spectrogram_to_audio(audio.spectrogram(original), original)
    assert back.shape == original.shape
    assert np.abs(back - original).max() < 2e-4


def test_a_window_of_a_recording_has_the_phase_of_its_place() -> None:
    logs = audio.spectrogram(SPEECH)
    middle = audio.spectrogram_to_audio(logs[20:50], SPEECH, begin=20)
    assert len(middle) == 29 * 160
    inner = slice(400, -400)  # at its ends a window has lost the neighbours that overlap
    assert np.abs(middle[inner] - SPEECH[20 * 160 : 20 * 160 + len(middle)][inner]).max() < 1e-3
    end = audio.spectrogram_to_audio(logs[60:], SPEECH, begin=60)
    assert len(end) == len(SPEECH) - 60 * 160
    with pytest.raises(InputError, match="expected a recording of 88 frames at least, got 78"):
        audio.spectrogram_to_audio(logs, SPEECH, begin=10)


def test_without_a_phase_one_is_found_that_fits() -> None:
    original = tone(0.6)
    logs = audio.spectrogram(original)
    magnitude, again = np.exp(logs), np.exp(audio.spectrogram(audio.spectrogram_to_audio(logs))[: len(logs)])
    random = np.exp(audio.spectrogram(audio.spectrogram_to_audio(logs, iterations=0))[: len(logs)])

    def error(found: np.ndarray) -> float:
        return float(np.linalg.norm(found - magnitude) / np.linalg.norm(magnitude))

    assert error(again) < 0.08
    assert error(random) > 4 * error(again)


def test_a_wav_file_is_what_it_should_be(tmp_path: Path) -> None:
    path = audio.write_wav(tmp_path / "out.wav", SPEECH)
    with wave.open(str(path)) as stream:
        assert (stream.getnchannels(), stream.getsampwidth(), stream.getframerate()) == (1, 2, 16_000)
        assert stream.getnframes() == len(SPEECH)
    assert np.abs(audio.load_audio(path) - SPEECH).max() < 1e-4
    loud = audio.load_audio(audio.write_wav(tmp_path / "loud.wav", 3 * SPEECH / np.abs(SPEECH).max()))
    assert np.abs(loud).max() == pytest.approx(1, abs=1e-3)
    assert np.corrcoef(loud, SPEECH)[0, 1] > 0.9999  # turned down, not clipped


@pytest.mark.parametrize(
    ("name", "options", "tolerance"),
    [
        ("a.wav", {"subtype": "PCM_16"}, 1e-4),
        ("a.WAV", {"subtype": "PCM_24", "format": "WAV"}, 1e-6),
        ("a.wav", {"subtype": "FLOAT"}, 1e-7),
        ("a.flac", {}, 1e-4),
        ("a.ogg", {}, 0.1),
        ("a.mp3", {}, 0.1),
        ("a.sph", {"format": "NIST", "subtype": "PCM_16"}, 1e-4),
        ("big.wav", {"format": "NIST", "subtype": "PCM_16", "endian": "BIG"}, 1e-4),
    ],
)
def test_every_format_is_read(name: str, options: dict[str, Any], tolerance: float, tmp_path: Path) -> None:
    original = tone(0.5)
    found = audio.load_audio(write_sound(tmp_path / name, original, **options))
    assert found.dtype == np.float32
    assert len(found) == pytest.approx(len(original), abs=1200)
    assert np.abs(found[2000:6000] - original[2000:6000]).max() < tolerance


def test_other_rates_and_channels_become_one_at_16_khz(tmp_path: Path) -> None:
    for rate in (8000, 22_050, 44_100, 48_000):
        original = tone(0.5, 500, rate)
        found = audio.load_audio(write_sound(tmp_path / f"{rate}.wav", np.stack([original, 0 * original], 1), rate))
        assert len(found) == pytest.approx(8000, abs=2)
        assert np.abs(2 * found[800:-800] - tone(0.5, 500)[800:7200][: len(found) - 1600]).max() < 0.01


def test_faults_are_named(tmp_path: Path) -> None:
    def refused(name: str, sentence: str) -> None:
        with pytest.raises(InputError, match=sentence) as error:
            load_data(tmp_path / name)
        assert name in str(error.value)

    (tmp_path / "text.wav").write_text("this is no sound")
    refused("text.wav", "is no recording: it begins with b'this is '")
    write_sound(tmp_path / "short.wav", tone(0.02))
    refused("short.wav", r"lasts 0\.020 s: dynamics need 0\.035 s at least")
    write_sound(tmp_path / "nan.wav", np.full(9000, np.nan, np.float32), subtype="FLOAT")
    refused("nan.wav", "holds NaN or infinity")
    whole = write_sound(tmp_path / "cut.flac", RANDOM.uniform(-1, 1, 40_000).astype(np.float32)).read_bytes()
    (tmp_path / "cut.flac").write_bytes(whole[: len(whole) // 2])
    refused("cut.flac", r"cut\.flac (is cut off: it ends after \d+ of 40000 samples|is damaged)")
    for name in ("a.wav", "a.aiff", "a.ogg", "a.sph"):
        options: dict[str, Any] = {"format": "NIST", "subtype": "PCM_16"} if name == "a.sph" else {}
        whole = write_sound(tmp_path / name, RANDOM.uniform(-1, 1, 40_000).astype(np.float32), **options).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        refused(name, "is cut off")
    header = b"NIST_1A\n   1024\nsample_coding -s26 pcm,embedded-shorten-v2.00\nend_head\n".ljust(1024)
    (tmp_path / "packed.sph").write_bytes(header + bytes(3000))
    refused("packed.sph", "compressed with shorten; unpack it with sph2pipe")
    (tmp_path / "empty.mp3").write_bytes(b"")
    refused("empty.mp3", "is no recording: it begins with b''")


def test_a_missing_reader_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    path = write_sound(tmp_path / "a.wav", tone(0.3))
    monkeypatch.setitem(sys.modules, "soundfile", None)
    with pytest.raises(InputError, match=r"needs soundfile and soxr: pip install 'diskoop\[audio\]'"):
        audio.load_audio(path)


def test_a_piece_of_the_transform_is_that_of_the_whole() -> None:
    whole = audio._transform(SPEECH, 0, 10**6)
    for begin in range(0, 77, 11):
        assert np.allclose(audio._transform(SPEECH, begin, begin + 11), whole[begin : begin + 11], atol=1e-12)


def test_a_long_recording_is_read_in_pieces_and_cut_into_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audio, "BLOCK_FRAMES", 100)
    long = RANDOM.uniform(-0.5, 0.5, 16_000 * 12).astype(np.float32)
    soundfile.write(tmp_path / "long.wav", long, 16_000, subtype="FLOAT")
    clips = load_data(tmp_path / "long.wav", "all", stride=300)
    assert set(clips.lengths.tolist()) <= {400, *range(2, 400)}
    (whole,) = clips.stitch(clips.x).values()
    assert np.allclose(whole, audio.spectrogram(long), atol=1e-4)
    assert clips.load_audio is not None
    assert np.allclose(clips.load_audio(clips.clip_name(0)), long)


def test_a_header_that_declares_years_is_not_believed(tmp_path: Path) -> None:
    """68 billion samples would take 256 GiB; what there is decides."""
    file = write_sound(tmp_path / "a.flac", tone(0.5))
    content = bytearray(file.read_bytes())
    content[21] |= 0x0F
    content[22:26] = b"\xff" * 4
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"is damaged or no recording|is cut off") as caught:
        audio.load_audio(file)
    assert "allocate" not in str(caught.value)


def test_a_rate_of_one_sample_a_second_is_no_sound(tmp_path: Path) -> None:
    file = write_sound(tmp_path / "a.wav", tone(0.5), rate=1)
    with pytest.raises(InputError, match="has 1 samples a second, wanted 1000 at least"):
        audio.load_audio(file)


def test_a_recording_of_several_blocks_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_sound(tmp_path / "a.flac", tone(0.5))
    whole = audio.load_audio(file)
    monkeypatch.setattr(audio, "BLOCK_SAMPLES", 999)
    assert np.array_equal(audio.load_audio(file), whole)
