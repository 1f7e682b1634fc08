"""the run and the clips that a command works on: splits, other data, pairs"""

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diskoop.analysis.decomposition import FactorLike
from diskoop.analysis.verdict import Verdict
from diskoop.data import SPLITS, Sequences, load_split, open_data, without_splits
from diskoop.errors import InputError, suggest
from diskoop.run import HeldOut, Run, load
from diskoop.workflows.console import print_note

MAX_DRAWN = 256  # clips among which donors are looked for

Pair = tuple[int, int]  # (receiver, donor): the clip that changes, and the clip its new factors come from


def open_run(path: Path, device: str = "auto", factors: bool = True) -> Run:
    """Load a run that files may be written to: of a pretrained one a copy, with a note.

    Args:
        path: its folder, or `pretrained:NAME`.
        device: `auto` puts it on the GPU where there is one.
        factors: whether to read its factors.
    """
    run = load(path, choose_device(device), factors=factors)
    if run.folder.pretrained is None:
        return run
    copy = run.folder.writable_copy()
    print_note(f"{run.folder.name} is read only and has been copied to {run.folder.path}, which is used from now on")
    return replace(run, folder=copy)


def choose_device(name: str) -> str:
    """`auto` is the GPU where there is one."""
    automatic = "cuda" if torch.cuda.is_available() else "cpu"
    return automatic if name == "auto" else name


def judge_run(run: Run, split: HeldOut | None = None) -> Verdict | None:
    """The verdict on a run, as `Run.verdict`; None, with a note, where there is none."""
    try:
        return run.verdict(split)
    except InputError as error:
        print_note(f"no verdict: {error}")
        return None


def load_clips(run: Run, data: str | None = None, split: str | None = None) -> Sequences:
    """Load the clips that a command works on.

    Args:
        run: gives the settings that other data are read with.
        data: a set's name, a file or a folder; None is the run's own set.
        split: train, val, test or all; None is `test` of the run's own set, or its examples where it has some, and
            `all` of other data.
    """
    if split is not None and split not in SPLITS:
        raise InputError(f"unknown split {split!r}; {suggest(split, SPLITS)}")
    if data is not None:
        settings = run.settings_for(data)
        if split is None and settings.path is not None:
            return open_data(without_splits(settings))
        return open_data(settings).split(split or "all")
    if uses_examples(run, data, split):
        examples = run.examples()
        print_note(f"clips are the {len(examples)} examples in {run.folder.path}; --split test takes the whole split")
        return examples
    dataset = open_data(run.settings.data)
    if split is None and dataset.split_size("test") < 2:
        print_note(f"{dataset.name} has fewer than two test clips; all {len(dataset)} are used, trained on or not")
        return dataset
    return load_split(run.settings.data, split or "test", dataset)


def uses_examples(run: Run, data: str | None, split: str | None) -> bool:
    """Whether `load_clips` loads the run's examples, so that a command needs nothing else of its set."""
    return run.has_examples and data is None and split is None


def parse_pairs(
    clips: Sequences, texts: Sequence[str], count: int, seed: int, factors: Sequence[str] = ()
) -> list[Pair]:
    """Parse pairs such as `3:17` or `walk.mp4:run.mp4`.

    Args:
        clips: the clips that numbers and names refer to.
        texts: RECEIVER:DONOR each.
        count: how many pairs to draw where `texts` is empty.
        seed: of that draw.
        factors: what will be swapped. Drawn pairs differ in the labels that are called so, or in all labels where none
            is: a swap between clips that share a label shows nothing of it.
    """
    if len(clips) < 2:
        raise InputError(f"a swap needs two clips at least, got {len(clips)}")
    pairs = []
    for text in texts:
        receiver, colon, donor = text.rpartition(":")
        if not (colon and receiver and donor):
            raise InputError(f"expected a pair as A:B, such as 3:17, got {text!r}")
        pairs.append((find_clip(clips, receiver), find_clip(clips, donor)))
    if not pairs:
        pairs = _draw_pairs(clips, count, seed, _labels_of(clips, factors))
    return pairs


def _labels_of(clips: Sequences, factors: Sequence[str]) -> list[str]:
    """The labels that factors are called after, such as hair of `hair` and `hair-2`; all where there are none."""
    called = {name for factor in factors for name in (factor, re.sub(r"-\d+$", "", factor))}
    return [label for label in clips.labels if label in called] or list(clips.labels)


def _draw_pairs(clips: Sequences, count: int, seed: int, labels: Sequence[str]) -> list[Pair]:
    """Random pairs that share no clip; each donor is the first one drawn that differs in most of the labels."""
    drawn = random_indices(len(clips), max(2 * count, MAX_DRAWN), seed).tolist()
    pairs: list[Pair] = []
    while len(pairs) < count and len(drawn) > 1:
        receiver = drawn.pop(0)
        differences = [sum(clips.labels[name][receiver] != clips.labels[name][at] for name in labels) for at in drawn]
        pairs.append((receiver, drawn.pop(int(np.argmax(differences)))))
    return pairs


def find_clip(clips: Sequences, text: str) -> int:
    """Index of a clip by its name (a file's also without folder and suffix) or, if none is called so, its number.

    A number that several files are called, as the recordings of each of many speakers, is not taken for a name.
    """
    names = [clips.clip_name(i) for i in range(len(clips))]
    if text not in names:
        stems = [Path(name).stem for name in names]
        names = stems if text in stems and not (text.isdecimal() and stems.count(text) > 1) else names
    if names.count(text) > 1:
        first, last = names.index(text), len(names) - 1 - names[::-1].index(text)
        raise InputError(f"{text!r} has {names.count(text)} windows, from {first} to {last}; name one by its number")
    if text in names:
        return names.index(text)
    if not text.isdecimal():
        near = get_close_matches(text, names, 3) or names[:3]
        raise InputError(
            f"unknown clip {text!r}; give a number from 0 to {len(clips) - 1}, or a name like {', '.join(near)}"
        )
    if int(text) >= len(clips):
        raise InputError(f"expected a clip from 0 to {len(clips) - 1}, got {text}")
    return int(text)


def describe_clip(clips: Sequences, index: int, number: int) -> dict[str, Any]:
    """A sequence as a JSON object: its number in a command, the clip's name, the frames of a window, its labels."""
    window = clips.window(index)
    frames = {} if window is None else {"frames": list(window)}
    return {"clip": number, "name": clips.clip_name(index), **frames, "labels": clips.label_values(index)}


def random_indices(total: int, count: int, seed: int) -> NDArray[np.int64]:
    """`count` different indices below `total`, or all of them if there are fewer."""
    return np.random.Generator(np.random.PCG64(seed)).permutation(total)[:count]


def split_names(text: str) -> list[str]:
    """`"hair, skin"` -> `["hair", "skin"]`."""
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_factor(texts: Sequence[str]) -> FactorLike:
    """Names of factors, or mode indices where all texts are numbers."""
    return [int(text) for text in texts] if all(text.isdecimal() for text in texts) else list(texts)
