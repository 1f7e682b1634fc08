"""Taking apart and putting together are inverse; edits are algebra; outputs are in the user's units."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from diskoop.analysis import decomposition
from diskoop.analysis.decomposition import Decomposition, chunk_size, chunks
from diskoop.data.sequences import Sequences, Units
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import fit_operator
from diskoop.numerics.mixing import Weights, batch_weights, pair_weights
from diskoop.numerics.spectrum import by_distance
from tests.helpers.decompositions import behind_identity

ON_CUDA = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA here"))


@pytest.fixture
def parts() -> Decomposition:
    """The oscillators behind identity networks: everything about them is known."""
    return behind_identity("oscillators", "test", 50)


def test_static_and_dynamic_are_the_known_parts(parts: Decomposition) -> None:
    known = truth("oscillators")
    static = torch.from_numpy(sum(known.projectors[name] for name in known.static))
    assert torch.allclose(parts.static, parts.z @ static, atol=1e-8)
    assert torch.allclose(parts.static + parts.dynamic, parts.z, atol=1e-12)
    assert torch.allclose(parts.static[:, 0], parts.static[:, -1], atol=1e-8)


def test_swaps_reach_the_decoded_frames(parts: Decomposition) -> None:
    donor = np.roll(np.arange(50), 7)
    known = truth("oscillators")
    static = sum(known.projectors[name] for name in known.static)
    x = parts.z.numpy()
    expected = x + (x[donor] - x) @ static
    assert np.allclose(parts.swap("static", donor).decode(), expected, atol=1e-8)
    assert np.allclose(parts.swap(["static", "dynamic"], donor).decode(), x[donor], atol=1e-8)
    assert np.allclose(parts.swap("static", donor, amount=0.25).decode(), x + 0.25 * (expected - x), atol=1e-8)
    assert np.array_equal(parts.swap("static", np.arange(50)).decode(), x)
    assert np.allclose(parts.swap(["static", "static"], donor).decode(), expected, atol=1e-8)
    assert np.array_equal(parts.swap([], donor).decode(), x)


def test_what_is_not_there_stays_away(parts: Decomposition) -> None:
    lengths = torch.arange(50) % 20 + 4
    mask = torch.arange(24) < lengths[:, None]
    masked = replace(parts, mask=mask)
    donor = np.roll(np.arange(50), 7)
    both = (mask & mask[donor]).numpy()
    swapped, plain = masked.swap("static", donor), parts.swap("static", donor).decode()
    assert swapped.mask is not None
    assert np.array_equal(swapped.mask.numpy(), both)
    assert np.array_equal(swapped.decode()[both], plain[both])
    assert (swapped.decode()[~both] == 0).all()
    assert np.array_equal(swapped.lengths, both.sum(1))
    assert parts.lengths.tolist() == [24] * 50


def test_modes_can_be_named_by_index(parts: Decomposition) -> None:
    donor = np.roll(np.arange(50), 1)
    by_index, by_name = parts.swap([0, 1, 2], donor), parts.swap("static", donor)
    assert torch.allclose(by_index.z, by_name.z, atol=1e-10)
    coefficients = parts.spectrum.project(by_index.z)
    assert torch.allclose(coefficients[..., :3], parts.coefficients[donor][..., :3], atol=1e-8)
    assert torch.allclose(coefficients[..., 3:], parts.coefficients[..., 3:], atol=1e-8)


def test_impossible_swaps_are_named(parts: Decomposition) -> None:
    everyone = np.arange(50)
    with pytest.raises(InputError, match=r"unknown factor 'sttaic'; did you mean 'static'\?"):
        parts.swap("sttaic", everyone)
    with pytest.raises(InputError, match="cut a conjugate pair"):
        parts.swap([4], everyone)
    with pytest.raises(InputError, match="expected 50 donors from 0 to 49"):
        parts.swap("static", everyone[:3])
    with pytest.raises(InputError, match="expected 50 donors from 0 to 49"):
        parts.swap("static", everyone + 1)
    with pytest.raises(InputError, match="expected 50 donors from 0 to 49"):
        parts.swap("static", everyone / 2)
    with pytest.raises(InputError, match="names or mode indices, got"):
        parts.swap(["static", 0.5], everyone)  # type: ignore[arg-type]


def test_a_mutual_exchange_done_twice_returns_both(parts: Decomposition) -> None:
    pairs = [(0, 9), (3, 20)]
    once = parts.exchange("static", pairs)
    assert torch.allclose(once.static[9], parts.static[0], atol=1e-10)
    assert torch.allclose(once.dynamic[9], parts.dynamic[9], atol=1e-10)
    assert torch.equal(once.z[1], parts.z[1])
    assert torch.allclose(once.exchange("static", pairs).z, parts.z, atol=1e-12)
    with pytest.raises(InputError, match="expected pairs that do not share a sequence"):
        parts.exchange("static", [(0, 1), (1, 2)])


def test_donors_may_be_named_one_by_one(parts: Decomposition) -> None:
    donor = np.arange(50)
    donor[4] = 7
    assert torch.equal(parts.swap("dynamic", {4: 7}).z, parts.swap("dynamic", donor).z)
    with pytest.raises(InputError, match="expected sequences from 0 to 49, got"):
        parts.swap("static", {0: 50})


def test_amounts_are_a_straight_line(parts: Decomposition) -> None:
    donor = np.roll(np.arange(50), 7)
    assert torch.equal(parts.swap("static", donor, amount=0).z, parts.z)
    whole = parts.swap("static", donor).z
    assert torch.allclose(parts.swap("static", donor, amount=2).z - parts.z, 2 * (whole - parts.z), atol=1e-12)


def test_coefficients_lift_to_latents_without_an_imaginary_part(parts: Decomposition) -> None:
    swapped = parts.swap("static", np.roll(np.arange(50), 7))
    lifted = swapped.coefficients @ swapped.spectrum.from_modes
    assert float(lifted.imag.abs().max()) < 1e-12
    assert torch.allclose(lifted.real, swapped.z, atol=1e-10)


def test_company_and_order_do_not_matter_to_a_frozen_operator(parts: Decomposition) -> None:
    few = parts.select([30, 2, 2])
    assert torch.equal(few.static, parts.static[[30, 2, 2]])
    assert torch.equal(few.swap("static", [1, 0, 2]).z[0], parts.swap("static", {30: 2}).z[30])
    assert few.clips.labels["mark"].tolist() == parts.clips.labels["mark"][[30, 2, 2]].tolist()
    mask = np.zeros(50, bool)
    mask[[7, 9]] = True
    assert torch.equal(parts.select(mask).z, parts.z[[7, 9]])
    for wrong in ([50], [0.9], [True, False]):
        with pytest.raises(InputError, match="expected sequences from 0 to 49, or a mask of 50, got"):
            parts.select(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", [pair_weights, batch_weights])
def test_samples_are_convex_combinations(parts: Decomposition, weights: Weights) -> None:
    new = parts.sample("static", torch.Generator().manual_seed(3), weights)
    shares = weights(50, torch.Generator().manual_seed(3))
    assert torch.allclose(new.static, torch.einsum("ij,jtk->itk", shares, parts.static), atol=1e-10)
    assert torch.allclose(new.dynamic, parts.dynamic, atol=1e-10)
    again = parts.sample("static", torch.Generator().manual_seed(3), weights)
    assert torch.equal(new.z, again.z)


def test_of_a_mixture_what_all_have_is_left(parts: Decomposition) -> None:
    lengths = torch.arange(50) % 20 + 4
    masked = replace(parts, mask=torch.arange(24) < lengths[:, None])
    shares = pair_weights(50, torch.Generator().manual_seed(3))
    new = masked.sample("static", torch.Generator().manual_seed(3))
    expected = [min([lengths[i], *lengths[shares[i] > 0]]) for i in range(50)]
    assert new.lengths.tolist() == expected
    assert (masked.sample("static", torch.Generator().manual_seed(3), batch_weights).lengths == 4).all()


def test_the_code_of_a_factor_is_its_mean_over_frames(parts: Decomposition) -> None:
    assert torch.allclose(parts.code("dynamic"), parts.dynamic.mean(1), atol=1e-12)
    lengths = torch.arange(50) % 20 + 4
    masked = replace(parts, mask=torch.arange(24) < lengths[:, None])
    assert torch.allclose(masked.code("dynamic")[6], parts.dynamic[6, : lengths[6]].mean(0), atol=1e-12)


def test_a_forecast_of_linear_motion_is_the_motion(parts: Decomposition) -> None:
    x = parts.z.numpy()
    ahead = parts.forecast(16, observed=8)
    assert ahead.z.shape == (50, 24, 8)
    assert np.array_equal(ahead.decode()[:, :8], x[:, :8])
    assert np.allclose(ahead.decode(), x, atol=1e-8)
    further = parts.forecast(3)
    C = truth("oscillators").operator
    assert np.allclose(
        further.decode()[:, 24:], np.stack([x[:, -1] @ np.linalg.matrix_power(C, r) for r in (1, 2, 3)], 1)
    )


def test_sequences_of_unequal_length_go_on_where_they_end(parts: Decomposition) -> None:
    lengths = torch.arange(50) % 20 + 4
    masked = replace(parts, mask=torch.arange(24) < lengths[:, None])
    ahead = masked.forecast(4)
    assert np.array_equal(ahead.lengths, lengths.numpy() + 4)
    x, long = parts.z.numpy(), parts.forecast(4).decode()
    for row, length in zip(range(50), lengths.tolist(), strict=True):
        assert np.allclose(ahead.decode()[row, : length + 4], long[row, : length + 4], atol=1e-8)
        assert np.array_equal(ahead.decode()[row, :length], x[row, :length])
        assert (ahead.decode()[row, length + 4 :] == 0).all()
    with pytest.raises(InputError, match="expected observed from 1 to 4, the shortest sequence, got 5"):
        masked.forecast(2, observed=5)
    with pytest.raises(InputError, match="expected a number of steps >= 1, got 0"):
        parts.forecast(0)


def test_rows_are_decoded_without_padding(parts: Decomposition) -> None:
    rows = replace(parts, mask=torch.arange(24) < torch.full((50, 1), 9)).rows()
    assert rows[3][0] == parts.clips.title(3)
    assert rows[3][1].shape == (9, 8)


# --- chunks


def decomposed(kind: str, lengths: np.ndarray | None, device: str = "cpu", count: int = 11) -> Decomposition:
    """Random networks around random latents; in float64, where one chunk's rounding is another's."""
    torch.manual_seed(0)
    pixels = kind.startswith("uint")
    frame, units = (
        (3, 32, 32) if pixels else (5,),
        Units(255.0, dtype=kind) if pixels else Units((2.0,) * 5, (1e3,) * 5, kind),
    )
    model = KoopmanAutoencoder.for_shape(frame, 4, 6, width=4).double().to(device)
    z = torch.randn(count, 7, 4, dtype=torch.float64)
    x = np.zeros((count, 7, *frame), kind)
    clips = Sequences.of(x, units=units, lengths=np.full(count, 7) if lengths is None else lengths)
    mask = None if clips.mask is None else torch.from_numpy(clips.mask).to(device)
    return Decomposition.of(model, fit_operator(z.to(device)), clips, z.to(device), 2, by_distance, mask)


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
@pytest.mark.parametrize("lengths", [None, np.arange(11) % 4 + 4])
@pytest.mark.parametrize("kind", ["uint8", "uint16", "float32", "float64"])
def test_chunks_together_are_what_decode_gives(
    kind: str, lengths: np.ndarray | None, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = decomposed(kind, lengths, device).swap("static", np.roll(np.arange(11), 1))
    monkeypatch.setattr(decomposition, "chunk_size", lambda *_: 11)
    whole = parts.units.from_model(parts.model.eval().decode(parts.z).detach()).cpu().numpy()  # in one go
    if parts.mask is not None:
        whole[~parts.mask.cpu().numpy()] = 0
    assert np.array_equal(parts.decode(), whole)
    monkeypatch.setattr(decomposition, "chunk_size", lambda *_: 3)
    pieces = list(parts.decoded())
    assert [len(piece) for piece in pieces] == [3, 3, 3, 2]
    assert {piece.device.type for piece in pieces} == {device}
    assert {piece.dtype for piece in pieces} == {getattr(torch, kind)}
    assert not any(piece.requires_grad for piece in pieces)
    again = torch.cat(pieces).cpu().numpy()
    assert np.array_equal(again, parts.decode())
    assert np.allclose(again, whole, rtol=1e-6, atol=1 if kind.startswith("uint") else 0)
    assert again.std() > 0


def test_a_chunk_is_decoded_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = decomposed("uint8", None)
    batch_sizes: list[int] = []
    parts.model.decoder.register_forward_pre_hook(lambda _, given: batch_sizes.append(len(given[0])))
    monkeypatch.setattr(decomposition, "CHUNK", 2)
    pieces = parts.decoded()
    assert batch_sizes == []
    next(pieces)
    assert batch_sizes == [2]


def test_a_gpu_gets_more_at_once() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    sprites = (8, 3, 64, 64)
    assert chunk_size(cpu, sprites) == decomposition.CHUNK
    assert (
        chunk_size(cuda, sprites) * 8 * 3 * 64 * 64
        <= decomposition.GPU_ELEMENTS
        < (chunk_size(cuda, sprites) + 1) * 8 * 3 * 64**2
    )
    assert chunk_size(cuda, (2, 1)) == decomposition.GPU_SEQUENCES
    assert chunk_size(cuda, (10**6, 3, 64, 64)) == 1
    assert [part.tolist() for part in chunks(5, 2)] == [[0, 1], [2, 3], [4]]


def test_a_factor_that_was_asked_for_once_can_be_used_again(parts: Decomposition) -> None:
    donor = np.roll(np.arange(50), 7)
    for what in ("static", ["static", "dynamic"], [0]):
        factor = parts.factor(what)
        assert torch.equal(parts.swap(factor, donor).z, parts.swap(what, donor).z)
    one, other = (parts.sample(what, torch.Generator().manual_seed(3)).z for what in (parts.factor("static"), "static"))
    assert torch.equal(one, other)


@pytest.mark.parametrize("device", [ON_CUDA])
@pytest.mark.parametrize("weights", [pair_weights, batch_weights])
def test_the_same_draws_are_used_on_every_device(weights: Weights, device: str) -> None:
    here, there = (decomposed("float64", None, where) for where in ("cpu", device))
    one, other = (each.sample("static", torch.Generator().manual_seed(3), weights).z for each in (here, there))
    assert torch.allclose(one, other.cpu(), atol=1e-9)
    donor = np.roll(np.arange(11), 2)
    assert torch.allclose(here.swap("dynamic", donor).z, there.swap("dynamic", donor).z.cpu(), atol=1e-9)


@pytest.mark.parametrize("device", [ON_CUDA])
def test_nothing_waits_for_the_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are drawn, sent, mixed, decoded and scaled while it works."""
    parts = decomposed("uint8", None, device)
    monkeypatch.setattr(decomposition, "GPU_ELEMENTS", 3 * 7 * 3 * 32 * 32)
    factor, draws = parts.factor("static"), torch.Generator().manual_seed(0)
    assert len(list(parts.sample(factor, draws).decoded())) == 4  # and everything has been set up
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in parts.sample(factor, draws).swap(factor, np.roll(np.arange(11), 1)).decoded():
            pass
    finally:
        torch.cuda.set_sync_debug_mode("default")
