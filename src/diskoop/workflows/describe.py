"""the contents of a data set: facts, a contact sheet, and sound where it has any"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data import SPLITS, Sequences
from diskoop.data.chunks import sample_indices
from diskoop.data.formats.audio import spectrogram_to_audio, write_wav
from diskoop.errors import InputError, counted
from diskoop.plots.sequences import contact_sheet_figure
from diskoop.plots.style import save_figure
from diskoop.workflows.clips import random_indices

# To estimate the range from: a large set need not be read in full.
MIN_RANGE_SEQUENCES = 256
MAX_RANGE_VALUES = 2**25


def describe_data(data: Sequences) -> dict[str, Any]:
    """The facts of a data set as a JSON object.

    Example:
        >>> facts = describe_data(diskoop.load_data("oscillators", "all"))
        >>> facts["kind"], facts["shape"], facts["sequences"]["train"]
        ('signal (time, feature)', [24, 8], 1620)
    """
    facts: dict[str, Any] = {
        "name": data.name,
        "kind": _kind(data),
        "sequences": {split: data.split_size(split) for split in SPLITS},
    }
    if data.clips is not None and len(data) > (clips := len(np.unique(data.clips))):
        facts["cut"] = f"windows of up to {data.shape[1]} frames, from {counted(clips, 'clip')}"
    facts["shape"] = list(data.shape[1:])
    if data.mask is not None:
        facts["frames"] = [int(data.lengths.min()), int(data.lengths.max())]
    low, high = _range(data)
    facts |= {"type": str(data.frames.dtype), "range": [float(low.min()), float(high.max())]}
    if features := data.units.features:
        facts["features"] = list(features)
        facts["feature_ranges"] = dict(zip(features, np.stack([low, high], 1).tolist(), strict=True))
    facts["labels"] = {label: _count_values(data, label) for label in data.values if label in data.labels}
    return facts | {"notes": list(data.notes)}


def _kind(data: Sequences) -> str:
    if data.is_video:
        return "video (time, channel, height, width)"
    if data.units.rate is not None:
        return f"sound at {data.units.rate} Hz as log spectrograms (time, frequency)"
    return "signal (time, feature)"


def _range(data: Sequences) -> tuple[NDArray[Any], NDArray[Any]]:
    """The least and the greatest values in a sample of sequences, of a signal for each feature, (feature,)."""
    lows, highs = [], []
    count = max(MIN_RANGE_SEQUENCES, MAX_RANGE_VALUES // int(np.prod(data.shape[1:])))
    for index in sample_indices(data, count):
        x = data.read([int(index)])[0]  # (time, ...)
        x = x.reshape(-1, 1) if data.is_video else x
        lows.append(x.min(0))
        highs.append(x.max(0))
    return np.min(lows, 0), np.max(highs, 0)


def _count_values(data: Sequences, label: str) -> dict[str, list[int]]:
    """Value -> how many sequences have it in training, validation and test."""
    values, codes = data.values[label], data.labels[label]
    splits = np.zeros(len(data), np.int8) if data.split_codes is None else data.split_codes
    counts = [np.bincount(codes[splits == split], minlength=len(values)) for split in range(3)]
    return {value: [int(count[code]) for count in counts] for code, value in enumerate(values)}


def preview(data: Sequences, count: int, path: Path) -> list[Path]:
    """Draw a contact sheet of random sequences; of sound, also write what the first one sounds like.

    Args:
        data: the set.
        count: how many sequences.
        path: the picture; sound lies next to it.
    """
    indices = [int(index) for index in np.sort(random_indices(len(data), count, 0))]
    audio_path = None if data.units.rate is None else path.with_suffix(".wav")
    if audio_path is not None and audio_path.exists():
        raise InputError(f"{audio_path} exists already and might be yours; choose another name with --out")
    files = [save_figure(contact_sheet_figure(data, indices), path)]
    if audio_path is not None:
        files.append(write_wav(audio_path, render_audio(data, indices[0])))
    return files


def render_audio(data: Sequences, index: int) -> NDArray[Any]:
    """Samples (n,) from a sequence's spectrogram, with the phase of the recording where there is one."""
    (spectrogram,) = data.read([index])
    recording = None if data.load_audio is None else data.load_audio(data.clip_name(index))
    return spectrogram_to_audio(spectrogram, recording, 0 if data.offsets is None else int(data.offsets[index]))
