"""what a data set holds, in words, in a picture and in sound"""

from pathlib import Path
from typing import Any

import numpy as np

from diskoop.data import SPLITS, Sequences
from diskoop.data.sound import sound_of, write_wav
from diskoop.errors import InputError
from diskoop.pictures import contact_sheet, save_figure


def describe_data(everything: Sequences) -> dict[str, Any]:
    """Plain facts, as JSON would have them."""
    facts: dict[str, Any] = {
        "name": everything.name,
        "kind": _kind(everything),
        "sequences": {split: everything.count(split) for split in SPLITS},
        "shape": list(everything.shape[1:]),
        "type": str(everything.frames.dtype),
        "range": _range(everything),
        "labels": {label: _counts(everything, label) for label in everything.values if label in everything.labels},
        "notes": list(everything.notes),
    }
    if everything.mask is not None:
        facts["frames"] = [int(everything.lengths.min()), int(everything.lengths.max())]
    if everything.units.features:
        facts["features"] = list(everything.units.features)
    if everything.clips is not None and len(everything) > (clips := len(np.unique(everything.clips))):
        facts["cut"] = f"windows of up to {everything.shape[1]} frames, from {clips} clips"
    return facts


def _range(everything: Sequences) -> list[float]:
    """A sample says enough, and a large set need not be read for it."""
    low, high = np.inf, -np.inf
    for index in _spread(len(everything), 256):
        x = everything.take([int(index)])[0][: everything.lengths[index]]
        low, high = min(low, float(x.min())), max(high, float(x.max()))
    return [low, high]


def _counts(everything: Sequences, label: str) -> dict[str, list[int]]:
    """Value -> how many sequences have it in training, validation and test."""
    values, codes = everything.values[label], everything.labels[label]
    parts = np.zeros(len(everything), np.int8) if everything.parts is None else everything.parts
    counts = [np.bincount(codes[parts == part], minlength=len(values)) for part in range(3)]
    return {value: [int(count[at]) for count in counts] for at, value in enumerate(values)}


def _kind(everything: Sequences) -> str:
    if everything.is_video:
        return "video (time, channel, height, width)"
    if everything.units.rate is not None:
        return f"sound at {everything.units.rate} Hz as log spectrograms (time, frequency)"
    return "signal (time, feature)"


def preview(everything: Sequences, count: int, path: Path) -> list[Path]:
    """A contact sheet of `count` sequences spread over the whole set; of sound, also what the first sounds like."""
    chosen = [int(index) for index in _spread(len(everything), count)]
    sound = None if everything.units.rate is None else path.with_suffix(".wav")
    if sound is not None and sound.exists():
        raise InputError(f"{sound} exists already and might be yours; choose another name with --out")
    files = [save_figure(contact_sheet(everything, chosen), path)]
    if sound is not None:
        files.append(write_wav(sound, hear(everything, chosen[0])))
    return files


def hear(everything: Sequences, index: int) -> np.ndarray:
    """Sound made from a sequence's spectrogram, with the phase of the recording where there is one."""
    (logs,) = everything.take([index])
    original = None if everything.listen is None else everything.listen(everything.clip_name(index))
    return sound_of(logs, original, 0 if everything.offsets is None else int(everything.offsets[index]))


def _spread(total: int, count: int) -> np.ndarray:
    return np.sort(np.random.Generator(np.random.PCG64(0)).permutation(total)[:count])
