"""a run exported for other programs: graphs of encoder, decoder and swaps, a folder for model hubs"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diskoop.analysis.decomposition import FactorLike
from diskoop.data import Sequences
from diskoop.errors import InputError, suggest
from diskoop.export.graphs import SUFFIXES, DecoderGraph, EncoderGraph, Graph, SwapGraph, export_graph, plain_model
from diskoop.export.hub import write_hub_folder
from diskoop.run import Run
from diskoop.storage import atomic_folder, write_text

FORMATS = (*SUFFIXES, "hub")
NUM_EXAMPLES = 3  # clips on which a graph is compared with the model


def export_run(
    run: Run,
    clips: Sequences | None,
    out: str | Path,
    formats: Sequence[str] = ("onnx",),
    swaps: Mapping[str, FactorLike] | None = None,
    frames: int | None = None,
) -> tuple[list[Path], dict[str, Any]]:
    """Write graphs and a folder for hubs; `out` appears whole or not at all.

    Args:
        run: the run.
        clips: examples to compare graphs with the model on; None will do for a hub's folder alone.
        out: the folder, which must not exist or be empty.
        formats: some of FORMATS.
        swaps: name of a graph -> the factor that it swaps; several factors are swapped together.
        frames: of the sequences that graphs take; None is the length of the longest clip.

    Returns:
        The files, and what is in them as JSON.
    """
    if unknown := [name for name in formats if name not in FORMATS]:
        raise InputError(f"unknown format {unknown[0]!r}; {suggest(unknown[0], FORMATS)}")
    graph_formats = [name for name in dict.fromkeys(formats) if name in SUFFIXES]
    if swaps and not graph_formats:
        raise InputError(f"--swap makes a graph, wanted {' or '.join(SUFFIXES)} among the formats")
    out, swaps = Path(out), swaps or {}
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise InputError(f"{str(out)!r} exists already; choose another folder")
    stems = [_stem(name) for name in swaps]
    if twice := next((stem for stem in stems if stems.count(stem) > 1), None):
        raise InputError(f"two swaps would be written to {twice}; give one of them another name")
    facts: dict[str, Any] = {"run": run.folder.name, "graphs": [], "hub": None}
    with atomic_folder(out) as folder:
        for name in graph_formats:
            assert clips is not None
            for stem, graph, arguments in _graphs(run, clips, swaps, frames):
                written = export_graph(graph, arguments, folder / f"{stem}{SUFFIXES[name]}")
                described = {"inputs": written.inputs, "outputs": written.outputs, "difference": written.difference}
                facts["graphs"].append({"file": written.path.name, **described})
        if "hub" in formats:
            (folder / "hub").mkdir()
            facts["hub"] = [file.name for file in write_hub_folder(run, folder / "hub")]
        if graph_formats:
            write_text(folder / "graphs.json", json.dumps(facts["graphs"], indent=1) + "\n")
        names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
    return [out / name for name in names], facts


def _graphs(
    run: Run, clips: Sequences, swaps: Mapping[str, FactorLike], frames: int | None
) -> list[tuple[str, Graph, list[torch.Tensor]]]:
    """The graphs of a run: the stem of the file's name, the graph, example inputs."""
    model = plain_model(run)
    x = _example_frames(clips, frames)
    encoder, decoder = EncoderGraph(model, run.units), DecoderGraph(model, run.units)
    with torch.no_grad():
        latents = encoder(x)
    graphs: list[tuple[str, Graph, list[torch.Tensor]]] = [
        ("encoder", encoder, [x]),
        ("decoder", decoder, [latents]),
    ]
    parts = run.decompose(clips.select([0])) if swaps else None
    for name, factor in swaps.items():
        assert parts is not None
        graph = SwapGraph(model, run.units, parts.factor(factor))
        graphs.append((_stem(name), graph, [x, x.roll(1, 0), torch.ones((), dtype=latents.dtype)]))
    return graphs


def _stem(name: str) -> str:
    """The name of a swap's file, without its suffix."""
    return re.sub(r"[^\w-]+", "-", f"swap-{name}")


def _example_frames(clips: Sequences, frames: int | None) -> torch.Tensor:
    """A few clips of `frames` frames, in the data's own units, (n, frames, ...)."""
    if frames is not None and frames < 2:
        raise InputError(f"expected 2 frames at least, got {frames}")
    if len(clips) < 2:
        raise InputError(f"expected two clips at least to compare the graphs on, got {len(clips)}")
    length = frames or int(clips.lengths.max())
    long = np.flatnonzero(clips.lengths >= length)
    if len(long) < 2:
        raise InputError(
            f"expected two clips of {length} frames to compare the graphs on, got {len(long)}; --frames takes up to "
            f"{int(np.sort(clips.lengths)[-2])}"
        )
    return torch.from_numpy(np.array(clips.read(long[:NUM_EXAMPLES])))[:, :length]
