"""what a data set holds, in words and in a picture"""

from pathlib import Path
from typing import Any

import numpy as np

from diskoop.data import SPLITS, files, load_data
from diskoop.pictures import contact_sheet, save_figure


def describe_data(name: str, size: int | None) -> dict[str, Any]:
    everything = load_data(name, "all", size)
    beside = files.unused(Path(name)) if Path(name).suffix == ".npz" else {}
    # A sample says enough about the range, and a large set need not be read for it.
    seen = everything.take(_spread(len(everything), 256))
    return {
        "name": name,
        "kind": "video (time, channel, height, width)" if everything.is_video else "signal (time, feature)",
        "sequences": {split: len(load_data(name, split, size)) for split in SPLITS},
        "shape": list(everything.shape[1:]),
        "type": str(everything.source.dtype),
        "range": [float(seen.min()), float(seen.max())],
        "labels": {label: list(values) for label, values in everything.values.items()},
        "not_labels": beside,
    }


def preview(name: str, size: int | None, count: int, path: Path) -> Path:
    """A contact sheet of `count` sequences spread over the whole set."""
    everything = load_data(name, "all", size)
    return save_figure(contact_sheet(everything, [int(i) for i in _spread(len(everything), count)]), path)


def _spread(total: int, count: int) -> np.ndarray:
    return np.sort(np.random.Generator(np.random.PCG64(0)).permutation(total)[:count])
