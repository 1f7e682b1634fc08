"""encoder, decoder and swaps of a run as graphs in the data's units: torch.export and ONNX, compared with the model"""

import io
import logging
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from diskoop.data.sequences import Units
from diskoop.errors import InputError, MissingDependencyError
from diskoop.models.autoencoder import KoopmanAutoencoder, build_model
from diskoop.numerics.factors import Factor
from diskoop.run import Run
from diskoop.storage import atomic_write

SUFFIXES = {"onnx": ".onnx", "torch": ".pt2"}  # format -> suffix of its files
TOLERANCE = 1e-3  # of the outputs' deviation: other libraries add up in another order


class EncoderGraph(nn.Module):
    """Frames in the data's units, (batch, time, ...) -> latents, (batch, time, k)."""

    inputs, output = ("frames",), "latents"

    def __init__(self, model: KoopmanAutoencoder, units: Units) -> None:
        super().__init__()
        self.model, self.units = model, units

    def forward(self, frames: Tensor) -> Tensor:
        return self.model.encode(self.units.to_model(frames).to(next(self.model.parameters()).dtype))


class DecoderGraph(nn.Module):
    """Latents, (batch, time, k) -> frames in the data's units and dtype, (batch, time, ...)."""

    inputs, output = ("latents",), "frames"

    def __init__(self, model: KoopmanAutoencoder, units: Units) -> None:
        super().__init__()
        self.model, self.units = model, units

    def forward(self, latents: Tensor) -> Tensor:
        return self.units.from_model(self.model.decode(latents))


class SwapGraph(nn.Module):
    """Frames and donors, (batch, time, ...), and an amount, () -> frames with a factor moved towards the donors'.

    Amount 0 gives the reconstruction, 1 replaces the factor, more exaggerates.
    """

    inputs, output = ("frames", "donors", "amount"), "swapped"

    def __init__(self, model: KoopmanAutoencoder, units: Units, factor: Factor) -> None:
        super().__init__()
        self.encoder, self.decoder = EncoderGraph(model, units), DecoderGraph(model, units)
        self.register_buffer("projector", factor.projector.to(next(model.parameters())))  # (k, k)
        self.projector: Tensor

    def forward(self, frames: Tensor, donors: Tensor, amount: Tensor) -> Tensor:
        z = self.encoder(frames)
        swapped: Tensor = self.decoder(z + amount * (self.encoder(donors) - z) @ self.projector)
        return swapped


Graph = EncoderGraph | DecoderGraph | SwapGraph


@dataclass(frozen=True)
class ExportedGraph:
    """A graph in a file."""

    path: Path
    inputs: dict[str, str]  # name -> dtype and shape
    outputs: dict[str, str]
    difference: float  # from the model's own output on example clips, at most, in its deviations


def plain_model(run: Run) -> KoopmanAutoencoder:
    """The run's model on the CPU, without kernels that only this package knows."""
    model = build_model(run.settings.model, run.frame_shape)
    model.load_state_dict(run.model.state_dict())
    return model.to(next(run.model.parameters()).dtype).requires_grad_(False).eval()


def export_graph(graph: Graph, arguments: Sequence[Tensor], path: Path) -> ExportedGraph:
    """Write a graph to a file: `.onnx`, or `.pt2` for `torch.export.load`.

    The number of sequences is free, that of frames is that of the examples: recurrent layers are unrolled.

    Args:
        graph: what to export.
        arguments: its inputs for two example sequences at least, on which the file is compared with the graph.
        path: of the file, whose suffix is the format.

    Raises:
        MissingDependencyError: the packages that write ONNX are not installed.
        InputError: what was written computes something else.
    """
    write = {".onnx": _write_onnx, ".pt2": _write_torch}[path.suffix]
    batch = torch.export.Dim("batch", min=1)
    shapes = tuple({0: batch} if argument.ndim else None for argument in arguments)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these and the log's are about internals of the exporter
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        expected = graph(*arguments)
        program = torch.export.export(graph, tuple(arguments), dynamic_shapes=shapes)
        with atomic_write(path) as temporary:
            compute = write(program, temporary, graph)
            # All examples, and one alone.
            parts = (slice(None), slice(0, 1))
            pairs = [(compute([a[part] if a.ndim else a for a in arguments]), expected[part]) for part in parts]
            difference = max(_distance(got, wanted) for got, wanted in pairs) / _deviation(expected)
            if not difference <= (allowed := _tolerance(expected)):
                raise InputError(
                    f"{path.name} differs from the model by {difference:.2g} deviations of its output, wanted "
                    f"{allowed:.2g} at most; it was not written"
                )
    described = {name: _describe(value) for name, value in zip(graph.inputs, arguments, strict=True)}
    return ExportedGraph(path, described, {graph.output: _describe(expected)}, difference)


Compute = Callable[[list[Tensor]], NDArray[Any]]  # inputs -> the output of what was written


def _write_torch(program: torch.export.ExportedProgram, path: Path, graph: Graph) -> Compute:
    written = io.BytesIO()  # torch, writing by itself, ends the process where the disk is full
    torch.export.save(program, written)
    path.write_bytes(written.getbuffer())
    module = torch.export.load(path).module()
    return lambda inputs: np.asarray(module(*inputs))


def _write_onnx(program: torch.export.ExportedProgram, path: Path, graph: Graph) -> Compute:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - the exporter needs it
    except ImportError:
        raise MissingDependencyError(
            "ONNX needs onnx, onnxruntime and onnxscript: pip install 'diskoop[export]'"
        ) from None
    options = {"input_names": list(graph.inputs), "output_names": [graph.output]}
    written = torch.onnx.export(program, dynamo=True, verbose=False, **options)  # type: ignore[arg-type]
    assert written is not None
    written.save(path)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])

    def compute(inputs: list[Tensor]) -> NDArray[Any]:
        values = {name: value.numpy() for name, value in zip(graph.inputs, inputs, strict=True)}
        output: NDArray[Any] = session.run(None, values)[0]
        return output

    return compute


def _distance(got: NDArray[Any], expected: Tensor) -> float:
    """The largest difference."""
    if got.shape != expected.shape:
        return float("inf")
    return float(np.abs(got.astype(np.float64) - expected.double().numpy()).max())


def _deviation(expected: Tensor) -> float:
    return max(float(expected.double().std()), 1e-12)


def _tolerance(expected: Tensor) -> float:
    """How far an output may be off, in its deviations: whole numbers by one, since either neighbour may be nearer."""
    return TOLERANCE if expected.is_floating_point() else 1.001 / _deviation(expected)


def _describe(value: Tensor) -> str:
    shape = ", ".join(["batch", *map(str, value.shape[1:])]) if value.ndim else ""
    return f"{str(value.dtype).removeprefix('torch.')} ({shape})"
