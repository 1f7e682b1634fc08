"""What each kernel gains: `python benchmarks/kernels.py`

Times captured training steps at the settings of `paper-sprites` and `best-sprites` on CUDA, in bf16, all in turns in
one run: with all kernels, with each of them left out, with none (PyTorch's own layers), and with the frame networks
compiled by `torch.compile` in their place. A variant is captured as it is trained, so launches cost none of them
anything.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch

from diskoop.bench.steps import CASES, Case, captured_step, random_sequences, step_variant
from diskoop.bench.timing import BenchConfig, BenchTable, Variant, free_memory, time_interleaved, with_speedups
from diskoop.kernels import layers
from diskoop.models.frames import FrameDecoder, FrameEncoder
from diskoop.training import cuda_graph
from diskoop.workflows.benchmarks import print_bench_table
from diskoop.workflows.console import show_progress


def never(*_: object) -> bool:
    return False


# A kernel -> where the package asks whether it runs.
KERNELS = {
    "batch norm": (layers, "_has_batch_norm_kernel"),
    "small-channel convolutions": (layers, "_has_kernel"),
    "ridge solver": (cuda_graph, "solves_on_device"),
}


@contextmanager
def without(*kernels: str) -> Iterator[None]:
    with ExitStack() as stack:
        for kernel in kernels:
            stack.enter_context(patch.object(*KERNELS[kernel], never))
        yield


@contextmanager
def compiled() -> Iterator[None]:
    """Frame networks by `torch.compile` instead of the kernels; the solver stays."""
    originals = FrameEncoder.encode_frames, FrameDecoder.feature_maps, FrameDecoder.to_pixels
    torch.compiler.reset()

    def compile_(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        result: Callable[..., torch.Tensor] = torch.compile(function, dynamic=False)
        return result

    with (
        without("batch norm", "small-channel convolutions"),
        patch.object(FrameEncoder, "encode_frames", compile_(originals[0])),
        patch.object(FrameDecoder, "feature_maps", compile_(originals[1])),
        patch.object(FrameDecoder, "to_pixels", compile_(originals[2])),
    ):
        yield


def variants(case: Case, device: torch.device) -> dict[str, Variant]:
    """Steps that have been taken once, and so captured, as their name says."""
    ways = {
        "all kernels": without(),
        **{f"without {kernel}": without(kernel) for kernel in KERNELS},
        "none": without(*KERNELS),
        "torch.compile": compiled(),
    }
    data, built = random_sequences(case), {}
    for name, way in ways.items():
        with way:
            variant = step_variant(captured_step(case, data, device), case, data, device)
            variant()
        built[name] = variant
    return built


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    choice = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, "kernels run on CUDA, and there is none here\n")
    device = torch.device("cuda", 0)
    config = BenchConfig(device, choice.turns, progress=show_progress)
    for name in ("Sprites", "Sprites, best"):
        case = CASES[name].on(device, "bf16")
        timings = with_speedups(time_interleaved(variants(case, device), config, name))
        rows = [{"variant": variant, **timing} for variant, timing in timings.items()]
        print_bench_table(BenchTable(f"{name}: a captured step, {case}", rows))
        free_memory(device)


if __name__ == "__main__":
    main()
