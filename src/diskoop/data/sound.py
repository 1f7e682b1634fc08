"""recordings <-> log spectrograms: 16 kHz, 201 bins, 10 ms a frame"""

import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from diskoop.data.clips import Blocks, Clip, decoding
from diskoop.errors import InputError
from diskoop.storage import whole_file

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".sph", ".nist")
RATE = 16_000
WINDOW, HOP = 400, 160  # samples: 25 ms, a frame every 10 ms
BINS = WINDOW // 2 + 1
FLOOR = 1e-6  # what silence is lifted to before the logarithm
AT_ONCE = 4096  # frames transformed together
Sound = NDArray[np.float32]

_HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)


def recording_clips(root: Path, files: Sequence[Path]) -> list[Clip]:
    return [Clip(file.relative_to(root).as_posix(), lambda file=file: _blocks(file)) for file in files]  # type: ignore[misc]


def _blocks(file: Path) -> Blocks:
    sound = read_sound(file)
    if len(sound) < WINDOW + HOP:
        least = (WINDOW + HOP) / RATE
        raise InputError(f"{file} lasts {len(sound) / RATE:.3f} s: dynamics need {least:.3f} s at least")
    for begin in range(0, frame_count(len(sound)), AT_ONCE):
        yield _log_magnitude(_transform(sound, begin, begin + AT_ONCE))


def read_sound(file: Path) -> Sound:
    """A recording as one channel at 16 kHz, from -1 to 1."""
    try:
        import soundfile
        import soxr
    except ImportError:
        raise InputError(f"reading {file} takes soundfile and soxr: pip install 'diskoop[audio]'") from None
    with decoding(file, "recording"), _unpacked(file), soundfile.SoundFile(file) as opened:
        rate, promised = opened.samplerate, opened.frames
        sound = opened.read(dtype="float32", always_2d=True).mean(1)
    if len(sound) < promised:
        raise InputError(f"{file} ends after {len(sound)} of {promised} samples; copy it again")
    if not np.isfinite(sound).all():
        raise InputError(f"{file} holds NaN or infinity; mend it")
    resampled: Sound = sound if rate == RATE else soxr.resample(sound, rate, RATE).astype(np.float32)
    return resampled


@contextmanager
def _unpacked(file: Path) -> Iterator[None]:
    """A block that cannot read recordings which are packed in the way of old corpora."""
    try:
        yield
    except Exception:
        with file.open("rb") as stream:
            head = stream.read(1024)
        if head.startswith(b"NIST_1A") and b"shorten" in head:
            raise InputError(f"{file} is compressed with shorten; unpack it with sph2pipe or w_decode") from None
        raise


def frame_count(samples: int) -> int:
    return 1 + samples // HOP


def spectrogram(sound: Sound) -> NDArray[np.float32]:
    """(samples,) -> (time, bin): the logarithm of each frame's magnitudes; frame t is centred on sample 160 t."""
    return _log_magnitude(_transform(sound, 0, frame_count(len(sound))))


def sound_of(logs: NDArray[Any], original: Sound | None = None, begin: int = 0, rounds: int = 60) -> Sound:
    """Sound with the magnitudes of `logs` (time, bin).

    Its phase is that of the recording `original` from frame `begin` on, or without one a phase that fits (Griffin and
    Lim, with momentum), so that nothing but `logs` is needed.
    """
    magnitude = np.maximum(np.exp(logs.astype(np.float64)) - FLOOR, 0)
    samples = (len(logs) - 1) * HOP
    if original is not None:
        there = _transform(original, begin, begin + len(logs))
        if len(there) < len(logs):
            raise InputError(
                f"expected a recording of {begin + len(logs)} frames at least, got {frame_count(len(original))}"
            )
        reaches_end = begin + len(logs) == frame_count(len(original))
        return _inverse(magnitude * _phase(there), len(original) - begin * HOP if reaches_end else samples)
    angles = np.random.Generator(np.random.PCG64(0)).uniform(0, 2 * np.pi, magnitude.shape)
    phase, before = np.exp(1j * angles), np.zeros(magnitude.shape, complex)
    for _ in range(rounds):
        now = _transform(_inverse(magnitude * phase, samples), 0, len(logs))
        phase = _phase(now + 0.99 * (now - before))
        before = now
    return _inverse(magnitude * phase, samples)


def write_wav(path: str | Path, sound: NDArray[Any]) -> Path:
    """16-bit samples; what is louder than full scale is turned down, not cut off."""
    loudest = float(np.abs(sound).max(initial=1.0))
    samples = np.rint(sound / loudest * 32767).astype("<i2")
    with whole_file(path) as temporary, wave.open(str(temporary), "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(RATE)
        stream.writeframes(samples.tobytes())
    return Path(path)


def _transform(sound: NDArray[Any], begin: int, end: int) -> NDArray[np.complex128]:
    """Frames `begin` to `end` of the short-time Fourier transform, the ends mirrored."""
    half = WINDOW // 2
    padded = np.pad(sound.astype(np.float64), half, mode="reflect")
    frames = sliding_window_view(padded, WINDOW)[::HOP][begin:end]
    return np.fft.rfft(frames * _HANN)


def _inverse(transform: NDArray[np.complex128], samples: int) -> Sound:
    """Least squares: overlapping frames added, divided by the windows' squares."""
    frames = np.fft.irfft(transform, WINDOW) * _HANN
    half = WINDOW // 2
    total = (len(frames) - 1) * HOP + WINDOW
    out, weight = np.zeros(total), np.zeros(total)
    for t, frame in enumerate(frames):
        out[t * HOP : t * HOP + WINDOW] += frame
        weight[t * HOP : t * HOP + WINDOW] += _HANN**2
    whole: NDArray[np.float64] = (out / np.maximum(weight, 1e-8))[half : half + samples]
    return np.pad(whole, (0, samples - len(whole))).astype(np.float32)


def _phase(transform: NDArray[np.complex128]) -> NDArray[np.complex128]:
    size = np.abs(transform)
    return np.where(size > 0, transform / np.where(size > 0, size, 1), 1)


def _log_magnitude(transform: NDArray[np.complex128]) -> NDArray[np.float32]:
    return np.log(np.abs(transform) + FLOOR).astype(np.float32)
