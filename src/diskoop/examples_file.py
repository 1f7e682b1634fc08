"""examples.npz: example clips of a run with labels and names, compressed, so that nothing has to be drawn to try it"""

import json
import zlib
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from diskoop.data.sequences import Sequences, Units
from diskoop.errors import InputError
from diskoop.input_files import check_expansion, parse_json, require_regular
from diskoop.run_folder import RunFolder
from diskoop.storage import atomic_write

FORMAT = "diskoop examples 1"
LABEL, FRAME_LABEL = "label ", "frame label "  # prefixes of the arrays that hold codes


def save_examples(folder: RunFolder, clips: Sequences) -> None:
    """Write `examples.npz` atomically: pixels as they are, signals in half precision, in the units of the data."""
    spans = [slice(start, start + length) for start, length in zip(clips.starts, clips.lengths, strict=True)]
    frames = np.concatenate([clips.frames[span] for span in spans])
    arrays: dict[str, Any] = {
        "frames": frames if frames.dtype == np.uint8 else frames.astype(np.float16),
        "lengths": clips.lengths,
        "offsets": np.zeros(len(clips), np.int64) if clips.offsets is None else clips.offsets,
        **{f"{LABEL}{name}": codes for name, codes in clips.labels.items()},
        **{
            f"{FRAME_LABEL}{name}": np.concatenate([codes[span] for span in spans])
            for name, codes in clips.frame_labels.items()
        },
    }
    record = {
        "format": FORMAT,
        "name": clips.name,
        "clips": [clips.clip_name(index) for index in range(len(clips))],
        "values": {name: [str(value) for value in values] for name, values in clips.values.items()},
    }
    with atomic_write(folder.examples) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, record=np.array(json.dumps(record)), **arrays)


def load_examples(folder: RunFolder, units: Units) -> Sequences:
    """Read `examples.npz`.

    Args:
        folder: of the run.
        units: the run's.

    Raises:
        InputError: the file is missing, damaged or of another format.
    """
    require_regular(folder.examples)
    try:
        with ZipFile(folder.examples) as archive:
            check_expansion(folder.examples, sum(member.file_size for member in archive.infolist()), allow="")
        with np.load(folder.examples, allow_pickle=False) as file:
            record = parse_json(str(file["record"]))
            if record["format"] != FORMAT:
                raise ValueError(f"expected the format {FORMAT!r}, got {record['format']!r}")
            frames, lengths = file["frames"], file["lengths"]
            names = list(dict.fromkeys(record["clips"]))  # several windows of one clip have its name
            return Sequences(
                frames if frames.dtype == np.uint8 else frames.astype(np.float32),
                np.cumsum(lengths) - lengths,
                lengths,
                {name.removeprefix(LABEL): file[name] for name in file.files if name.startswith(LABEL)},
                record["values"],
                units,
                record["name"],
                clips=np.array([names.index(name) for name in record["clips"]]),
                offsets=file["offsets"],
                clip_names=names,
                frame_labels={
                    name.removeprefix(FRAME_LABEL): file[name] for name in file.files if name.startswith(FRAME_LABEL)
                },
            )
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{folder.examples} is missing") from None
    except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile, zlib.error) as error:
        raise InputError(f"{folder.examples} is damaged: {error}") from None
