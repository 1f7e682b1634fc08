"""clips and their labels -> Sequences: split, cut into windows, scaled"""

import re
from typing import NamedTuple

import numpy as np

from diskoop.data.clips import ClipFrames
from diskoop.data.labels import Labels
from diskoop.data.scaling import measure, signal_units
from diskoop.data.sequences import PARTS, Indices, Sequences, Units, split_groups, windows
from diskoop.errors import InputError
from diskoop.settings import DataSettings

PEOPLE = ("subject", "speaker", "person", "participant", "patient", "user")  # labels that say who
ENOUGH = 10  # of them for a split by person to make sense


class Cut(NamedTuple):
    """How clips of a kind become sequences when the user does not say: whole up to `whole` frames, else windows."""

    whole: float
    window: int


AS_IT_IS = Cut(whole=float("inf"), window=0)


def assemble(
    name: str,
    gathered: ClipFrames,
    labels: Labels,
    units: Units,
    settings: DataSettings,
    cut: Cut = AS_IT_IS,
    notes: tuple[str, ...] = (),
) -> Sequences:
    """The set of these clips; a signal is scaled over those to train on."""
    window, stride = _window(cut, int(gathered.lengths.max()), settings)
    group = _group(labels, settings)
    if group is not None and settings.group is None:
        notes = (*notes, f"split by {group!r}, so that nobody is in two splits (data.group=none splits by clip)")
    clips, offsets, sizes, parts = _pieces(name, gathered, labels, group, settings)
    begins = [windows(int(size), window, stride) for size in sizes] if (sizes > window).any() else None
    if begins is not None:  # else every piece is a window, and there may be millions
        counts = [len(some) for some in begins]
        clips, sizes, parts = (np.repeat(column, counts) for column in (clips, sizes, parts))
        offsets = np.repeat(offsets, counts) + np.concatenate(begins)
    starts, lengths = gathered.starts[clips] + offsets, np.minimum(sizes, window)
    if gathered.frames.ndim == 2:
        scale = measure(gathered.frames, starts, lengths, parts == PARTS.index("train"))
        units = signal_units(scale, gathered.frames.dtype, features=units.features, rate=units.rate)
    coded = {name: codes[clips] for name, codes in labels.codes.items()}
    return Sequences(
        gathered.frames,
        starts,
        lengths,
        coded,
        labels.values,
        units,
        name,
        parts.astype(np.int8),
        clips,
        offsets,
        gathered.names,
        notes,
    )


def _group(labels: Labels, settings: DataSettings) -> str | None:
    """The label whose values stay together: the user's choice, or whatever says who it is, if there are enough."""
    if settings.group == "none":
        return None
    if settings.group is not None:
        if settings.group not in labels.codes:
            raise InputError(f"data.group = {settings.group}, but the labels are {', '.join(labels.codes) or 'none'}")
        return settings.group
    people = (name for name in labels.codes if re.sub(r"[\W_]*id$", "", name.casefold()) in PEOPLE)
    return next((name for name in people if len(labels.values[name]) >= ENOUGH), None)


Pieces = tuple[Indices, Indices, Indices, Indices]  # (n,) each: clip, first frame, frames, which of PARTS


def _pieces(name: str, gathered: ClipFrames, labels: Labels, group: str | None, settings: DataSettings) -> Pieces:
    """Who trains, who validates, who tests: whole clips, or with one or two clips alone, stretches of time."""
    count = len(gathered.lengths)
    if count < 3 and labels.parts is None:
        return _stretches(name, gathered.lengths, settings)
    clips = np.arange(count)
    groups = clips if group is None else labels.codes[group]
    try:
        parts = split_groups(groups, settings.holdout, settings.test, labels.parts)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return clips, np.zeros(count, np.int64), gathered.lengths, parts.astype(np.int64)


def _stretches(name: str, lengths: Indices, settings: DataSettings) -> Pieces:
    """The last frames of each clip test, those before them validate."""
    test = np.rint(settings.test * lengths).astype(np.int64)
    validate = np.rint(settings.holdout * (lengths - test)).astype(np.int64)
    sizes = np.stack([lengths - test - validate, validate, test], 1)  # (clip, part)
    wanted = np.array([1.0, settings.holdout, settings.test]) > 0
    if (sizes[:, wanted] < 2).any():
        there = f"{len(lengths)} clip{'s' if len(lengths) > 1 else ''} of {', '.join(map(str, lengths))} frames"
        raise InputError(
            f"{name} holds {there}, too little to train, validate and test on; give 3 clips at least, or a longer one"
        )
    clips, parts = np.nonzero(sizes)
    return clips, (sizes.cumsum(1) - sizes)[clips, parts], sizes[clips, parts], parts


def _window(cut: Cut, longest: int, settings: DataSettings) -> tuple[int, int]:
    """Frames in a window, and from one to the next."""
    window = settings.window or (longest if longest <= cut.whole else cut.window)
    stride = settings.stride or window
    if stride > window:
        raise InputError(f"data.stride = {stride} exceeds the window of {window} frames: some would be in none")
    return window, stride
