"""Clips are shifted as wholes, by whole pixels, and their borders repeated."""

import torch

from diskoop.training.augment import shift_clips


def test_a_clip_moves_as_a_whole() -> None:
    x = torch.rand(3, 4, 2, 32, 32, dtype=torch.float64)
    draws = torch.tensor([[0.5, 0.5], [0.99, 0.5], [0.5, 0.0]], dtype=torch.float64)
    moved = shift_clips(x, draws)
    assert torch.equal(moved[0], x[0])  # the middle of the draw is no shift
    assert torch.equal(moved[1][..., 2:, :], x[1][..., :-2, :])  # two pixels down
    assert torch.equal(moved[1][..., :2, :], x[1][..., :1, :].expand(4, 2, 2, 32))
    assert torch.equal(moved[2][..., :-2], x[2][..., 2:])  # two pixels to the left


def test_every_shift_is_drawn_and_none_is_larger() -> None:
    x = torch.arange(64.0).expand(512, 1, 1, 64, 64)
    draws = torch.rand(512, 2, generator=torch.Generator().manual_seed(0))
    middle = shift_clips(x, draws)[:, 0, 0, 32, 32]
    assert set((32 - middle).int().tolist()) == set(range(-4, 5))
