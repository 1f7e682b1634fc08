"""Known dynamics are forecast exactly, PyDMD agrees on any trajectory, and no forecast depends on the future."""

from dataclasses import dataclass, replace

import numpy as np
import pydmd
import pytest
import torch
from torch import Tensor, nn

from diskoop import load_data
from diskoop.analysis import decomposition, forecasting
from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.forecasting import METHODS, DMDForecaster, compute_forecasts, fit_dmd, forecast_errors
from diskoop.data.sequences import PIXELS, Sequences, Units
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from diskoop.models.autoencoder import KoopmanAutoencoder
from diskoop.numerics import Operator, by_distance, fit_operator
from tests.conftest import trajectories


@dataclass
class Identity:
    """A run whose networks pass frames of signals through, which makes its forecasts those of the operator."""

    operator: Operator
    decoder: nn.Module
    encoder: nn.Module

    def decompose(self, clips: Sequences) -> Decomposition:
        x, mask = clips.batch(np.arange(len(clips)), self.operator.matrix)
        model = KoopmanAutoencoder(self.encoder, self.decoder)
        return Decomposition.of(model, self.operator, clips, self.encoder(x), 3, by_distance, mask)


class Louder(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return z + 0.5


class AroundTheMean(nn.Module):
    """Not causal: every latent depends on every frame."""

    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)


def as_signal(x: Tensor) -> Sequences:
    return Sequences.of(x.numpy(), units=Units(dtype="float64"))


def with_noise(clips: Sequences) -> Sequences:
    noise = np.random.Generator(np.random.PCG64(0)).normal(0, 0.1, clips.frames.shape)
    return replace(clips, frames=clips.frames + noise)


def embedded(z: Tensor, features: int, generator: torch.Generator) -> Tensor:
    """`z` (n, time, k) seen through `features` > k sensors."""
    sensors: Tensor = torch.linalg.qr(torch.randn(features, z.shape[-1], generator=generator, dtype=z.dtype))[0]
    return z @ sensors.T


@pytest.fixture
def clips() -> Sequences:
    return load_data("oscillators", "test").select(range(100))


@pytest.fixture
def dmd(generator: torch.Generator) -> DMDForecaster:
    return fit_dmd(load_data("oscillators", "train"), 8, generator)


def run_on(clips: Sequences, decoder: nn.Module | None = None, encoder: nn.Module | None = None) -> Identity:
    operator = fit_operator(torch.from_numpy(clips.x), ridge=0)
    return Identity(operator, decoder or nn.Identity(), encoder or nn.Identity())


def test_dmd_recovers_the_oscillators(dmd: DMDForecaster, clips: Sequences) -> None:
    operator = dmd.basis @ dmd.operator.matrix @ dmd.basis.T
    assert np.allclose(operator.numpy(), truth("oscillators").operator, atol=1e-9)
    assert np.allclose(dmd.forecast(clips.x[:, :5], 19), clips.x[:, 5:], atol=1e-8)
    assert (dmd.rank, dmd.operator.sequences, dmd.operator.fitted_on) == (8, 1620, "oscillators, 1620 sequences")


@pytest.mark.filterwarnings("ignore:Input data condition")
def test_dmd_is_that_of_pydmd_where_the_dynamics_are_known(operator: Tensor, generator: torch.Generator) -> None:
    x = embedded(trajectories(operator, batch=1, time=40, generator=generator), 12, generator)
    ours, theirs = fit_dmd(as_signal(x[:, :30]), 7, generator), pydmd.DMD(svd_rank=7).fit(x[0, :30].T.numpy())
    found = torch.linalg.eigvals(ours.operator.matrix).numpy()
    assert np.allclose(np.sort_complex(found), np.sort_complex(theirs.eigs), atol=1e-5)
    assert np.allclose(np.sort_complex(found), np.sort_complex(torch.linalg.eigvals(operator).numpy()), atol=1e-5)
    theirs.dmd_time["tend"] = 39
    predicted = ours.forecast(x[:, :1].numpy(), 39)[0]
    assert np.allclose(predicted, theirs.reconstructed_data.real.T[1:], atol=1e-6)
    assert np.allclose(predicted, x[0, 1:], atol=1e-6)


@pytest.mark.parametrize("rank", [2, 5])
def test_dmd_is_that_of_pydmd_where_directions_are_cut_off(rank: int, generator: torch.Generator) -> None:
    """Noise makes every direction matter, so that both must cut off the same ones."""
    x = torch.randn(1, 30, 6, generator=generator, dtype=torch.float64).cumsum(1)
    ours, theirs = fit_dmd(as_signal(x), rank, generator), pydmd.DMD(svd_rank=rank).fit(x[0].T.numpy())
    found = torch.linalg.eigvals(ours.operator.matrix).numpy()
    assert np.allclose(np.sort_complex(found), np.sort_complex(theirs.eigs), atol=1e-9)
    assert np.allclose(ours.forecast(x[:, :1].numpy(), 29)[0], theirs.reconstructed_data.real.T[1:], atol=1e-8)


@pytest.mark.parametrize("chunk", [7, 64, 1000])
def test_dmd_of_many_is_streamed(
    chunk: int, clips: Sequences, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decomposition, "CHUNK", chunk)
    noisy = with_noise(replace(clips, lengths=np.arange(100) % 20 + 4))
    fitted = fit_dmd(noisy, 5, generator)
    x, mask = noisy.batch(np.arange(100), fitted.basis)
    chunk_size = fit_operator(x @ fitted.basis, mask, ridge=0)
    assert torch.allclose(fitted.operator.matrix, chunk_size.matrix, atol=1e-10)
    assert fitted.operator.steps == int((noisy.lengths - 1).sum())


def test_the_basis_comes_from_frames_that_have_a_successor(clips: Sequences, monkeypatch: pytest.MonkeyPatch) -> None:
    ragged = with_noise(replace(clips, lengths=np.arange(100) % 14 + 2))
    pasts = np.concatenate([x[: length - 1] for x, length in zip(ragged.x, ragged.lengths, strict=True)])
    assert np.array_equal(forecasting._sample_past_frames(ragged, torch.Generator()), pasts)
    monkeypatch.setattr(forecasting, "MAX_SAMPLE", 60)
    some = forecasting._sample_past_frames(ragged, torch.Generator().manual_seed(1))
    assert 40 < len(some) <= 60
    assert (some[:, None] == pasts).all(-1).any(1).all()
    first, again, other = (fit_dmd(ragged, 3, torch.Generator().manual_seed(seed)).basis for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_dmd_speaks_the_units_of_its_sequences(generator: torch.Generator, clips: Sequences) -> None:
    scale, offset = tuple(range(1, 9)), tuple(range(-40, 40, 10))
    shifted = Sequences.of(clips.x * scale + offset, units=Units(scale, offset, "float64"))
    predicted = fit_dmd(shifted, 8, generator).forecast(shifted.x[:, :4], 20)
    assert np.allclose(predicted, shifted.x[:, 4:], atol=1e-7)
    still = np.broadcast_to(np.arange(192, dtype=np.uint8).reshape(3, 8, 8), (2, 5, 3, 8, 8)).copy()
    predicted = fit_dmd(Sequences.of(still, units=PIXELS), 1, generator).forecast(still[:, :2], 3)
    assert predicted.dtype == np.uint8
    assert np.array_equal(predicted, still[:, 2:])


def test_known_errors_come_out(clips: Sequences, dmd: DMDForecaster) -> None:
    """Our operator is exact and our decoder is off by a half; the last frame is wrong by what moved since."""
    errors = forecast_errors(run_on(clips, Louder()), clips, steps=6, observed=4, dmd=dmd)
    assert np.allclose(errors.squares["ours"], 0.25, atol=1e-9)
    assert np.allclose(errors.squares["reconstruction"], 0.25, atol=1e-12)
    assert np.allclose(errors.squares["dmd"], 0, atol=1e-12)
    moved = clips.x[:, 4:10] - clips.x[:, 3:4]
    assert np.allclose(errors.squares["last_frame"], np.square(moved).mean(0), atol=1e-12)
    assert np.allclose(errors.deviations, clips.x.std((0, 1)))
    assert np.allclose(errors.curve("ours"), 0.5 / np.sqrt(clips.x.var((0, 1)).mean()))
    assert (errors.observed, errors.sequences, errors.left_out, errors.rank) == (4, 100, 0, 8)
    rows = errors.table()
    assert [row["horizon"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert rows[2] == {"horizon": 3, **{name: errors.curve(name)[2] for name in METHODS}}


def test_errors_are_in_the_users_units(clips: Sequences, dmd: DMDForecaster, generator: torch.Generator) -> None:
    units = Units(10.0, 300.0, "float64")
    shifted = Sequences.of(clips.x * 10 + 300, units=units)
    plain = forecast_errors(run_on(clips, Louder()), clips, 5, 4, dmd)
    scaled = forecast_errors(run_on(clips, Louder()), shifted, 5, 4, fit_dmd(shifted, 5, generator))
    for name in ("ours", "last_frame", "reconstruction"):
        assert np.allclose(scaled.squares[name], 100 * plain.squares[name], rtol=1e-6)
        assert np.allclose(scaled.curve(name), plain.curve(name), rtol=1e-6)  # relative to the deviation
    assert (np.sqrt(scaled.squares["dmd"].mean(1)) > 0.1).all()  # five directions are too few for eight


def test_no_feature_outweighs_the_others_by_its_unit(
    clips: Sequences, dmd: DMDForecaster, generator: torch.Generator
) -> None:
    """Hectopascals are a thousand times degrees here; errors in either count alike, and each is told by itself."""
    scale, offset = (1.0,) * 7 + (1000.0,), (0.0,) * 7 + (5000.0,)
    names = (*tuple("abcdefg"), "hPa")
    mixed = Sequences.of(clips.x * scale + offset, units=Units(scale, offset, "float64", names))
    plain = forecast_errors(run_on(clips, Louder()), clips, 5, 4, dmd)
    errors = forecast_errors(run_on(clips, Louder()), mixed, 5, 4, fit_dmd(mixed, 8, generator))
    for name in ("ours", "last_frame", "reconstruction"):
        assert np.allclose(errors.curve(name), plain.curve(name), rtol=1e-6)
    rows = errors.feature_table()
    assert [row["feature"] for row in rows] == list(names)
    assert [row["ours"] for row in rows] == pytest.approx([0.5] * 7 + [500])
    assert [row["deviation"] for row in rows] == pytest.approx(mixed.x.std((0, 1)).tolist())
    assert [row["feature"] for row in plain.feature_table()][:2] == ["feature 1", "feature 2"]


def test_pixels_do_not_wrap_around(generator: torch.Generator) -> None:
    """Differences of bytes are not bytes: white held where black follows is wrong by 255."""
    flash = np.zeros((1, 4, 3, 4, 4), np.uint8)
    flash[:, :2] = 255
    clips = Sequences.of(flash)

    class Flat:
        def decompose(self, clips: Sequences) -> Decomposition:
            x, mask = clips.batch(np.arange(len(clips)), torch.zeros((), dtype=torch.float64))
            z = x.flatten(2)[..., :3]
            model = KoopmanAutoencoder(nn.Identity(), nn.Sequential(nn.Unflatten(2, (3, 1, 1)), Spread()))
            operator = Operator(
                torch.diag(torch.tensor([1.0, 0.9, 0.8])).double(), torch.tensor(3), torch.ones(()), 1, 1
            )
            return Decomposition.of(model, operator, clips, z, 1, by_distance, mask)

    errors = forecast_errors(Flat(), clips, steps=2, observed=2, dmd=fit_dmd(clips, 1, generator))
    assert np.allclose(errors.squares["last_frame"], 255**2)
    assert np.allclose(errors.squares["reconstruction"], 0)
    assert np.allclose(errors.curve("last_frame"), 2)  # half of the frames are white: a deviation of 127.5
    (row,) = errors.feature_table()
    assert (row["feature"], row["last_frame"], row["deviation"]) == ("pixel value", 255, 127.5)


class Spread(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.expand(*x.shape[:3], 4, 4)


def test_what_is_too_short_is_left_out(clips: Sequences, dmd: DMDForecaster) -> None:
    run = run_on(clips, Louder())
    ragged = replace(clips, lengths=np.arange(100) % 20 + 4)
    enough = np.flatnonzero(ragged.lengths >= 11)
    errors = forecast_errors(run, ragged, 6, 5, dmd)
    same = forecast_errors(run, clips.select(enough), 6, 5, dmd)
    assert all(np.array_equal(errors.squares[name], same.squares[name]) for name in METHODS)
    assert errors.table() == forecast_errors(run, ragged.select(enough), 6, 5, dmd).table()
    assert (errors.sequences, errors.left_out) == (len(enough), 100 - len(enough))
    with pytest.raises(InputError, match="sequences of at least 24 frames, got 100 of 4 to 23 frames in oscillators"):
        forecast_errors(run, ragged, 20, 4, dmd)
    with pytest.raises(InputError, match="at least 1 step from at least 2 observed frames, got 0 and 4"):
        forecast_errors(run, clips, 0, 4, dmd)
    with pytest.raises(InputError, match="got 3 and 1"):
        forecast_errors(run, clips, 3, 1, dmd)


def test_the_future_has_no_say(clips: Sequences, dmd: DMDForecaster) -> None:
    """Not even through an encoder that looks at everything it is given."""
    run = run_on(clips, encoder=AroundTheMean())
    x = clips.x.copy()
    x[:, 6:] = 1e6
    changed = Sequences.of(x, units=clips.units)
    predicted, predicted_again = (compute_forecasts(run, some, 5, 6, dmd) for some in (clips, changed))
    for name in ("ours", "last_frame", "dmd"):
        assert predicted[name].shape == (100, 5, 8)
        assert np.array_equal(predicted[name], predicted_again[name])


def test_more_than_a_chunk_adds_up(clips: Sequences, dmd: DMDForecaster, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_on(clips, Louder())
    once = forecast_errors(run, clips, 4, 4, dmd)
    monkeypatch.setattr(decomposition, "CHUNK", 30)
    for row, same in zip(once.table(), forecast_errors(run, clips, 4, 4, dmd).table(), strict=True):
        assert row == pytest.approx(same)


def test_impossible_fits_are_named(clips: Sequences, dmd: DMDForecaster, generator: torch.Generator) -> None:
    sentence = "expected a rank from 1 to 8, as oscillators has 8 features per frame and .* frames are used, got "
    for rank in (0, 9):
        with pytest.raises(InputError, match=f"{sentence}{rank}"):
            fit_dmd(clips, rank, generator)
    with pytest.raises(InputError, match="the frames of an array hold NaN"):
        fit_dmd(as_signal(torch.full((1, 5, 3), torch.nan)), 2, generator)
    with pytest.raises(InputError, match=r"expected frames \(n, observed, 8\), got \(3, 8\)"):
        dmd.forecast(np.zeros((3, 8)), 2)
    with pytest.raises(InputError, match=r"expected frames \(n, observed, 8\), got \(3, 4, 7\)"):
        dmd.forecast(np.zeros((3, 4, 7)), 2)
