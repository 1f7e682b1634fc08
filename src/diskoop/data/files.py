"""a user's own arrays, videos, recordings, tables"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diskoop.data import arrays, sound, tables, videos
from diskoop.data.assembly import Cut, assemble
from diskoop.data.clips import SKIP, Clip, ClipFrames, files_below, gather
from diskoop.data.labels import LABEL_FILES, Labels, code, from_csv, from_csv_in_order, from_folders
from diskoop.data.scaling import NOT_NUMBERS, measure
from diskoop.data.sequences import PIXELS, Indices, Sequences, Units
from diskoop.errors import InputError
from diskoop.settings import DataSettings

KINDS = {
    "videos": videos.VIDEO_SUFFIXES,
    "images": videos.IMAGE_SUFFIXES,
    "recordings": sound.SUFFIXES,
    "tables": tables.SUFFIXES,
    "arrays": arrays.SUFFIXES,
}


CUTS = {
    "videos": Cut(whole=32, window=16),
    "images": Cut(whole=32, window=16),
    "recordings": Cut(whole=1000, window=400),
    "tables": Cut(whole=512, window=128),
    "arrays": Cut(whole=512, window=128),
}
# One array is what somebody has cut already; only what no network could take at once is cut again.
LONG_ARRAYS = {3: Cut(whole=2000, window=128), 5: Cut(whole=64, window=16)}


def load(settings: DataSettings) -> Sequences:
    """The sequences at `settings.path`, whatever they are kept in."""
    assert settings.path is not None
    path = Path(settings.path).expanduser()
    if not _exists(path):
        raise InputError(f"there is no file or folder {settings.path!r}")
    kind, files, notes = _survey(path, settings)
    _refuse(kind, settings)
    if kind == "arrays" and path.is_file():
        return _from_arrays(path, settings)
    root = path if path.is_dir() else path.parent
    gathered, units = _gather(kind, root, path, files, settings)
    labels, kept, more = _labels(path, gathered, settings)
    gathered = gathered.select(kept)
    notes = [*notes, *gathered.notes, *more, *labels.notes]
    everything = assemble(_title(path), gathered, labels, units, settings, CUTS[kind], tuple(notes))
    listen = (lambda name: sound.load_audio(root / name)) if kind == "recordings" else None
    return replace(everything, listen=listen)


def _from_arrays(path: Path, settings: DataSettings) -> Sequences:
    """One file with all sequences, and perhaps a label for each beside them."""
    found = arrays.read(path)
    x = found.x
    if x.ndim == 5:
        if settings.size is not None and x.shape[-2:] != (settings.size, settings.size):
            x = arrays.resized(path, x, settings.size)
        resizable = x.dtype == np.uint8 and x.shape[2] in (1, 3)
        arrays.check_frame(path, x.shape[2:], "; data.size=64 crops and resizes them" if resizable else "")
    columns, notes = _beside(found)
    lengths = _lengths(path, x, columns)
    if settings.labels:
        columns |= from_csv_in_order(Path(settings.labels).expanduser(), len(x))
    gathered, kept, scale = ClipFrames.of(x, lengths), np.arange(len(x)), None
    if x.ndim == 3 or x.dtype != np.uint8:
        scale = measure(gathered.frames, gathered.starts, lengths, np.ones(len(x), bool))
        if len(scale.bad):
            if not settings.skip_bad:
                raise InputError(f"{path}: sequence {scale.bad[0]} holds {NOT_NUMBERS}; mend it ({SKIP})")
            notes.append(f"left out: {len(scale.bad)} sequences with {NOT_NUMBERS}, the first {scale.bad[0]}")
            kept = np.setdiff1d(kept, scale.bad)
            gathered = replace(gathered, names=[f"{_title(path)} {row}" for row in range(len(x))])
    units = arrays.pixel_units(path, x, scale) if x.ndim == 5 else Units(features=arrays.feature_names(found))
    labels = code({name: np.asarray(column)[kept] for name, column in columns.items()}, always=(settings.group,))
    notes += labels.notes
    return assemble(_title(path), gathered.select(kept), labels, units, settings, LONG_ARRAYS[x.ndim], tuple(notes))


def _beside(found: arrays.Arrays) -> tuple[dict[str, Any], list[str]]:
    """Labels that lie beside the sequences, and what lies there and is none."""
    columns: dict[str, Any] = dict(arrays.label_columns(found))
    odd = {
        name: f"has shape {given.shape}"
        for name, given in found.beside.items()
        if name not in columns and not arrays.is_naming(found, name)
    }
    wanted = f"one value for each of {len(found.x)} sequences is wanted"
    return columns, [f"{name!r} is no label: it {why}, {wanted}" for name, why in {**odd, **found.unread}.items()]


def _lengths(path: Path, x: NDArray[Any], columns: dict[str, Any]) -> Indices:
    """How many frames of each sequence are real, (n,)."""
    count, time = x.shape[:2]
    if "lengths" not in columns:
        return np.full(count, time)
    lengths = np.asarray(columns.pop("lengths")).astype(np.int64)
    if not ((lengths >= 2) & (lengths <= time)).all():
        raise InputError(f"{path}: the lengths should be from 2 to {time}, got {lengths.min()} to {lengths.max()}")
    return lengths


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # too long for a name
        return False


def _title(path: Path) -> str:
    return path.name or path.resolve().name


def _survey(path: Path, settings: DataSettings) -> tuple[str, list[Path], list[str]]:
    """What kind of thing lies here, in which files, and what else was seen."""
    found = files_below(path) if path.is_dir() else [path]
    given = _label_file(path, settings)
    found = [file for file in found if given is None or file.resolve() != given.resolve()]
    by_kind: dict[str, list[Path]] = {}
    others: Counter[str] = Counter()
    for file in found:
        kind = next((kind for kind, suffixes in KINDS.items() if file.suffix.lower() in suffixes), None)
        if kind is None:
            others[file.suffix.lower() or file.name] += 1
        else:
            by_kind.setdefault(kind, []).append(file)
    if len(by_kind) == 2 and "tables" in by_kind:  # beside something else a table is a list of it
        others.update(file.name for file in by_kind.pop("tables"))
    if not by_kind:
        known = ", ".join(f"{kind} ({' '.join(suffixes)})" for kind, suffixes in KINDS.items())
        got = _counted(others) or ("nothing" if given is None else f"nothing but {given.name}")
        raise InputError(f"{path} holds {got}, wanted {known}")
    if len(by_kind) > 1:
        counts = " and ".join(f"{len(files)} {kind}" for kind, files in by_kind.items())
        raise InputError(f"{path} holds {counts}; point data.path at a folder that holds one kind")
    kind, files = next(iter(by_kind.items()))
    return kind, files, [f"ignored: {_counted(others)}, which are no {kind}"] if others else []


def _counted(others: Counter[str]) -> str:
    return ", ".join(f"{count} {suffix}" for suffix, count in others.most_common(4))


def _gather(kind: str, root: Path, path: Path, files: list[Path], settings: DataSettings) -> tuple[ClipFrames, Units]:
    """All clips, and the units they are in (a signal's scale follows once it is known who trains)."""
    size, every = settings.size or 64, settings.every

    def read(find: Callable[[], list[Clip]], reader: ModuleType, *options: Any) -> ClipFrames:
        return gather(_title(path), files, find, [reader], options, settings.skip_bad)

    if kind == "tables":
        roles = tables.first_layout(files, settings.id, settings.time, settings.skip_bad)
        clips_in = tables.table_clips if roles.id is None else tables.long_table_clips
        gathered = read(lambda: clips_in(root, files, roles), tables, vars(roles))
        return gathered, Units(features=tuple(name for name in roles.features if name not in gathered.labels))
    if kind == "recordings":
        return read(lambda: sound.recording_clips(root, files), sound), Units(rate=sound.RATE)
    if kind == "arrays":
        gathered = read(lambda: arrays.array_clips(root, files), arrays)
        if gathered.frames.ndim == 2:
            return gathered, Units()
        if settings.size not in (None, gathered.frames.shape[-1]):
            raise InputError(
                f"data.size = {settings.size}, but a folder of arrays is taken as it is: {gathered.frames.shape[1:]}"
            )
        return gathered, PIXELS
    clips_of = videos.video_clips if kind == "videos" else videos.frame_folder_clips
    return read(lambda: clips_of(root, files, size, every), videos, kind, size, every), PIXELS


def _refuse(kind: str, settings: DataSettings) -> None:
    """Settings that mean nothing for this kind are mistakes; but a preset's size of pictures harms no signal."""
    for key, kinds in (("every", ("videos", "images")), ("id", ("tables",)), ("time", ("tables",))):
        given = getattr(settings, key)
        if given != DataSettings.model_fields[key].default and kind not in kinds:
            raise InputError(f"data.{key} = {given} is for {' and '.join(kinds)}, not for {kind}")


def _label_file(path: Path, settings: DataSettings) -> Path | None:
    """The CSV that the user names, or that lies in the folder under a usual name."""
    if settings.labels is not None:
        return Path(settings.labels).expanduser()
    entries = sorted(path.iterdir()) if path.is_dir() else []
    return next((entry for entry in entries if entry.name.lower() in LABEL_FILES and entry.is_file()), None)


def _labels(path: Path, gathered: ClipFrames, settings: DataSettings) -> tuple[Labels, Indices, list[str]]:
    """Labels of the clips, which clips are kept, and notes: from a CSV, from the files themselves, from folders."""
    given = _label_file(path, settings)
    folders, notes = from_folders(gathered.names)
    columns = {**folders, **gathered.labels}
    if given is None:
        return code(columns, always=(settings.group,)), np.arange(len(gathered.names)), notes
    said, kept, more = from_csv(given, gathered.names, settings.skip_bad)
    columns = {name: [column[at] for at in kept] for name, column in columns.items()}
    # Where folders repeat what the CSV says, its name for it is the better one; but a split stays a split.
    unsaid = {name: column for name, column in columns.items() if name == "split" or column not in said.values()}
    labels = code(unsaid | said, always=(settings.group,))
    return labels, np.array(kept), [*notes, f"labels from {given}", *more]
