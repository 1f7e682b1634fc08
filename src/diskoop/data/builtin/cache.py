"""arrays drawn once and kept in the cache folder, memory-mapped"""

import inspect
from collections.abc import Callable
from hashlib import sha256
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from diskoop.storage import cache_folder, whole_file

Draw = Callable[[NDArray[Any], Callable[[int], None]], None]  # fill an array, telling how far it got


def drawn_once(name: str, artist: ModuleType, size: int, shape: tuple[int, ...], draw: Draw) -> NDArray[Any]:
    """The uint8 array of `shape` that `draw` fills, read-only; from the cache if this version of `artist` drew it."""
    version = sha256(inspect.getsource(artist).encode()).hexdigest()[:8]
    path = cache_folder() / f"{name}-{size}-{version}.npy"
    if not path.exists():
        with whole_file(path) as temporary, Progress(console=Console(stderr=True), transient=True) as progress:
            out = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=shape)
            task = progress.add_task(f"drawing {name}, {size} pixels", total=shape[0])
            draw(out, lambda count: progress.advance(task, count))
            out.flush()
            del out
    drawn: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return drawn
