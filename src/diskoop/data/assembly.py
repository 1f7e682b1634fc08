"""clips and their labels -> Sequences: split, cut into windows, scaled"""

from typing import NamedTuple

import numpy as np

from diskoop.data.clips import Gathered
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


class Piece(NamedTuple):
    """Some frames of a clip that belong to one split."""

    clip: int
    begin: int
    length: int
    part: int


def assemble(
    name: str,
    gathered: Gathered,
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
    pieces = [
        Piece(piece.clip, piece.begin + at, length, piece.part)
        for piece in _pieces(name, gathered, labels, group, settings)
        for at, length in windows(piece.length, window, stride)
    ]
    clips, offsets, lengths, parts = (np.array(column, np.int64) for column in zip(*pieces, strict=True))
    starts = gathered.starts[clips] + offsets
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
    return next((name for name in PEOPLE if len(labels.values.get(name, ())) >= ENOUGH), None)


def _pieces(name: str, gathered: Gathered, labels: Labels, group: str | None, settings: DataSettings) -> list[Piece]:
    """Who trains, who validates, who tests: whole clips, or with one or two clips alone, stretches of time."""
    count = len(gathered.lengths)
    if count < 3 and labels.parts is None:
        return [piece for clip in range(count) for piece in _stretches(name, clip, gathered.lengths, settings)]
    groups = np.arange(count) if group is None else labels.codes[group]
    try:
        parts = split_groups(groups, settings.holdout, settings.test, labels.parts)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    return [Piece(clip, 0, int(gathered.lengths[clip]), int(parts[clip])) for clip in range(count)]


def _stretches(name: str, clip: int, lengths: Indices, settings: DataSettings) -> list[Piece]:
    """The last frames of a lone clip test, those before them validate."""
    length = int(lengths[clip])
    test = round(settings.test * length)
    validate = round(settings.holdout * (length - test))
    sizes = [length - test - validate, validate, test]
    wanted = (1.0, settings.holdout, settings.test)
    if any(share and size < 2 for share, size in zip(wanted, sizes, strict=True)):
        raise InputError(
            f"{name} holds {len(lengths)} clip{'s' if len(lengths) > 1 else ''} of {length} frames, too little to "
            "train, validate and test on; give 3 clips at least, or a longer one"
        )
    begins = np.cumsum(sizes) - sizes
    return [Piece(clip, int(begins[part]), size, part) for part, size in enumerate(sizes) if size]


def _window(cut: Cut, longest: int, settings: DataSettings) -> tuple[int, int]:
    """Frames in a window, and from one to the next."""
    window = settings.window or (longest if longest <= cut.whole else cut.window)
    stride = settings.stride or window
    if stride > window:
        raise InputError(f"data.stride = {stride} exceeds the window of {window} frames: some would be in none")
    return window, stride
