"""clips and their labels -> Sequences: split, cut into windows, scaled"""

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diskoop.data.chunks import ChunkedFrames, sample_indices
from diskoop.data.clips import ClipFrames
from diskoop.data.gaps import Segment
from diskoop.data.labels import Labels
from diskoop.data.scaling import compute_statistics, signal_units
from diskoop.data.sequences import Indices, Sequences, Units
from diskoop.data.splits import TEST, TRAIN, SplitCodes, split_groups
from diskoop.errors import InputError, counted
from diskoop.settings import DataSettings

# Names of labels that say who or where, in lower case.
WHO_LABEL = re.compile(
    "(subject|speaker|person|participant|patient|user|performer|actor|singer|signer|writer|player|driver|volunteer"
    r"|individual|animal)[\W_]*(id|no|nr|number|name|code)?"
)
WHERE_LABEL = re.compile(
    "(station|site|location|place|room|city|region|country|hospital|household|building|plant|farm|field|camera|device"
    r"|sensor|machine|microphone|session)[\W_]*(id|no|nr|number|name|code)?"
)
MIN_PERSONS = 10  # values that a label which says who needs for a split by it by default
FEW_CLIPS = 10  # signals, below which long ones are split in time by default


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
    is_own: bool = False,
    split_codes: SplitCodes | None = None,
) -> Sequences:
    """The data set of these clips; a signal's units are fitted to its training split.

    Args:
        name: of the set.
        clip_frames: its clips.
        labels: of the clips.
        units: of the frames; of a signal, its features' names and rate.
        settings: how it is cut and split.
        window_rule: the window where the settings have none.
        notes: sentences about the clips.
        is_own: whether these are a user's own files, which are split by the proportions of their labels, and in time if
            they are few long signals; the splits of known sets stay as they were.
        split_codes: of the clips, (n,), where they are split by now and in no other way.
    """
    window, stride = window_of(window_rule, int(clip_frames.lengths.max()), settings)
    is_signal = clip_frames.frames.ndim == 2 and units.rate is None
    if split_codes is None:
        pieces, split_notes = _split(name, clip_frames.lengths, labels, window, settings, is_own, is_signal)
    else:
        whole = np.arange(len(split_codes))
        pieces = Pieces(whole, np.zeros_like(whole), clip_frames.lengths, split_codes.astype(np.int64))
        split_notes = _group_notes(pieces, labels, settings.group)
    if clip_frames.segments:
        pieces = _without_gaps(pieces, clip_frames.segments)
        if not (pieces.split_codes == TRAIN).any():
            raise InputError(f"{name}: what trains lies in gaps; data.drop leaves columns out, data.max_gap fills more")
    clips, offsets, lengths, codes = pieces
    begins = None
    if (lengths > window).any():
        of_length = {length: window_starts(length, window, stride) for length in np.unique(lengths).tolist()}
        begins = [of_length[length] for length in lengths.tolist()]
    if begins is not None:  # else every piece is a window, and there may be millions
        counts = [len(piece) for piece in begins]
        clips, lengths, codes = (np.repeat(column, counts) for column in (clips, lengths, codes))
        offsets = np.repeat(offsets, counts) + np.concatenate(begins)
    starts, lengths = clip_frames.starts[clips] + offsets, np.minimum(lengths, window)
    if clip_frames.frames.ndim == 2:
        train = codes == TRAIN
        if isinstance(clip_frames.frames, ChunkedFrames):  # all others are read whole, to see that they are finite
            fitted = Sequences(clip_frames.frames, starts[train], lengths[train], units=units, name=name)
            fitted = fitted.select(sample_indices(fitted, settings.sample))
            statistics = compute_statistics(fitted.frames, fitted.starts, fitted.lengths, np.ones(len(fitted), bool))
        else:
            statistics = compute_statistics(clip_frames.frames, starts, lengths, train)
        units = signal_units(statistics, clip_frames.frames.dtype, features=units.features, rate=units.rate)
    return Sequences(
        clip_frames.frames,
        starts,
        lengths,
        {label: column[clips] for label, column in labels.codes.items()},
        labels.values,
        units,
        name,
        codes.astype(np.int8),
        clips,
        offsets,
        clip_frames.names,
        (*notes, *split_notes),
    )


def window_starts(length: int, window: int, stride: int) -> Indices:
    """First frames of the windows that cover a clip; the last one ends with it, and a short clip is one window.

    Example:
        >>> window_starts(10, window=4, stride=4).tolist()
        [0, 4, 6]
    """
    return np.append(np.arange(0, length - window, stride), max(length - window, 0))


class Pieces(NamedTuple):
    """Stretches of clips, each in one split; (n,) each."""

    clips: Indices
    offsets: Indices  # first frame inside the clip
    lengths: Indices
    split_codes: Indices


def _split(
    name: str,
    lengths: Indices,
    labels: Labels,
    window: int,
    settings: DataSettings,
    is_own: bool,
    is_signal: bool,
) -> tuple[Pieces, list[str]]:
    """Clips with their splits, or pieces of them where they are split in time; and notes about that."""
    group, count = group_label(labels, settings), len(lengths)
    if settings.split_by == "time" and settings.group not in (None, "none"):
        raise InputError(
            f"data.split_by = time puts a part of every clip into each split, data.group = {settings.group} keeps "
            "clips together; give one of them"
        )
    are_few = (
        is_own
        and group is None
        and settings.group is None
        and count < FEW_CLIPS
        and _fill_windows(lengths, window, settings)
    )
    by_time = labels.split_codes is None and (count < 3 or (are_few and is_signal))
    if settings.split_by == "time" or (settings.split_by == "auto" and by_time):
        pieces, notes = _split_in_time(name, lengths, settings)
        if labels.split_codes is not None:
            notes.append("the split that the files themselves give is not used (data.split_by)")
    else:
        pieces, notes = _split_by_clip(name, lengths, labels, group, settings, is_own), []
        if group is not None and settings.group is None:
            notes.append(f"split by {group!r}, so that no value is in two splits (data.group=none splits by clip)")
        elif are_few and settings.split_by == "auto" and labels.split_codes is None:
            notes.append(f"only {counted(count, 'clip')} to split; data.split_by=time splits each of them in time")
    if is_own and settings.group is None and settings.split_by != "time":
        notes += _group_notes(pieces, labels, group)
    return pieces, notes


def group_label(labels: Labels, settings: DataSettings) -> str | None:
    """The label whose values stay in one split: data.group, or one that identifies persons if they are enough."""
    if settings.group == "none" or settings.split_by == "time":
        return None
    if settings.group is not None:
        if settings.group not in labels.codes:
            raise InputError(f"data.group = {settings.group}, but the labels are {', '.join(labels.codes) or 'none'}")
        return settings.group
    persons = (name for name in labels.codes if WHO_LABEL.fullmatch(name.casefold()))
    return next((name for name in persons if len(labels.values[name]) >= MIN_PERSONS), None)


def _group_notes(pieces: Pieces, labels: Labels, group: str | None) -> list[str]:
    """For each label that says who or where and has values in training and test, how to keep them apart."""
    notes = []
    for label, codes in labels.codes.items():
        in_train, in_test = (set(codes[pieces.clips[pieces.split_codes == code]].tolist()) for code in (TRAIN, TEST))
        shared, total = len(in_train & in_test), len(labels.values[label])
        says_who = WHO_LABEL.fullmatch(label.casefold()) or WHERE_LABEL.fullmatch(label.casefold())
        if label == group or not shared or not says_who:
            continue
        what = f"{label!r}: {shared} of {total} values are both trained and tested on"
        if labels.split_codes is not None:
            notes.append(f"{what}, by the split that the files give")
        elif total >= 3:
            notes.append(f"{what}; data.group={label} keeps each in one split")
    return notes


def _split_by_clip(
    name: str, lengths: Indices, labels: Labels, group: str | None, settings: DataSettings, stratify: bool
) -> Pieces:
    clips = np.arange(len(lengths))
    codes = np.stack(list(labels.codes.values()), 1) if stratify and group is None and labels.codes else None
    try:
        split_codes = split_groups(
            clips if group is None else labels.codes[group],
            settings.val_fraction,
            settings.test_fraction,
            labels.split_codes,
            codes,
        )
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return Pieces(clips, np.zeros_like(lengths), lengths, split_codes.astype(np.int64))


def _time_sizes(lengths: Indices, settings: DataSettings) -> Indices:
    """Frames of each clip that train, validate and test, in this order, (n, 3)."""
    test = np.rint(settings.test_fraction * lengths).astype(np.int64)
    val = np.rint(settings.val_fraction * (lengths - test)).astype(np.int64)
    return np.stack([lengths - test - val, val, test], 1)


def _wanted_splits(settings: DataSettings) -> NDArray[np.bool_]:
    return np.array([1.0, settings.val_fraction, settings.test_fraction]) > 0


def _fill_windows(lengths: Indices, window: int, settings: DataSettings) -> bool:
    """Whether each clip, split in time, has a window at least in every split."""
    return bool((_time_sizes(lengths, settings)[:, _wanted_splits(settings)] >= window).all())


def _split_in_time(name: str, lengths: Indices, settings: DataSettings) -> tuple[Pieces, list[str]]:
    """The last frames of each clip test, those before them validate; clips that are too short for that train."""
    sizes = _time_sizes(lengths, settings)
    short = (sizes[:, _wanted_splits(settings)] < 2).any(1)
    if short.all():
        given = f"{counted(len(lengths), 'clip')} of {', '.join(map(str, lengths[:5]))} frames"
        raise InputError(
            f"{name} holds {given}, too little to train, validate and test on; give 3 clips at least, or a longer one"
        )
    sizes[short] = np.stack([lengths[short], 0 * lengths[short], 0 * lengths[short]], 1)
    clips, split_codes = np.nonzero(sizes)
    percent = [f"{100 * part:.3g}%" for part in sizes.sum(0) / lengths.sum()]
    notes = [
        f"split in time: of each clip the first {percent[0]} train, the next {percent[1]} validate and the last "
        f"{percent[2]} test (data.split_by=clip keeps clips whole)"
    ]
    if short.any():
        notes.append(
            f"too short to be split in time, and only training: {short.sum()} of {counted(len(lengths), 'clip')}"
        )
    offsets = (sizes.cumsum(1) - sizes)[clips, split_codes]
    return Pieces(clips, offsets, sizes[clips, split_codes], split_codes), notes


def _without_gaps(pieces: Pieces, segments: list[list[Segment]]) -> Pieces:
    """The parts of the pieces that lie within the segments of their clips; none means that a clip is whole."""
    parts = []
    for clip, offset, length, code in zip(*(column.tolist() for column in pieces), strict=True):
        for begin, end in segments[clip] or [(offset, offset + length)]:
            first, last = max(begin, offset), min(end, offset + length)
            if last - first >= 2:
                parts.append((clip, first, last - first, code))
    return Pieces(*np.array(parts, np.int64).T)


def window_of(rule: WindowRule, longest: int, settings: DataSettings) -> tuple[int, int]:
    """Length of a window and distance between windows, in frames."""
    window = settings.window or (longest if longest <= rule.longest_whole else rule.window)
    stride = settings.stride or window
    if stride > window:
        raise InputError(f"data.stride = {stride} exceeds the window of {window} frames: some would be in none")
    return window, stride
