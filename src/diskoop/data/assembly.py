"""clips and their labels -> Sequences: split, cut into windows, scaled"""

import re
from typing import NamedTuple

import numpy as np

from diskoop.data.clips import ClipFrames
from diskoop.data.labels import Labels
from diskoop.data.scaling import compute_statistics, signal_units
from diskoop.data.sequences import Indices, Sequences, Units
from diskoop.data.splits import TRAIN, split_groups
from diskoop.errors import InputError
from diskoop.settings import DataSettings

PERSON_LABELS = ("subject", "speaker", "person", "participant", "patient", "user")
MIN_PERSONS = 10  # values such a label needs for a split by person by default


class WindowRule(NamedTuple):
    """The window of a kind of clips where data.window is not given."""

    longest_whole: float  # frames up to which clips stay whole
    window: int  # frames of a window where some clip is longer


NO_WINDOWS = WindowRule(longest_whole=float("inf"), window=0)


def assemble(
    name: str,
    clip_frames: ClipFrames,
    labels: Labels,
    units: Units,
    settings: DataSettings,
    window_rule: WindowRule = NO_WINDOWS,
    notes: tuple[str, ...] = (),
) -> Sequences:
    """The data set of these clips; a signal's units are fitted to its training split."""
    window, stride = _window(window_rule, int(clip_frames.lengths.max()), settings)
    group = _group(labels, settings)
    if group is not None and settings.group is None:
        notes = (*notes, f"split by {group!r}, so that no value is in two splits (data.group=none splits by clip)")
    clips, offsets, lengths, split_codes = _split_clips(name, clip_frames, labels, group, settings)
    begins = [window_starts(int(length), window, stride) for length in lengths] if (lengths > window).any() else None
    if begins is not None:  # else every segment is a window, and there may be millions
        counts = [len(segment) for segment in begins]
        clips, lengths, split_codes = (np.repeat(column, counts) for column in (clips, lengths, split_codes))
        offsets = np.repeat(offsets, counts) + np.concatenate(begins)
    starts, lengths = clip_frames.starts[clips] + offsets, np.minimum(lengths, window)
    if clip_frames.frames.ndim == 2:
        statistics = compute_statistics(clip_frames.frames, starts, lengths, split_codes == TRAIN)
        units = signal_units(statistics, clip_frames.frames.dtype, features=units.features, rate=units.rate)
    return Sequences(
        clip_frames.frames,
        starts,
        lengths,
        {name: codes[clips] for name, codes in labels.codes.items()},
        labels.values,
        units,
        name,
        split_codes.astype(np.int8),
        clips,
        offsets,
        clip_frames.names,
        notes,
    )


def window_starts(length: int, window: int, stride: int) -> Indices:
    """First frames of the windows that cover a clip; the last one ends with it, and a short clip is one window.

    Example:
        >>> window_starts(10, window=4, stride=4).tolist()
        [0, 4, 6]
    """
    return np.append(np.arange(0, length - window, stride), max(length - window, 0))


def _group(labels: Labels, settings: DataSettings) -> str | None:
    """The label whose values stay in one split: data.group, or one that identifies persons if they are enough."""
    if settings.group == "none":
        return None
    if settings.group is not None:
        if settings.group not in labels.codes:
            raise InputError(f"data.group = {settings.group}, but the labels are {', '.join(labels.codes) or 'none'}")
        return settings.group
    persons = (name for name in labels.codes if re.sub(r"[\W_]*id$", "", name.casefold()) in PERSON_LABELS)
    return next((name for name in persons if len(labels.values[name]) >= MIN_PERSONS), None)


Segments = tuple[Indices, Indices, Indices, Indices]  # (n,) each: clip, first frame, length, split code


def _split_clips(
    name: str, clip_frames: ClipFrames, labels: Labels, group: str | None, settings: DataSettings
) -> Segments:
    """Whole clips with their split codes; one or two unsplit clips are split in time instead."""
    count = len(clip_frames.lengths)
    if count < 3 and labels.split_codes is None:
        return _split_in_time(name, clip_frames.lengths, settings)
    clips = np.arange(count)
    groups = clips if group is None else labels.codes[group]
    try:
        split_codes = split_groups(groups, settings.val_fraction, settings.test_fraction, labels.split_codes)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return clips, np.zeros(count, np.int64), clip_frames.lengths, split_codes.astype(np.int64)


def _split_in_time(name: str, lengths: Indices, settings: DataSettings) -> Segments:
    """The last frames of each clip test, those before them validate."""
    test = np.rint(settings.test_fraction * lengths).astype(np.int64)
    val = np.rint(settings.val_fraction * (lengths - test)).astype(np.int64)
    sizes = np.stack([lengths - test - val, val, test], 1)  # (clip, split)
    wanted = np.array([1.0, settings.val_fraction, settings.test_fraction]) > 0
    if (sizes[:, wanted] < 2).any():
        given = f"{len(lengths)} clip{'s' if len(lengths) > 1 else ''} of {', '.join(map(str, lengths))} frames"
        raise InputError(
            f"{name} holds {given}, too little to train, validate and test on; give 3 clips at least, or a longer one"
        )
    clips, split_codes = np.nonzero(sizes)
    return clips, (sizes.cumsum(1) - sizes)[clips, split_codes], sizes[clips, split_codes], split_codes


def _window(rule: WindowRule, longest: int, settings: DataSettings) -> tuple[int, int]:
    """Length of a window and distance between windows, in frames."""
    window = settings.window or (longest if longest <= rule.longest_whole else rule.window)
    stride = settings.stride or window
    if stride > window:
        raise InputError(f"data.stride = {stride} exceeds the window of {window} frames: some would be in none")
    return window, stride
