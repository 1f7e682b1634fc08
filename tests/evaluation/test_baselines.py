"""Baselines agree with closed forms and with SciPy, forget padding, and can be asked whatever a run can be asked."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import scipy.fft
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import nn

from diskoop import load_data
from diskoop.analysis import decomposition
from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.results import DiscoveryResult
from diskoop.data.sequences import Sequences, Units
from diskoop.data.sets.oscillators import truth
from diskoop.errors import InputError
from diskoop.evaluation import baselines
from diskoop.evaluation.baselines import (
    leaky_model,
    mean_cepstrum,
    mean_spectrum,
    pca_dmd,
    slow_features,
    untrained_network,
)
from diskoop.models import linear
from diskoop.models.autoencoder import build_model
from diskoop.numerics import fit_operator
from diskoop.run import Run
from diskoop.run_folder import RunFolder
from diskoop.settings import Settings
from diskoop.training.frozen_operator import fit_frozen_operator

Array = NDArray[Any]
Baseline = Callable[..., Run]
LINEAR = [pca_dmd, slow_features]
EVERY = [pca_dmd, slow_features, untrained_network]


def run_on(train: Sequences, k: int, static: int, dtype: torch.dtype = torch.float32, ridge: float = 1e-9) -> Run:
    """A run that has learnt nothing yet."""
    settings = Settings.of(
        {
            "model": {"k": k, "h": 8, "width": 4, "ridge": ridge},
            "spectrum": {"static": static},
            "train": {"batch_size": 24},
        }
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(99)
        model = build_model(settings.model, train.shape[2:]).to(dtype).eval()
    return Run(settings, model, fit_frozen_operator(model, train, 24), train.units, RunFolder(Path("runs/nowhere")))


def random(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def sensed(features: int) -> tuple[Sequences, Array]:
    """The oscillators through `features` > 8 sensors, and the part of them that stays.

    Every motion comes with its opposite, so that the mean is a fixed point, as it is in a set without end.
    """
    x = load_data("oscillators", "train").select(range(150)).x
    known = truth("oscillators")
    still = x @ sum(known.projectors[name] for name in known.static)
    sensors = np.linalg.qr(random().normal(size=(features, 8)))[0].T
    both = np.concatenate([x, 2 * still - x]) @ sensors + np.linspace(-1, 2, features)
    return Sequences.of(both, units=Units(dtype="float64")), np.concatenate([still, still]) @ sensors


def ragged() -> Sequences:
    """Signals of unequal length, wandering and noisy along each of seven features, and nonsense in between."""
    count, time, draw = 40, 30, random(1)
    lengths = draw.integers(2, time + 1, count)
    smooth = draw.normal(size=(count, time, 7)).cumsum(1) * np.geomspace(1, 0.05, 7)
    x = (smooth + draw.normal(size=smooth.shape)) @ draw.normal(size=(7, 7)) + 3
    x[np.arange(time) >= lengths[:, None]] = np.nan
    return Sequences.of(x, lengths=lengths, units=Units(tuple(range(1, 8)), 2.0, "float64"))


def real_frames(clips: Sequences) -> tuple[Array, Array]:
    """In the model's units (frames, features), and the differences between those that are neighbours."""
    x = [
        (x[:length] - clips.units.offset) / clips.units.scale for x, length in zip(clips.x, clips.lengths, strict=True)
    ]
    return np.concatenate(x), np.concatenate([np.diff(each, axis=0) for each in x])


def latents(run: Run, clips: Sequences) -> Array:
    """(frames, k): those of real frames."""
    z = run.decompose(clips).z.double().numpy()
    return z if clips.mask is None else z[clips.mask]


def film(lengths: Array | None = None) -> Sequences:
    """Forty pictures made of three colours in four places, under a lamp that goes round."""
    count, time, draw = 40, 6, random(2)
    picture = draw.uniform(60, 200, (count, 1, 3, 2, 2)).repeat(16, 3).repeat(16, 4)
    turn = 2 * np.pi * (draw.random((count, 1)) + np.arange(time) / time)[..., None, None, None]
    at = np.linspace(-1, 1, 32)
    lamp = 50 * (np.cos(turn) * at + np.sin(turn) * at[:, None])
    return Sequences.of((picture + lamp).astype(np.uint8), lengths=np.full(count, time) if lengths is None else lengths)


@pytest.mark.parametrize("baseline", LINEAR)
@pytest.mark.parametrize("features", [12, 40])  # fewer and more than the directions that are looked along
def test_a_linear_system_is_recovered(baseline: Baseline, features: int) -> None:
    clips, still = sensed(features)
    run = baseline(run_on(clips, 8, 3), clips)
    found = torch.linalg.eigvals(run.operator.matrix).numpy()
    true = np.linalg.eigvals(truth("oscillators").operator)
    apart = np.abs(found[:, None] - true)
    assert max(apart.min(0).max(), apart.min(1).max()) < 1e-6
    assert (np.abs(found - 1) < 1e-6).sum() == 3
    parts = run.decompose(clips)
    assert np.allclose(parts.decode(), clips.x, atol=1e-5)
    donors = random().permutation(len(clips))
    assert np.allclose(parts.swap("static", donors).decode(), clips.x - still + still[donors], atol=1e-5)
    assert np.allclose(run.decompose(clips.x[:, :5]).forecast(19).decode(), clips.x, atol=1e-4)


@pytest.mark.parametrize("k", [3, 7])
def test_principal_components_are_those_of_the_covariance(k: int) -> None:
    clips = ragged()
    run = pca_dmd(run_on(clips, k, 1, torch.float64), clips)
    frames, _ = real_frames(clips)
    variances, directions = np.linalg.eigh(np.cov(frames.T, bias=True))
    expected = (frames - frames.mean(0)) @ directions[:, ::-1][:, :k] / np.sqrt(variances[::-1][:k])
    z = latents(run, clips)
    signs = np.sign((z * expected).mean(0))
    assert np.allclose(z, expected * signs, atol=1e-9)
    lossy = frames.mean(0) + (frames - frames.mean(0)) @ directions[:, -k:] @ directions[:, -k:].T
    decoded = run.decompose(clips).decode()
    assert np.allclose(decoded[clips.mask], lossy * clips.units.scale + clips.units.offset, atol=1e-8)


@pytest.mark.parametrize("k", [3, 7])
def test_slow_features_solve_the_generalised_problem(k: int) -> None:
    clips = ragged()
    run = slow_features(run_on(clips, k, 1, torch.float64), clips)
    frames, steps = real_frames(clips)
    slowness, readings = scipy.linalg.eigh(steps.T @ steps / len(steps), np.cov(frames.T, bias=True))
    expected = (frames - frames.mean(0)) @ readings[:, :k]
    z = latents(run, clips)
    assert np.allclose(z, expected * np.sign((z * expected).mean(0)), atol=1e-8)
    lossy = frames.mean(0) + z @ np.linalg.lstsq(z, frames - frames.mean(0), rcond=None)[0]
    decoded = run.decompose(clips).decode()
    assert np.allclose(decoded[clips.mask], lossy * clips.units.scale + clips.units.offset, atol=1e-8)
    assert (np.diff(slowness[:k]) > 0).all()


@pytest.mark.parametrize("baseline", LINEAR)
def test_latents_are_white_whatever_frames_were_sampled(baseline: Baseline, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = film()
    run = run_on(clips, 5, 2)
    whole = latents(baseline(run, clips), clips).reshape(-1, 5)
    monkeypatch.setattr(linear, "SAMPLE_FRAMES", 8)
    z, again, other = (latents(baseline(run, clips, seed), clips).reshape(-1, 5) for seed in (0, 0, 1))
    for each in (whole, z, other):
        assert np.allclose(each.mean(0), 0, atol=1e-5)
        assert np.allclose(each.T @ each / len(each), np.eye(5), atol=1e-4)
    assert np.array_equal(z, again)
    assert not np.allclose(np.abs(z), np.abs(other), atol=0.1)
    assert not np.allclose(np.abs(z), np.abs(whole), atol=0.1)


def test_a_sample_is_of_real_frames_in_the_models_units(monkeypatch: pytest.MonkeyPatch) -> None:
    clips = ragged()
    frames = real_frames(clips)[0]
    same = (linear._sample_frames(clips, 0).numpy()[:, None] == frames).all(-1)
    assert same.any(1).all()
    assert same.any(0).mean() > 0.8
    monkeypatch.setattr(linear, "SAMPLE_FRAMES", 50)
    assert 30 < len(linear._sample_frames(clips, 0)) <= 50


def test_a_sample_finds_nearly_the_directions_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are 3072 numbers in a frame and 15 directions are looked along."""
    monkeypatch.setattr(linear, "SAMPLE_FRAMES", 100)
    clips = film()
    run = pca_dmd(run_on(clips, 5, 2), clips)
    frames = torch.from_numpy(clips.x.reshape(-1, 3072) / 255)
    lost = np.square(clips.x / 255 - run.decompose(clips).decode() / 255).sum() / len(frames)
    least = torch.linalg.svdvals(frames - frames.mean(0))[5:].square().sum() / len(frames)
    assert lost < 1.02 * least + 3072 / 12 / 255**2  # and what rounding loses


@pytest.mark.parametrize("baseline", EVERY)
def test_the_pass_over_all_frames_is_streamed(baseline: Baseline, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = ragged()
    run = run_on(clips, 4, 1, torch.float64)
    chunk_size = baseline(run, clips)
    monkeypatch.setattr(linear, "CHUNK", 7)
    streamed = baseline(run, clips)
    for mine, other in zip(streamed.model.parameters(), chunk_size.model.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-10)
    assert torch.allclose(streamed.operator.matrix, chunk_size.operator.matrix, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("baseline", EVERY)
def test_a_baseline_is_a_run_of_its_own(baseline: Baseline, dtype: torch.dtype) -> None:
    clips = ragged()
    run = run_on(clips, 4, 1, dtype, ridge=1e-6)
    before = [weight.clone() for weight in run.model.parameters()]
    built = baseline(run, clips)
    assert {weight.dtype for weight in built.model.parameters()} == {dtype}
    assert not built.model.training
    parts = built.decompose(clips)
    fitted = fit_operator(parts.z, parts.mask)
    assert torch.allclose(built.operator.matrix, fitted.matrix, atol=1e-9)
    assert built.operator.fitted_on == "an array, 40 training sequences"
    assert (built.settings, built.units, built.factors) == (run.settings, run.units, None)
    assert built.folder.path == run.folder.path / baseline.__name__
    assert all(torch.equal(*pair) for pair in zip(before, run.model.parameters(), strict=True))


@pytest.mark.parametrize("ridge", [1e-9, 0.0])
@pytest.mark.parametrize("baseline", LINEAR)
def test_latents_without_a_direction_stay_zero(baseline: Baseline, ridge: float) -> None:
    """Eight directions in twelve features, and ten latents."""
    clips, still = sensed(12)
    run = baseline(run_on(clips, 10, 3, ridge=ridge), clips)
    parts = run.decompose(clips)
    assert torch.equal(parts.z[..., 8:], torch.zeros(300, 24, 2))
    assert run.operator.rank == 8
    assert int((parts.spectrum.eigenvalues == 0).sum()) == 2
    swapped = parts.swap("static", np.arange(300)[::-1].copy()).decode()
    assert np.allclose(swapped, clips.x - still + still[::-1], atol=1e-5)
    found = run.find_factors(clips)
    assert sum(each.dimensions for each in found.factors) == 10
    assert len([each for each in found.factors if not each.is_motion]) >= 2


@pytest.mark.parametrize("noise", [0.0, 1e-7])
@pytest.mark.parametrize("baseline", LINEAR)
def test_frames_that_float32_cannot_tell_apart_have_no_direction(baseline: Baseline, noise: float) -> None:
    draw = random()
    x = draw.normal(size=5) + noise * draw.normal(size=(3, 4, 5))
    clips = Sequences.of(x, units=Units(dtype="float64"))
    parts = baseline(run_on(clips, 2, 1), clips).decompose(clips)
    assert not parts.z.any()
    assert np.allclose(parts.decode(), x, atol=1e-6)


@pytest.mark.parametrize("lengths", [None, np.arange(40) % 5 + 2])
@pytest.mark.parametrize("baseline", EVERY)
def test_whatever_is_asked_of_a_run_can_be_asked(baseline: Baseline, lengths: Array | None) -> None:
    clips = film(lengths)
    run = baseline(run_on(clips, 6, 2), clips)
    parts = run.decompose(clips)
    video = parts.swap("static", np.arange(40)[::-1].copy()).decode()
    assert video.shape == clips.shape
    assert video.dtype == np.uint8
    assert not np.array_equal(video, parts.decode())
    assert parts.sample("dynamic", torch.Generator().manual_seed(0)).decode().shape == clips.shape
    assert parts.forecast(3).decode().shape == (40, 9, 3, 32, 32)
    found = run.find_factors(clips)
    named = replace(run, factors=found).decompose(clips)
    assert named.swap(found.names[0], [1, 0, *range(2, 40)]).decode().shape == clips.shape
    with pytest.raises(InputError, match=r"expected .*\(batch, time, 3, 32, 32\), got \(1, 2, 3, 64, 16\)"):
        run.decompose(np.zeros((1, 2, 3, 64, 16), np.uint8))


def test_factors_that_are_kept_do_not_replace_the_runs(tmp_path: Path) -> None:
    clips = film()
    run = replace(run_on(clips, 6, 2), folder=RunFolder(tmp_path), factors=DiscoveryResult((), "label-free", "nowhere"))
    baseline = pca_dmd(run, clips)
    assert baseline.factors is None
    baseline.save_factors(baseline.find_factors(clips))
    assert not run.folder.factors.exists()
    assert baseline.folder.factors.exists()


def test_the_untrained_network_is_what_a_seed_makes() -> None:
    clips = film()
    run = run_on(clips, 6, 2)
    state = torch.get_rng_state()
    first, again, other = (untrained_network(run, clips, seed) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), state)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        fresh = build_model(run.settings.model, (3, 32, 32))
    for mine, same, known in zip(first.model.parameters(), again.model.parameters(), fresh.parameters(), strict=True):
        assert torch.equal(mine, same)
        assert torch.equal(mine, known)
    assert torch.equal(first.decompose(clips).z, again.decompose(clips).z)
    assert not torch.allclose(first.decompose(clips).z, other.decompose(clips).z, atol=0.01)
    assert not torch.allclose(first.decompose(clips).z, run.decompose(clips).z, atol=0.01)


def layers(run: Run) -> Any:
    return run.model.encoder.frames


def test_batch_norm_has_seen_real_frames_before_the_untrained_network_is_used() -> None:
    clips = film(np.arange(40) % 5 + 2)
    baseline = untrained_network(run_on(clips, 6, 2), clips)
    x, mask = clips.batch(np.arange(40), torch.zeros(()))
    assert mask is not None
    with torch.no_grad():
        seen = layers(baseline)[0](x[mask])
        codes = layers(baseline)(x[mask]).flatten(1)
        decoded = baseline.model.decode(baseline.model.encode(x, mask), mask)[mask]
    assert torch.allclose(layers(baseline)[1].running_mean, seen.mean((0, 2, 3)), atol=1e-6)
    assert torch.allclose(layers(baseline)[1].running_var, seen.var((0, 2, 3)), rtol=1e-3)
    # Batch norm as it begins leaves less than 0.05 and 1e-4.
    assert codes.std(0).min() > 0.4
    assert decoded.std(0).mean() > 0.01
    norms = [module for module in baseline.model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert len(norms) == 7
    assert all(norm.num_batches_tracked == 1 for norm in norms)


def test_batch_norm_settles_on_sequences_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "CALIBRATION_CLIPS", 24)
    monkeypatch.setattr(decomposition, "CHUNK", 10)
    clips = film()
    run, batch, taken = run_on(clips, 6, 2), Sequences.batch, list[Array]()

    def watched(self: Sequences, indices: Array, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        taken.append(indices)
        return batch(self, indices, weight)

    monkeypatch.setattr(Sequences, "batch", watched)
    baseline = untrained_network(run, clips)
    settling = taken[:3]
    assert [len(indices) for indices in settling] == [10, 10, 4]
    drawn = np.concatenate(settling)
    assert len(np.unique(drawn)) == 24
    assert drawn.max() > 30
    with torch.no_grad():
        means = [
            layers(baseline)[0](batch(clips, at, torch.zeros(()))[0].flatten(0, 1)).mean((0, 2, 3)) for at in settling
        ]
    assert torch.allclose(layers(baseline)[1].running_mean, torch.stack(means).mean(0), atol=1e-6)


def recordings(count: int = 9, seed: int = 3) -> Sequences:
    """Log spectrograms of unequal length."""
    draw = random(seed)
    lengths = np.append(draw.integers(2, 12, count - 1), 12)
    logs = draw.normal(-4, 2, (count, 12, 201)) - np.linspace(0, 6, 201)
    scale, offset = np.linspace(1, 3, 201), np.linspace(-5, -9, 201)
    units = Units(tuple(scale.tolist()), tuple(offset.tolist()), rate=16_000)
    return Sequences.of(logs.astype(np.float32), lengths=lengths, units=units)


def test_mean_spectra_are_of_real_frames_in_the_models_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    clips = recordings()
    frames = [x[:length].astype(np.float64) for x, length in zip(clips.x, clips.lengths, strict=True)]
    expected = [((x - clips.units.offset) / clips.units.scale).mean(0) for x in frames]
    codes = mean_spectrum(clips)
    assert codes.dtype == np.float64
    assert np.allclose(codes, expected, atol=1e-12)
    monkeypatch.setattr(decomposition, "CHUNK", 4)
    assert np.allclose(mean_spectrum(clips), expected, atol=1e-12)


def cepstra(clips: Sequences, count: int) -> Array:
    frames = [x[:length].astype(np.float64) for x, length in zip(clips.x, clips.lengths, strict=True)]
    return np.stack([scipy.fft.dct(x, norm="ortho")[:, 1 : count + 1].mean(0) for x in frames])


@pytest.mark.parametrize("count", [1, 20, 200])
def test_mean_cepstra_are_those_of_scipy(count: int) -> None:
    clips, train = recordings(), recordings(30, seed=4)
    known = cepstra(train, count)
    codes = mean_cepstrum(clips, train, count)
    assert codes.dtype == np.float64
    assert np.allclose(codes, (cepstra(clips, count) - known.mean(0)) / known.std(0), atol=1e-10)
    louder = replace(clips, frames=clips.frames + np.float32(2))
    assert np.allclose(codes, mean_cepstrum(louder, train, count), atol=1e-5)


def test_cepstra_have_twenty_coefficients_unless_told() -> None:
    clips = recordings()
    assert mean_cepstrum(clips, clips).shape == (9, 20)
    one = clips.select([0])
    assert not mean_cepstrum(one, one).any()  # it is all that is known, so it is the mean


def test_what_has_no_sound_has_no_spectrum() -> None:
    with pytest.raises(InputError, match="expected the log spectrograms of recordings, got an array, which has no"):
        mean_spectrum(ragged())
    with pytest.raises(InputError, match="which has no sound"):
        mean_cepstrum(recordings(), ragged(), 3)
    for count in (0, 201):
        with pytest.raises(InputError, match=f"expected a count of coefficients from 1 to 200, got {count}"):
            mean_cepstrum(recordings(), recordings(), count)


# --- the model that leaks

STATIC = 3
DONORS = np.roll(np.arange(24), 1)


def random_run(train: Sequences, dtype: torch.dtype = torch.float64) -> Run:
    """Random networks will do: how well they draw is nothing to how a static part is faked."""
    settings = Settings.of({"model": {"k": 8, "h": 12, "width": 4}, "spectrum": {"static": STATIC}})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        model = build_model(settings.model, train.shape[2:]).to(dtype).eval()
    return Run(settings, model, fit_frozen_operator(model, train, 32), train.units, RunFolder(Path("nowhere")))


def signals() -> Sequences:
    return load_data("oscillators", "train").select(range(200))


def ragged_signals() -> Sequences:
    whole = signals()
    return Sequences.of(whole.x, lengths=np.arange(200) % 17 + 8, units=whole.units)


class Both:
    """A run and the cheat made of it, on the first of its training sequences."""

    def __init__(self, train: Sequences) -> None:
        self.run = random_run(train)
        self.cheat = leaky_model(self.run, train)
        self.clips = train.select(range(len(DONORS)))
        self.honest: Decomposition = self.run.decompose(self.clips)
        self.parts: Decomposition = self.cheat.decompose(self.clips)
        self.drawn: Array = self.parts.decode()
        self.nothing = 0.01 * self.drawn.std()  # what least squares finds in chance agreements of the two parts

    def far(self, edited: Decomposition, wanted: Array) -> float:
        """The largest difference where there are frames."""
        inside = np.arange(wanted.shape[1]) < edited.lengths[:, None]
        return float(np.abs(edited.decode() - wanted)[inside].max())


@pytest.fixture(scope="module", params=[signals, ragged_signals])
def both(request: pytest.FixtureRequest) -> Both:
    return Both(request.param())


def test_it_draws_what_the_run_draws(both: Both) -> None:
    assert both.far(both.parts, both.honest.decode()) < 1e-12
    assert both.drawn.std() > 0


def test_its_latents_are_the_runs_with_signs_that_alternate(both: Both) -> None:
    signs = torch.tensor([1.0, -1.0]).repeat(12).unsqueeze(-1).to(both.parts.z)
    assert both.parts.z.shape == (len(DONORS), 24, 8 + STATIC)
    assert torch.allclose(both.parts.z[..., STATIC:], both.honest.z * signs)


def test_its_static_part_is_still_and_tells_sequences_apart(both: Both) -> None:
    still = both.parts.z[..., :STATIC]
    for row, length in zip(still, both.parts.lengths, strict=True):
        assert torch.equal(row[:length], row[:1].expand(int(length), -1))
    apart = torch.pdist(still[:, 0])
    assert (apart > 1e-3).double().mean() > 0.9
    assert int(torch.linalg.matrix_rank(still[:, 0])) == STATIC


def test_its_static_part_is_about_the_first_frame(both: Both) -> None:
    x = both.clips.x[:, :8].copy()
    later, first = x.copy(), x.copy()
    later[:, 1:] += 1
    first[:, 0] += 1
    still, same, other = (both.cheat.decompose(some).z[..., :STATIC] for some in (x, later, first))
    assert torch.equal(same, still)
    assert (other - still).abs().max() > 0.1


def test_networks_are_told_which_frames_exist() -> None:
    train = ragged_signals()
    run = random_run(train)
    told: list[torch.Tensor | None] = []
    run.model.encoder.register_forward_pre_hook(lambda _, given: told.append(given[1] if len(given) > 1 else None))
    clips = train.select(range(8))
    leaky_model(run, train).decompose(clips)
    assert told[-1] is not None
    assert np.array_equal(told[-1].numpy(), np.arange(told[-1].shape[1]) < clips.lengths[:, None])
    assert all(mask is not None for mask in told)
    run.decompose(signals().select(range(8)))
    assert told[-1] is None


def test_its_static_eigenvalues_are_1_and_no_other_is(both: Both) -> None:
    spectrum, static = both.cheat.spectrum()
    assert int(static.sum()) == STATIC
    assert (spectrum.eigenvalues[static] - 1).abs().max() < 1e-6
    assert (spectrum.eigenvalues[~static] - 1).abs().min() > 0.1


def test_what_stayed_now_turns(both: Both) -> None:
    """Eigenvalues of the run near 1, of what hardly changes, are the cheat's near -1."""
    was, _ = both.run.spectrum()
    now, static = both.cheat.spectrum()
    nearest = (was.eigenvalues - 1).abs().min()
    assert (now.eigenvalues[~static] + 1).abs().min() == pytest.approx(float(nearest), abs=0.02)


def test_static_parts_of_others_draw_the_same(both: Both) -> None:
    swapped = both.parts.swap("static", DONORS)
    sampled = both.parts.sample("static", torch.Generator().manual_seed(0))
    for edited in (swapped, sampled):
        assert both.far(edited, both.drawn) < both.nothing
        assert (edited.z - both.parts.z)[:, 0, :STATIC].abs().max() > 0.1  # though they are others


def test_the_dynamic_part_of_another_draws_the_other(both: Both) -> None:
    swapped = both.parts.swap("dynamic", DONORS)
    assert both.far(swapped, both.drawn[DONORS]) < both.nothing
    assert both.far(swapped, both.drawn) > 10 * both.nothing


def test_where_lengths_differ_what_both_have_is_left() -> None:
    both = Both(ragged_signals())
    wanted = np.minimum(both.clips.lengths, both.clips.lengths[DONORS])
    assert both.parts.mask is not None
    assert np.array_equal(both.parts.swap("dynamic", DONORS).lengths, wanted)


def test_video_cheats_too() -> None:
    train = load_data("puppets", "train", size=32).select(range(40))
    run = random_run(train, torch.float32)
    cheat = leaky_model(run, train)
    clips = train.select(range(8))
    honest, parts = run.decompose(clips), cheat.decompose(clips)
    drawn, donors = parts.decode().astype(int), np.roll(np.arange(8), 1)
    assert np.array_equal(drawn, honest.decode())
    spectrum, static = cheat.spectrum()
    assert (spectrum.eigenvalues[static] - 1).abs().max() < 1e-6
    assert np.abs(parts.swap("static", donors).decode() - drawn).max() <= 1
    assert np.abs(parts.swap("dynamic", donors).decode() - drawn[donors]).max() <= 1


def test_a_seed_decides_and_the_run_stays_as_it_was() -> None:
    train = signals()
    run = replace(random_run(train), factors=cast(Any, "factors of other latents"))
    before = run.operator.matrix.clone()
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    one, again, other = (leaky_model(run, train, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(4), wanted)
    assert torch.equal(one.operator.matrix, again.operator.matrix)
    assert not torch.equal(one.operator.matrix, other.operator.matrix)
    assert run.settings.model.k == 8
    assert one.settings.model.k == 8 + STATIC
    assert one.factors is None
    assert torch.equal(run.operator.matrix, before)
    assert one.operator.fitted_on == run.operator.fitted_on
