"""a user's own arrays, videos, recordings, tables"""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from diskoop.data import arrays, sound, tables, videos
from diskoop.data.assembly import Cut, assemble
from diskoop.data.clips import SKIP, Gathered, files_below, gather
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


CUTS = {"videos": Cut(32, 16), "images": Cut(32, 16), "recordings": Cut(1000, 400), "tables": Cut(512, 128)}
CUTS["arrays"] = CUTS["tables"]


def load(settings: DataSettings) -> Sequences:
    """The sequences at `settings.path`, whatever they are kept in."""
    assert settings.path is not None
    path = Path(settings.path).expanduser()
    if not path.exists():
        raise InputError(f"there is no file or folder {settings.path!r}")
    kind, files, notes = _survey(path)
    _refuse(kind, settings)
    if kind == "arrays" and path.is_file():
        return _from_arrays(path, settings)
    root = path if path.is_dir() else path.parent
    gathered, units = _gather(kind, root, path, files, settings)
    labels, kept, more = _labels(path, gathered, settings)
    gathered = gathered.select(kept)
    notes = [*notes, *gathered.notes, *more, *labels.notes]
    everything = assemble(_title(path), gathered, labels, units, settings, CUTS[kind], tuple(notes))
    listen = (lambda name: sound.read_sound(root / name)) if kind == "recordings" else None
    return replace(everything, listen=listen)


def _from_arrays(path: Path, settings: DataSettings) -> Sequences:
    """One file with all sequences, and perhaps a label for each beside them."""
    found = arrays.read(path)
    x = found.x if settings.size in (None, found.x.shape[-1]) else arrays.resized(path, found.x, settings.size)
    count, time = x.shape[:2]
    columns: dict[str, Any] = arrays.label_columns(found)
    notes = [
        f"{name!r} of shape {given.shape} is no label: one value for each of {count} sequences is wanted"
        for name, given in found.beside.items()
        if name not in columns and not arrays.is_naming(found, name)
    ]
    lengths = np.full(count, time)
    if "lengths" in columns:
        lengths = np.asarray(columns.pop("lengths")).astype(np.int64)
        if not ((lengths >= 2) & (lengths <= time)).all():
            raise InputError(f"{path}: the lengths should be from 2 to {time}, got {lengths.min()} to {lengths.max()}")
    if settings.labels:
        columns |= from_csv_in_order(Path(settings.labels).expanduser(), count)
    gathered, scale = Gathered.of(x, lengths), None
    if x.ndim == 3 or x.dtype != np.uint8:
        scale = measure(gathered.frames, gathered.starts, lengths, np.ones(count, bool))
        if len(scale.bad):
            sentence = f"{path}: sequence {scale.bad[0]} holds {NOT_NUMBERS}"
            if not settings.skip_bad:
                raise InputError(f"{sentence}; mend it ({SKIP})")
            notes.append(f"left out: {len(scale.bad)} sequences with {NOT_NUMBERS}, the first {scale.bad[0]}")
    units = arrays.pixel_units(path, x, scale) if x.ndim == 5 else Units(features=arrays.feature_names(found))
    kept = np.setdiff1d(np.arange(count), scale.bad) if scale is not None else np.arange(count)
    labels = code({name: np.asarray(column)[kept] for name, column in columns.items()})
    return assemble(_title(path), gathered.select(kept), labels, units, settings, notes=(*notes, *labels.notes))


def _title(path: Path) -> str:
    return path.name or path.resolve().name


def _survey(path: Path) -> tuple[str, list[Path], list[str]]:
    """What kind of thing lies here, in which files, and what else was seen."""
    found = files_below(path) if path.is_dir() else [path]
    by_kind: dict[str, list[Path]] = {}
    others: Counter[str] = Counter()
    for file in found:
        if file.parent == path and file.name.lower() in LABEL_FILES:
            continue
        kind = next((kind for kind, suffixes in KINDS.items() if file.suffix.lower() in suffixes), None)
        if kind is None:
            others[file.suffix.lower() or file.name] += 1
        else:
            by_kind.setdefault(kind, []).append(file)
    if len(by_kind) == 2 and "tables" in by_kind:  # beside something else a table is a list of it
        others.update(file.name for file in by_kind.pop("tables"))
    if not by_kind:
        known = ", ".join(f"{kind} ({' '.join(suffixes)})" for kind, suffixes in KINDS.items())
        got = _counted(others) or ("nothing but labels" if found else "nothing")
        raise InputError(f"{path} holds {got}, wanted {known}")
    if len(by_kind) > 1:
        counts = " and ".join(f"{len(files)} {kind}" for kind, files in by_kind.items())
        raise InputError(f"{path} holds {counts}; point data.path at a folder that holds one kind")
    kind, files = next(iter(by_kind.items()))
    return kind, files, [f"ignored: {_counted(others)}, which are no {kind}"] if others else []


def _counted(others: Counter[str]) -> str:
    return ", ".join(f"{count} {suffix}" for suffix, count in others.most_common(4))


def _gather(kind: str, root: Path, path: Path, files: list[Path], settings: DataSettings) -> tuple[Gathered, Units]:
    """All clips, and the units they are in (a signal's scale follows once it is known who trains)."""
    size, every = settings.size or 64, settings.every
    title = _title(path)
    if kind == "tables":
        roles = tables.layout(files[0], settings.id, settings.time)
        if roles.id is not None and len(files) == 1:
            return _long_table(files[0], roles, settings)
        gathered = gather(
            title, files, lambda: tables.table_clips(root, files, roles), tables, vars(roles), settings.skip_bad
        )
        return gathered, Units(features=roles.features)
    find, reader, options, units = {
        "videos": (lambda: videos.video_clips(root, files, size, every), videos, [size, every], PIXELS),
        "images": (lambda: videos.frame_folder_clips(root, files, size, every), videos, [size, every], PIXELS),
        "recordings": (lambda: sound.recording_clips(root, files), sound, [], Units(rate=sound.RATE)),
        "arrays": (lambda: arrays.array_clips(root, files), arrays, [], PIXELS),
    }[kind]
    gathered = gather(title, files, find, reader, options, settings.skip_bad)
    return gathered, units if gathered.frames.dtype == np.uint8 or units.rate else Units()


def _long_table(path: Path, roles: tables.Layout, settings: DataSettings) -> tuple[Gathered, Units]:
    features: list[str] = []

    def find() -> list[Any]:
        clips, names = tables.long_table_clips(path, roles)
        features.extend(names)
        return clips

    gathered = gather(path.name, [path], find, tables, vars(roles), settings.skip_bad)
    names = tuple(name for name in roles.features if name not in gathered.labels)
    assert not features or tuple(features) == names
    return gathered, Units(features=names)


def _refuse(kind: str, settings: DataSettings) -> None:
    """Settings that mean nothing for this kind are mistakes."""
    pictures = ("videos", "images", "arrays")
    for key, kinds in (("size", pictures), ("every", pictures[:2]), ("id", ("tables",)), ("time", ("tables",))):
        given = getattr(settings, key)
        if given != DataSettings.model_fields[key].default and kind not in kinds:
            raise InputError(f"data.{key} = {given} is for {' and '.join(kinds)}, not for {kind}")


def _labels(path: Path, gathered: Gathered, settings: DataSettings) -> tuple[Labels, Indices, list[str]]:
    """Labels of the clips, which clips are kept, and notes: from a CSV, from the files themselves, from folders."""
    given = Path(settings.labels).expanduser() if settings.labels else None
    if given is None and path.is_dir():
        given = next((path / name for name in LABEL_FILES if (path / name).is_file()), None)
    columns = {**from_folders(gathered.names), **gathered.labels}
    if given is None:
        return code(columns), np.arange(len(gathered.names)), []
    said, kept, notes = from_csv(given, gathered.names, settings.skip_bad)
    columns = {name: [column[at] for at in kept] for name, column in columns.items()}
    # Where folders repeat what the CSV says, its name for it is the better one.
    unsaid = {name: column for name, column in columns.items() if list(column) not in said.values()}
    return code(unsaid | said), np.array(kept), [f"labels from {given}", *notes]
