"""recordings <-> log spectrograms: 16 kHz, 201 bins, 10 ms a frame"""

import re
import wave
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from diskoop.data.clips import Blocks, Clip, decoding, file_clips
from diskoop.errors import InputError, Unavailable
from diskoop.storage import atomic_write

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".sph", ".nist")
RATE = 16_000
WINDOW, HOP = 400, 160  # samples: 25 ms, a frame every 10 ms
BINS = WINDOW // 2 + 1
FLOOR = 1e-6  # what silence is lifted to before the logarithm
AT_ONCE = 4096  # frames transformed together
Sound = NDArray[np.float32]

_HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)


def recording_clips(root: Path, files: Sequence[Path]) -> list[Clip]:
    """A clip for each file."""
    return file_clips(root, files, _blocks)


def _blocks(file: Path) -> Blocks:
    sound = load_audio(file)
    if len(sound) < WINDOW + HOP:
        least = (WINDOW + HOP) / RATE
        raise InputError(f"{file} lasts {len(sound) / RATE:.3f} s: dynamics need {least:.3f} s at least")
    for begin in range(0, frame_count(len(sound)), AT_ONCE):
        yield _log_magnitude(_transform(sound, begin, begin + AT_ONCE))


def load_audio(file: Path) -> Sound:
    """A recording as one channel at 16 kHz, from -1 to 1."""
    try:
        import soundfile
        import soxr
    except ImportError:
        raise Unavailable(f"reading {file} takes soundfile and soxr: pip install 'diskoop[audio]'") from None
    with decoding(file, "recording"):
        _check_header(file)
        with soundfile.SoundFile(file) as opened:
            rate, promised = opened.samplerate, opened.frames
            sound = opened.read(dtype="float32", always_2d=True).mean(1)
    if len(sound) < promised:
        raise _cut_off(file, len(sound), promised, "samples")
    if not np.isfinite(sound).all():
        raise InputError(f"{file} holds NaN or infinity; mend it")
    resampled: Sound = sound if rate == RATE else soxr.resample(sound, rate, RATE).astype(np.float32)
    return resampled


HEADS = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"FORM", b"NIST_1A", b"ID3")


def _check_header(file: Path) -> None:
    """An InputError for what the decoder would complain about at length, or read as if it were whole."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        head = stream.read(1024)
        stream.seek(max(0, size - 2**16))
        tail = stream.read()
    is_mpeg = head[:1] == b"\xff" and head[1:2] >= b"\xe0"
    if not (head.startswith(HEADS) or is_mpeg):
        raise InputError(f"{file} is no recording: it begins with {head[:8]!r}; take it away or make it again")
    if head.startswith(b"NIST_1A") and b"shorten" in head:
        raise InputError(f"{file} is compressed with shorten; unpack it with sph2pipe or w_decode")
    promised = _promised_size(head)
    if promised > size:
        raise _cut_off(file, size, promised, "bytes")
    last_page = tail.rfind(b"OggS")
    if head.startswith(b"OggS") and not (last_page >= 0 and tail[last_page + 5 : last_page + 6] >= b"\x04"):
        raise InputError(f"{file} is cut off: its last page is missing; copy it again")


def _promised_size(head: bytes) -> int:
    """How many bytes a file should have, as far as its first ones say so."""
    if head.startswith((b"RIFF", b"FORM")):
        chunk = int.from_bytes(head[4:8], "little" if head.startswith(b"RIFF") else "big")
        return chunk + 8 if chunk < 2**32 - 16 else 0  # programs that write as they go leave the largest number
    if head.startswith(b"NIST_1A"):
        figures = dict(re.findall(rb"(\w+) -i (\d+)", head))
        wanted = (figures.get(name, b"0") for name in (b"sample_count", b"sample_n_bytes", b"channel_count"))
        return 1024 + int(np.prod([int(figure) for figure in wanted]))
    return 0


def _cut_off(file: Path, there: int, promised: int, what: str) -> InputError:
    return InputError(f"{file} is cut off: it ends after {there} of {promised} {what}; copy it again")


def frame_count(samples: int) -> int:
    return 1 + samples // HOP


def frame_codes(segments: Iterable[tuple[int, int, int]], count: int) -> NDArray[np.int64]:
    """Segments (begin, end, code) in samples -> (count,) the code of the segment that holds each frame's centre.

    -1 where none does; where two do, the later one in the list has it.
    """
    codes = np.full(count, -1, np.int64)
    for begin, end, code in segments:  # frame t, centred on sample 160 t, has it if begin <= 160 t < end
        codes[-(-begin // HOP) : -(-end // HOP)] = code
    return codes


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


def cepstra(logs: NDArray[Any], count: int) -> NDArray[np.float64]:
    """Log spectra (..., bins) -> their cepstral coefficients 1 to `count`: the orthonormal cosine transform (type II).

    The 0th, how loud it is, is left out.
    """
    bins = logs.shape[-1]
    if not 1 <= count < bins:
        raise InputError(f"expected a count of coefficients from 1 to {bins - 1}, got {count}")
    angles = np.pi / bins * np.outer(np.arange(bins) + 0.5, np.arange(1, count + 1))
    coefficients: NDArray[np.float64] = logs @ (np.sqrt(2 / bins) * np.cos(angles))
    return coefficients


def write_wav(path: str | Path, sound: NDArray[Any]) -> Path:
    """16-bit samples; what is louder than full scale is turned down, not cut off."""
    loudest = float(np.abs(sound).max(initial=1.0))
    samples = np.rint(sound / loudest * 32767).astype("<i2")
    with atomic_write(path) as temporary, wave.open(str(temporary), "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(RATE)
        stream.writeframes(samples.tobytes())
    return Path(path)


def _transform(sound: NDArray[Any], begin: int, end: int) -> NDArray[np.complex128]:
    """Frames `begin` to `end` of the short-time Fourier transform, the sound mirrored at its ends."""
    half, end = WINDOW // 2, min(end, frame_count(len(sound)))
    first, last = begin * HOP - half, (end - 1) * HOP + half  # the samples these frames see
    left, right = max(-first, 0), max(last - len(sound), 0)
    pieces = sound[left:0:-1], sound[max(first, 0) : last], sound[-2 : -2 - right : -1]
    seen = np.concatenate([piece.astype(np.float64) for piece in pieces])
    return np.fft.rfft(sliding_window_view(seen, WINDOW)[::HOP] * _HANN)


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
