"""audio files <-> log spectrograms: 16 kHz, 201 bins, 10 ms a frame"""

import io
import re
import wave
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from diskoop.data.clips import Blocks, Clip, decoding, file_clips
from diskoop.errors import InputError, MissingDependencyError
from diskoop.storage import atomic_write

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".sph", ".nist")
RATE = 16_000
MIN_RATE = 1000  # of a recording, in samples a second
BLOCK_SAMPLES = 2**20  # read at a time
WINDOW, HOP = 400, 160  # samples: 25 ms, a frame every 10 ms
BINS = WINDOW // 2 + 1
FLOOR = 1e-6  # added to magnitudes before the logarithm
BLOCK_FRAMES = 4096  # transformed at a time
Waveform = NDArray[np.float32]

_HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)


def recording_clips(root: Path, files: Sequence[Path]) -> list[Clip]:
    """A clip for each audio file: its log spectrogram."""
    return file_clips(root, files, _blocks)


def _blocks(file: Path) -> Blocks:
    waveform = load_audio(file)
    if len(waveform) < WINDOW + HOP:
        least = (WINDOW + HOP) / RATE
        raise InputError(f"{file} lasts {len(waveform) / RATE:.3f} s: dynamics need {least:.3f} s at least")
    for begin in range(0, frame_count(len(waveform)), BLOCK_FRAMES):
        yield _log_magnitude(_transform(waveform, begin, begin + BLOCK_FRAMES))


def load_audio(file: Path) -> Waveform:
    """The waveform of an audio file, (samples,), mixed to one channel at 16 kHz, from -1 to 1."""
    try:
        import soundfile
        import soxr
    except ImportError:
        raise MissingDependencyError(f"reading {file} needs soundfile and soxr: pip install 'diskoop[audio]'") from None
    with decoding(file, "recording"):
        _check_header(file)
        with soundfile.SoundFile(file) as opened:
            rate, declared = opened.samplerate, opened.frames
            if rate < MIN_RATE:
                raise InputError(f"{file} has {rate} samples a second, wanted {MIN_RATE} at least")
            # Block by block: a header may declare more than anyone could allocate.
            blocks = [np.zeros(0, np.float32)]
            while len(block := opened.read(BLOCK_SAMPLES, dtype="float32", always_2d=True)):
                blocks.append(block.mean(1))
            waveform = np.concatenate(blocks)
    if len(waveform) < declared:
        raise _cut_off(file, len(waveform), declared, "samples")
    if not np.isfinite(waveform).all():
        raise InputError(f"{file} holds NaN or infinity; mend it")
    resampled: Waveform = waveform if rate == RATE else soxr.resample(waveform, rate, RATE).astype(np.float32)
    return resampled


MAGIC_BYTES = (b"RIFF", b"RF64", b"fLaC", b"OggS", b"FORM", b"NIST_1A", b"ID3")


def _check_header(file: Path) -> None:
    """Raise an InputError for files that the decoder would fail on at length, or read although they are cut off."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        head = stream.read(1024)
        stream.seek(max(0, size - 2**16))
        tail = stream.read()
    is_mpeg = head[:1] == b"\xff" and head[1:2] >= b"\xe0"
    if not (head.startswith(MAGIC_BYTES) or is_mpeg):
        raise InputError(f"{file} is no recording: it begins with {head[:8]!r}; take it away or make it again")
    if head.startswith(b"NIST_1A") and b"shorten" in head:
        raise InputError(f"{file} is compressed with shorten; unpack it with sph2pipe or w_decode")
    declared = _declared_size(head)
    if declared > size:
        raise _cut_off(file, size, declared, "bytes")
    last_page = tail.rfind(b"OggS")
    if head.startswith(b"OggS") and not (last_page >= 0 and tail[last_page + 5 : last_page + 6] >= b"\x04"):
        raise InputError(f"{file} is cut off: its last page is missing; copy it again")


def _declared_size(head: bytes) -> int:
    """Number of bytes that a file should have by its header, 0 if unknown."""
    if head.startswith((b"RIFF", b"FORM")):
        chunk = int.from_bytes(head[4:8], "little" if head.startswith(b"RIFF") else "big")
        return chunk + 8 if chunk < 2**32 - 16 else 0  # streaming writers leave the largest number
    if head.startswith(b"NIST_1A"):
        figures = dict(re.findall(rb"(\w+) -i (\d{1,18})", head))
        wanted = (figures.get(name, b"0") for name in (b"sample_count", b"sample_n_bytes", b"channel_count"))
        return 1024 + int(np.prod([int(figure) for figure in wanted]))
    return 0


def _cut_off(file: Path, actual: int, declared: int, what: str) -> InputError:
    return InputError(f"{file} is cut off: it ends after {actual} of {declared} {what}; copy it again")


def frame_count(samples: int) -> int:
    return 1 + samples // HOP


def frame_codes(segments: Iterable[tuple[int, int, int]], count: int) -> NDArray[np.int64]:
    """The code of the segment at each frame's centre, (count,); -1 where there is none.

    Args:
        segments: (begin, end, code) in samples; of overlapping ones the later in the list counts.
        count: number of frames.

    Example:
        >>> frame_codes([(0, 200, 7), (200, 480, 3)], 4).tolist()
        [7, 7, 3, -1]
    """
    codes = np.full(count, -1, np.int64)
    for begin, end, code in segments:  # frame t is centred on sample 160 t
        codes[-(-begin // HOP) : -(-end // HOP)] = code
    return codes


def spectrogram(waveform: Waveform) -> NDArray[np.float32]:
    """Log magnitudes (time, bin) of a waveform (samples,); frame t is centred on sample 160 t."""
    return _log_magnitude(_transform(waveform, 0, frame_count(len(waveform))))


def spectrogram_to_audio(
    logs: NDArray[Any], original: Waveform | None = None, begin: int = 0, iterations: int = 60
) -> Waveform:
    """A waveform with the magnitudes of a log spectrogram.

    Args:
        logs: log spectrogram, (time, bin).
        original: recording whose phase is used; without one, a phase is estimated (fast Griffin-Lim).
        begin: the frame of `original` at which `logs` begins.
        iterations: of Griffin-Lim.

    Example:
        >>> tone = np.sin(np.arange(16_000) * 0.2).astype(np.float32)
        >>> bool(np.abs(spectrogram_to_audio(spectrogram(tone), tone) - tone).max() < 1e-4)
        True
    """
    magnitude = np.maximum(np.exp(logs.astype(np.float64)) - FLOOR, 0)
    samples = (len(logs) - 1) * HOP
    if original is not None:
        transform = _transform(original, begin, begin + len(logs))
        if len(transform) < len(logs):
            raise InputError(
                f"expected a recording of {begin + len(logs)} frames at least, got {frame_count(len(original))}"
            )
        reaches_end = begin + len(logs) == frame_count(len(original))
        return _inverse(magnitude * _phase(transform), len(original) - begin * HOP if reaches_end else samples)
    angles = np.random.Generator(np.random.PCG64(0)).uniform(0, 2 * np.pi, magnitude.shape)
    phase, previous = np.exp(1j * angles), np.zeros(magnitude.shape, complex)
    for _ in range(iterations):
        current = _transform(_inverse(magnitude * phase, samples), 0, len(logs))
        phase = _phase(current + 0.99 * (current - previous))
        previous = current
    return _inverse(magnitude * phase, samples)


def cepstra(logs: NDArray[Any], count: int) -> NDArray[np.float64]:
    """Cepstral coefficients 1 to `count` of log spectra (..., bin): an orthonormal DCT-II without its level, 0."""
    bins = logs.shape[-1]
    if not 1 <= count < bins:
        raise InputError(f"expected a count of coefficients from 1 to {bins - 1}, got {count}")
    angles = np.pi / bins * np.outer(np.arange(bins) + 0.5, np.arange(1, count + 1))
    coefficients: NDArray[np.float64] = logs @ (np.sqrt(2 / bins) * np.cos(angles))
    return coefficients


def write_wav(path: str | Path, waveform: NDArray[Any]) -> Path:
    """Write a mono 16-bit WAV file; a waveform beyond full scale is scaled down, not clipped."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(wav_bytes(waveform))
    return Path(path)


def wav_bytes(waveform: NDArray[Any]) -> bytes:
    """The contents of that file."""
    loudest = float(np.abs(waveform).max(initial=1.0))
    samples = np.rint(waveform / loudest * 32767).astype("<i2")
    contents = io.BytesIO()
    with wave.open(contents, "wb") as stream:
        stream.setnchannels(1)
        stream.setsampwidth(2)
        stream.setframerate(RATE)
        stream.writeframes(samples.tobytes())
    return contents.getvalue()


def _transform(waveform: NDArray[Any], begin: int, end: int) -> NDArray[np.complex128]:
    """Frames `begin` to `end` of the short-time Fourier transform, the waveform reflected at its ends."""
    half, end = WINDOW // 2, min(end, frame_count(len(waveform)))
    first, last = begin * HOP - half, (end - 1) * HOP + half  # the samples these frames cover
    left, right = max(-first, 0), max(last - len(waveform), 0)
    pieces = waveform[left:0:-1], waveform[max(first, 0) : last], waveform[-2 : -2 - right : -1]
    padded = np.concatenate([piece.astype(np.float64) for piece in pieces])
    return np.fft.rfft(sliding_window_view(padded, WINDOW)[::HOP] * _HANN)


def _inverse(transform: NDArray[np.complex128], samples: int) -> Waveform:
    """The least-squares waveform: overlap-add, divided by the sum of squared windows."""
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
