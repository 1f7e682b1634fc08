"""a path of the user's own -> the reader for its kind of files -> Sequences"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from diskoop.data import gaps
from diskoop.data.assembly import WindowRule, assemble, group_label, window_of
from diskoop.data.chunks import ChunkedFrames, chunk_notes
from diskoop.data.clips import SKIP_HINT, Clip, ClipFrames, list_files, read_clips
from diskoop.data.formats import arrays, audio, columns, shards, stores, tables, videos
from diskoop.data.formats.addresses import ZARR_FILES, Folder
from diskoop.data.formats.shards import ShardSource
from diskoop.data.formats.stores import StoreSource
from diskoop.data.labels import LABEL_FILES, Labels, csv_labels, csv_labels_in_order, encode_labels, folder_labels
from diskoop.data.scaling import NON_FINITE, compute_statistics
from diskoop.data.sequences import PIXELS, Indices, Sequences, Units
from diskoop.data.splits import split_by_hash, text_key
from diskoop.errors import InputError, counted, quoted
from diskoop.input_files import exists, is_address, require_regular, require_text
from diskoop.settings import DataSettings

KINDS = {
    "videos": videos.VIDEO_SUFFIXES,
    "images": videos.IMAGE_SUFFIXES,
    "recordings": audio.SUFFIXES,
    "tables": tables.SUFFIXES,
    "arrays": arrays.SUFFIXES,
}


CHUNKED = ("stores", "shards")  # kinds that are read chunk by chunk where they are
WINDOW_RULES = {
    "videos": WindowRule(longest_whole=32, window=16),
    "images": WindowRule(longest_whole=32, window=16),
    "recordings": WindowRule(longest_whole=1000, window=400),
    "tables": WindowRule(longest_whole=512, window=128),
    "arrays": WindowRule(longest_whole=512, window=128),
}
# By rank. Sequences in one array have been cut already; only very long ones are cut again.
ARRAY_WINDOW_RULES = {3: WindowRule(longest_whole=2000, window=128), 5: WindowRule(longest_whole=64, window=16)}


def load(settings: DataSettings) -> Sequences:
    """All sequences at `settings.path`, a file or a folder of one kind."""
    assert settings.path is not None
    if is_address(settings.path):
        return _at_address(Folder.of(settings.path), settings)
    path = Path(settings.path).expanduser()
    if not exists(path):
        raise InputError(f"there is no file or folder {quoted(settings.path)}")
    require_text(path)
    if any((path / name).is_file() for name in ZARR_FILES):
        return _from_store(Folder.of(path), settings)
    kind, files, notes = _find_files(path, settings)
    if kind == "arrays" and path.is_dir() and _are_shards(files):
        label_file = _label_file(path, settings)
        settings = settings.model_copy(update={"labels": None if label_file is None else str(label_file)})
        return _from_shards(Folder.of(path), [file.relative_to(path).as_posix() for file in files], settings, notes)
    _check_options(kind, settings)
    if kind == "arrays" and path.is_file():
        return _from_arrays(path, settings)
    root = path if path.is_dir() else path.parent
    clip_frames, units = _read_files(kind, root, path, files, settings)
    labels, kept, label_notes = _read_labels(path, clip_frames, settings)
    clip_frames = clip_frames.select(kept)
    notes = [*notes, *clip_frames.notes, *label_notes, *labels.notes]
    rule = WINDOW_RULES[kind]
    dataset = assemble(_title(path), clip_frames, labels, units, settings, rule, tuple(notes), is_own=True)
    load_audio = (lambda name: audio.load_audio(root / name)) if kind == "recordings" else None
    return replace(dataset, load_audio=load_audio)


def _from_arrays(path: Path, settings: DataSettings) -> Sequences:
    """One file with an array of sequences, and perhaps arrays of labels."""
    contents = arrays.read_arrays(path, settings.max_expansion)
    x, crop_notes = contents.x, []
    if x.ndim == 5:
        if settings.size is not None and x.shape[-2:] != (settings.size, settings.size):
            crop_notes = videos.crop_notes(x.shape[-1], x.shape[-2])
            x = arrays.resize_video(path, x, settings.size)
        resizable = x.dtype == np.uint8 and x.shape[2] in (1, 3)
        arrays.check_frame(path, x.shape[2:], "; data.size=64 crops and resizes them" if resizable else "")
    columns, notes = _array_labels(path, contents)
    notes += crop_notes
    lengths = _lengths(path, x, columns)
    if settings.labels:
        columns |= csv_labels_in_order(Path(settings.labels).expanduser(), len(x))
    clip_frames, kept, statistics = ClipFrames.of(x, lengths), np.arange(len(x)), None
    if x.ndim == 3 or x.dtype != np.uint8:
        statistics = compute_statistics(clip_frames.frames, clip_frames.starts, lengths, np.ones(len(x), bool))
        if len(bad := statistics.non_finite):
            if not settings.skip_bad:
                raise InputError(f"{path}: sequence {bad[0]} holds {NON_FINITE}; mend it ({SKIP_HINT})")
            notes.append(f"left out: {counted(len(bad), 'sequence')} with {NON_FINITE}, the first {bad[0]}")
            kept = np.setdiff1d(kept, bad)
            clip_frames = replace(clip_frames, names=[f"{_title(path)} {row}" for row in range(len(x))])
    units = arrays.pixel_units(path, x, statistics) if x.ndim == 5 else Units(features=arrays.feature_names(contents))
    columns = {name: np.asarray(column)[kept] for name, column in columns.items()}
    labels = encode_labels(columns, always=(settings.group,))
    notes += labels.notes
    rule = ARRAY_WINDOW_RULES[x.ndim]
    return assemble(_title(path), clip_frames.select(kept), labels, units, settings, rule, tuple(notes), is_own=True)


def _at_address(folder: Folder, settings: DataSettings) -> Sequences:
    """A Zarr store or shards that may be elsewhere."""
    if folder.is_store():
        return _from_store(folder, settings)
    files = folder.files()
    suffixes = Counter(PurePosixPath(file).suffix.lower() or file for file in files)
    wanted = [file for file in files if PurePosixPath(file).suffix.lower() in shards.SUFFIXES]
    others = suffixes.copy()
    for suffix in shards.SUFFIXES:
        del others[suffix]
    if not wanted:
        got = _counted(others) or "nothing"
        raise InputError(f"{folder.address} holds {got}, wanted a Zarr store or .npy and .npz files")
    notes = [f"ignored: {_counted(others)}, which are no arrays"] if others else []
    return _from_shards(folder, wanted, settings, notes)


def _are_shards(files: list[Path]) -> bool:
    """Whether files of arrays hold many sequences each, by the first of them."""
    if files[0].suffix.lower() != ".npy":
        return files[0].suffix.lower() in shards.SUFFIXES
    with arrays.array_errors(files[0]), files[0].open("rb") as stream:
        return len(arrays.read_header(stream)[0]) in (3, 5)


def _from_store(folder: Folder, settings: DataSettings) -> Sequences:
    _check_options("stores", settings)
    source, contents = stores.open_store(folder)
    keys = np.arange(len(source), dtype=np.uint64)
    return _chunked(folder, source, keys, contents, settings, [])


def _from_shards(folder: Folder, files: list[str], settings: DataSettings, notes: list[str]) -> Sequences:
    _check_options("shards", settings)
    for file in files:
        if PurePosixPath(file).suffix.lower() not in shards.SUFFIXES:
            raise InputError(f"{folder.address}: {file} is no shard, wanted .npy and .npz files alone")
    source = shards.open_shards(folder, files)
    contents = arrays.Arrays(source, *source.labels())
    return _chunked(folder, source, source.keys(), contents, settings, notes)


def _chunked(
    folder: Folder,
    source: StoreSource | ShardSource,
    keys: NDArray[np.uint64],
    contents: arrays.Arrays,
    settings: DataSettings,
    notes: list[str],
) -> Sequences:
    """A set that stays where it is; `keys` (n,) say which sequences are in one split."""
    _check_chunked(folder, source, settings)
    count, time = source.shape[:2]
    label_arrays, label_notes = _array_labels(folder.address, contents)
    lengths = _lengths(folder.address, source, label_arrays)
    if settings.labels:
        label_arrays |= csv_labels_in_order(Path(settings.labels).expanduser(), count)
    labels = encode_labels(label_arrays, always=(settings.group,))
    notes = [*notes, *label_notes, *labels.notes]
    rule = ARRAY_WINDOW_RULES[source.ndim]
    longest = int(lengths.max())
    window, _ = window_of(rule, longest, settings)
    frames = ChunkedFrames(source, settings.shuffle_window * window, min(window, longest))
    starts = np.arange(count, dtype=np.int64) * time
    as_array = cast(NDArray[Any], frames)  # what the rest of the package does with frames, these can do
    clip_frames = ClipFrames(as_array, [], lengths, {}, tuple(notes), starts)
    split_codes = None
    if settings.split_by != "time" and not (settings.split_by == "auto" and count < 3):
        group = group_label(labels, settings)
        if group is not None:
            values = np.array([text_key(value) for value in labels.values[group]], np.uint64)
            keys = values[labels.codes[group]]
            notes.append(f"split by {group!r}, so that no value is in two splits (data.group=none splits by sequence)")
        split_codes = split_by_hash(keys, settings.val_fraction, settings.test_fraction, labels.split_codes)
    notes += chunk_notes(frames, settings.sample)
    units = PIXELS if source.ndim == 5 else Units(features=arrays.feature_names(contents))
    every = (folder.name, clip_frames, labels, units, settings, rule, tuple(notes))
    return assemble(*every, is_own=True, split_codes=split_codes)


def _check_chunked(folder: Folder, source: StoreSource | ShardSource, settings: DataSettings) -> None:
    """Raise an InputError where such sequences cannot be trained on as they are."""
    arrays.check_sequences(folder.address, source)
    if source.ndim == 5:
        if source.dtype != np.uint8:
            raise InputError(f"{folder.address} holds {source.dtype} frames, wanted uint8 from 0 to 255")
        arrays.check_frame(folder.address, source.shape[2:])
        if settings.size not in (None, source.shape[-1]):
            raise InputError(
                f"data.size = {settings.size}, but a set that is read chunk by chunk is read as it is: "
                f"{source.shape[2:]}"
            )


def _array_labels(path: str | Path, contents: arrays.Arrays) -> tuple[dict[str, Any], list[str]]:
    """Label columns of an array file, and notes about its arrays that are none.

    Raises:
        InputError: the lengths or the split are among those: padding would be learnt, or what is tested on.
    """
    columns: dict[str, Any] = dict(arrays.label_columns(contents))
    odd = {
        name: f"has shape {given.shape}"
        for name, given in contents.extra.items()
        if name not in columns and not arrays.is_naming(contents, name)
    }
    odd |= contents.skipped
    needed = {"lengths": "a whole number", "split": "train, val or test"}
    for name, why in odd.items():
        if value := needed.get(name.casefold()):
            raise InputError(f"{path}: {name!r} {why}, wanted {value} for each of {len(contents.x)} sequences")
    wanted = f"one value for each of {len(contents.x)} sequences is wanted"
    return columns, [f"{name!r} is no label: it {why}, {wanted}" for name, why in odd.items()]


def _lengths(path: str | Path, x: Any, columns: dict[str, Any]) -> Indices:
    """Valid frames of each sequence, (n,); taken out of `columns` where they are given there."""
    count, time = x.shape[:2]
    if "lengths" not in columns:
        return np.full(count, time)
    lengths = np.asarray(columns.pop("lengths"))
    wanted = f"{path}: the lengths should be whole numbers from 2 to {time}, got"
    if lengths.dtype.kind not in "uif":
        raise InputError(f"{wanted} {lengths.dtype} such as {quoted(lengths.tolist()[0])}")
    bad = lengths[~((lengths >= 2) & (lengths <= time) & (lengths == np.rint(lengths)))]
    if len(bad):
        raise InputError(f"{wanted} {bad[0]}")
    return lengths.astype(np.int64)


def _title(path: Path) -> str:
    return path.name or path.resolve().name


def _find_files(path: Path, settings: DataSettings) -> tuple[str, list[Path], list[str]]:
    """The kind of data at `path`, its files, and notes about files that are ignored."""
    if not path.is_dir():
        require_regular(path)
    candidates = list_files(path) if path.is_dir() else [path]
    label_file = _label_file(path, settings)
    files = [file for file in candidates if label_file is None or file.resolve() != label_file.resolve()]
    by_kind: dict[str, list[Path]] = {}
    others: Counter[str] = Counter()
    for file in files:
        kind = next((kind for kind, suffixes in KINDS.items() if file.suffix.lower() in suffixes), None)
        if kind is None:
            others[file.suffix.lower() or file.name] += 1
        else:
            by_kind.setdefault(kind, []).append(file)
    if len(by_kind) == 2 and "tables" in by_kind:  # with another kind a table is a list of its files
        others.update(file.name for file in by_kind.pop("tables"))
    if not by_kind:
        known = ", ".join(f"{kind} ({' '.join(suffixes)})" for kind, suffixes in KINDS.items())
        got = _counted(others) or ("nothing" if label_file is None else f"nothing but {label_file.name}")
        raise InputError(f"{path} holds {got}, wanted {known}")
    if len(by_kind) > 1:
        counts = " and ".join(f"{len(files)} {kind}" for kind, files in by_kind.items())
        raise InputError(f"{path} holds {counts}; point data.path at a folder that holds one kind")
    kind, files = next(iter(by_kind.items()))
    return kind, files, [f"ignored: {_counted(others)}, which are no {kind}"] if others else []


def _counted(others: Counter[str]) -> str:
    return ", ".join(f"{count} {suffix}" for suffix, count in others.most_common(4))


def _read_files(
    kind: str, root: Path, path: Path, files: list[Path], settings: DataSettings
) -> tuple[ClipFrames, Units]:
    """The frames of all clips and their units; `assemble` fits the scale of a signal."""

    def read(list_clips: Callable[[], list[Clip]], reader: ModuleType, *options: Any) -> ClipFrames:
        return read_clips(_title(path), files, list_clips, [reader], options, settings.skip_bad)

    if kind == "tables":
        options = columns.TableOptions.of(settings)
        reader = tables.TableReader(root, files, options)
        modules, key = [tables, columns, gaps], vars(options)
        clip_frames = read_clips(_title(path), files, reader.clips, modules, key, settings.skip_bad, reader.facts)
        return clip_frames, Units(features=clip_frames.features)
    if kind == "recordings":
        return read(lambda: audio.recording_clips(root, files), audio), Units(rate=audio.RATE)
    if kind == "arrays":
        clip_frames = read(lambda: arrays.array_clips(root, files), arrays)
        if clip_frames.frames.ndim == 2:
            return clip_frames, Units()
        if settings.size not in (None, clip_frames.frames.shape[-1]):
            raise InputError(
                f"data.size = {settings.size}, but a folder of arrays is read as it is: {clip_frames.frames.shape[1:]}"
            )
        return clip_frames, PIXELS
    frames, strip = videos.SquareFrames(settings.size or 64, settings.every), settings.strip

    def list_clips() -> list[Clip]:
        if kind == "videos":
            return videos.video_clips(root, files, frames)
        return videos.image_clips(root, files, frames, strip)

    choice = [kind, frames.size, frames.every, strip]
    return read_clips(_title(path), files, list_clips, [videos], choice, settings.skip_bad, frames.facts), PIXELS


def _check_options(kind: str, settings: DataSettings) -> None:
    """Raise an InputError for settings of another kind; `size` is let pass, since presets of video set it."""
    for_tables = ("id", "time", "columns", "drop", "words", "max_gap")
    kinds_of: dict[str, tuple[str, ...]] = {"every": ("videos", "images"), "strip": ("images",)}
    kinds_of |= dict.fromkeys(for_tables, ("tables",)) | dict.fromkeys(("shuffle_window", "sample"), CHUNKED)
    kinds_of["skip_bad"] = tuple(KINDS)  # what is read while training cannot be left out any more
    for key, kinds in kinds_of.items():
        given = getattr(settings, key)
        if given != DataSettings.model_fields[key].default and kind not in kinds:
            raise InputError(f"data.{key} = {given} is for {' and '.join(kinds)}, not for {kind}")


def _label_file(path: Path, settings: DataSettings) -> Path | None:
    """The CSV of labels: data.labels, or one in the folder with a usual name."""
    if settings.labels is not None:
        return Path(settings.labels).expanduser()
    entries = sorted(path.iterdir()) if path.is_dir() else []
    return next((entry for entry in entries if entry.name.lower() in LABEL_FILES and entry.is_file()), None)


def _read_labels(path: Path, clip_frames: ClipFrames, settings: DataSettings) -> tuple[Labels, Indices, list[str]]:
    """Labels from a CSV, from the files themselves and from folders; the clips that are kept; notes."""
    label_file = _label_file(path, settings)
    folders, notes = folder_labels(clip_frames.names)
    columns = {**folders, **clip_frames.labels}
    if label_file is None:
        return encode_labels(columns, always=(settings.group,)), np.arange(len(clip_frames.names)), notes
    csv_columns, kept, csv_notes = csv_labels(label_file, clip_frames.names, settings.skip_bad)
    columns = {name: [column[at] for at in kept] for name, column in columns.items()}
    # A folder that repeats a column of the CSV goes by the column's name, unless it is the split.
    known = list(csv_columns.values())
    others = {name: column for name, column in columns.items() if name == "split" or column not in known}
    labels = encode_labels(others | csv_columns, always=(settings.group,))
    return labels, np.array(kept), [*notes, f"labels from {label_file}", *csv_notes]
