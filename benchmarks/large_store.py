"""Training on a store that is larger than a disk: `python benchmarks/large_store.py`

The store is 200 GB of puppets in Zarr chunks. No such file is needed: a file system of its own, `puppets://`, draws a
chunk when it is read, each clip with other clothes, another place and another first frame. The script trains for some
steps, fits the frozen operator to a sample, and prints the size of the set, what was drawn, the time, and the most
anonymous memory beyond that of the process with its model, sampled all the while. What draws is in that process too,
with its layers memory-mapped from temporary files.
"""

import argparse
import gc
import json
import math
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import numpy as np
import torch
import zarr
from fsspec.spec import AbstractFileSystem
from numpy.typing import NDArray
from zarr.storage import MemoryStore

from diskoop import run_folder
from diskoop.data.sets import puppet_art as art
from diskoop.memory import anonymous_memory
from diskoop.models.autoencoder import build_model
from diskoop.settings import Settings
from diskoop.training import loop
from diskoop.training.objective import Objective
from diskoop.training.progress import Reporter

SIZE = 64
ROWS = 64  # sequences in a chunk
CLIPS = math.prod(art.SHAPE)
STEP = 7919  # coprime to CLIPS: neighbours differ in every factor
FRAME = (art.FRAMES, 3, SIZE, SIZE)


class Drawing:
    """Puppets one by one, from layers that are drawn once and kept in a file."""

    def __init__(self, folder: Path) -> None:
        self.stacks: dict[tuple[int, bool, int], list[NDArray[np.uint8]]] = {}
        for verb, act in enumerate((art.walk, art.cheer, art.slash)):
            for profile in (False, True):
                for frame in range(art.FRAMES):
                    path = folder / f"{verb}-{profile}-{frame}"
                    self.stacks[verb, profile, frame] = [
                        _mapped(path.with_suffix(f".{layer}.npy"), stack)
                        for layer, stack in enumerate(art.scene(SIZE, act(frame / art.FRAMES, profile)))
                    ]

    def clip(self, index: int) -> NDArray[np.uint8]:
        """Sequence `index` of the set, (time, channel, height, width)."""
        *looks, action = values(np.array([index]))[:, 0].tolist()
        verb, direction = divmod(action, len(art.DIRECTIONS))
        turn = index // CLIPS
        out = np.empty(FRAME, np.uint8)
        for frame in range(art.FRAMES):
            layers = self.stacks[verb, direction > 0, (frame + turn // 16) % art.FRAMES]
            before, body, behind = (
                stack[tuple(look % size for look, size in zip(looks, stack.shape, strict=False))].astype(np.float32)
                for stack in layers
            )
            picture = art.over(_with_alpha(before), art.over(_with_alpha(body), behind)) + 0.5
            out[frame] = picture[..., :: -1 if art.DIRECTIONS[direction] == "left" else 1]
        return np.roll(out, turn % 16 - 8, -1)


def _mapped(path: Path, stack: NDArray[np.float32]) -> NDArray[np.uint8]:
    """A stack of layers as bytes, memory-mapped; the last but four axes are factors, the others a picture's."""
    scaled = stack.copy()
    scaled[..., 3:, :, :] *= 255  # alpha, where there is one
    np.save(path, np.rint(scaled).clip(0, 255).astype(np.uint8))
    mapped: NDArray[np.uint8] = np.load(path, mmap_mode="r")
    return mapped


def _with_alpha(layer: NDArray[np.float32]) -> NDArray[np.float32]:
    layer[3:] /= 255
    return layer


def values(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """The value of each factor in the sequences at `indices`, (factor, n)."""
    return np.stack(np.unravel_index(indices * STEP % CLIPS, art.SHAPE))


class PuppetFiles(AbstractFileSystem):  # type: ignore[misc]
    """Files of a Zarr store whose chunks are drawn when they are read: `puppets://SEQUENCES`."""

    protocol = "puppets"
    drawing: Drawing
    drawn = 0  # chunks

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.headers: dict[int, dict[str, bytes]] = {}

    def _split(self, path: str) -> tuple[int, str]:
        count, _, file = self._strip_protocol(path).partition("/")
        return int(count), file

    def files(self, count: int) -> dict[str, bytes]:
        """Everything but the chunks of `x`."""
        if count not in self.headers:
            content: dict[str, Any] = {}
            group = zarr.open_group(MemoryStore(content), mode="w")
            group.create_array("x", shape=(count, *FRAME), chunks=(ROWS, *FRAME), dtype="uint8", compressors=None)
            for name, codes in zip(art.FACTORS, values(np.arange(count)).astype(np.uint8), strict=True):
                group.create_array(name, data=codes)
            self.headers[count] = {name: buffer.to_bytes() for name, buffer in content.items()}
        return self.headers[count]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """The content of a file; of a chunk it is drawn."""
        count, file = self._split(path)
        files = self.files(count)
        if file in files:
            return files[file][start:end]
        if not file.startswith("x/c/"):
            raise FileNotFoundError(path)
        first = int(file.split("/")[2]) * ROWS
        chunk = np.zeros((ROWS, *FRAME), np.uint8)
        for row, index in enumerate(range(first, min(first + ROWS, count))):
            chunk[row] = self.drawing.clip(index)
        type(self).drawn += 1
        return chunk.tobytes()[start:end]

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Whether there is such a file or folder."""
        count, file = self._split(path)
        files = self.files(count)
        if file in files:
            return {"name": path, "size": len(files[file]), "type": "file"}
        if not file or any(name.startswith(f"{file}/") for name in files):
            return {"name": path, "size": 0, "type": "directory"}
        raise FileNotFoundError(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """What is in a folder, without chunks."""
        count, file = self._split(path)
        prefix = f"{file}/" if file else ""
        inner = {name[len(prefix) :].split("/")[0] for name in self.files(count) if name.startswith(prefix)}
        found = [self.info(f"{count}/{prefix}{name}") for name in sorted(inner)]
        return found if detail else [entry["name"] for entry in found]


class Cost(NamedTuple):
    """What training on the set took."""

    gigabytes: float  # of the set
    sequences: int
    chunks: int  # of the set
    drawn: int  # chunks that were read
    steps: int
    seconds: float  # of everything: opening, training, validations, the operator
    waiting: float  # fraction of the training's time spent waiting for data
    operator: str  # what it was fitted to
    anonymous: float  # peak MiB beyond the process with its model
    window: float  # MiB that the shuffle window's chunks take at most


@contextmanager
def peak_memory() -> Iterator[list[float]]:
    """The most anonymous memory beyond that at the beginning, in MiB, sampled every 10 ms."""
    gc.collect()
    before, peak, done = anonymous_memory(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], anonymous_memory() - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        done.set()
        watcher.join()


def warm_up(settings: Settings) -> None:
    """A step of the model on noise: what the networks themselves take is no part of the measurement."""
    objective = Objective(build_model(settings.model, FRAME[1:]), settings)
    x = torch.rand(settings.train.batch_size, *FRAME)
    objective(x, None, torch.Generator().manual_seed(0)).total.backward()


def measure(gigabytes: float, steps: int, sample: int, window: int, folder: Path) -> Cost:
    """Train on a set of such a size."""
    count = int(gigabytes * 1e9 / math.prod(FRAME))
    fsspec.register_implementation("puppets", PuppetFiles, clobber=True)
    PuppetFiles.drawing, PuppetFiles.drawn = Drawing(folder), 0
    data = {"path": f"puppets://{count}", "sample": sample, "shuffle_window": window}
    settings = Settings.of(
        {
            "data": data,
            "model": {"k": 16, "h": 32, "width": 8},
            "spectrum": {"static": 6},
            "train": {"steps": steps, "device": "cpu"},
        }
    )
    warm_up(settings)
    start = time.perf_counter()
    with peak_memory() as peak:
        loop.train(settings, folder / "run", reporter=Reporter())
    seconds = time.perf_counter() - start
    made = run_folder.RunFolder(folder / "run")
    rows = run_folder.read_metrics(made)
    model, _ = run_folder.load_model(made, settings)
    return Cost(
        count * math.prod(FRAME) / 1e9,
        count,
        -(-count // ROWS),
        PuppetFiles.drawn,
        steps,
        seconds,
        sum(row["waited"] for row in rows) / sum(row["seconds"] for row in rows),
        run_folder.load_operator(made, model, settings.model.k).fitted_on,
        peak[0],
        (window + 4 * ROWS) * math.prod(FRAME) / 2**20,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=200.0, help="logical size of the store")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--sample", type=int, default=512, help="data.sample")
    parser.add_argument("--window", type=int, default=2048, help="data.shuffle_window")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cost = measure(options.gigabytes, options.steps, options.sample, options.window, Path(folder))
    print(
        f"{'size':>8} {'sequences':>10} {'chunks read':>16} {'steps':>6} {'time':>7} {'waiting':>8} {'anonymous':>10}"
    )
    print(
        f"{cost.gigabytes:5.0f} GB {cost.sequences:10} {f'{cost.drawn} of {cost.chunks}':>16} {cost.steps:6} "
        f"{cost.seconds:5.0f} s {cost.waiting:8.1%} {cost.anonymous:6.0f} MiB"
    )
    print(f"operator: {cost.operator}; chunks in memory: {cost.window:.0f} MiB at most")
    if options.json:
        print(json.dumps(cost._asdict()))


if __name__ == "__main__":
    main()
