"""The paper's tables by one command: small ones here, the quick ones marked slow."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diskoop import load
from diskoop.errors import InputError
from diskoop.evaluation.protocols import speech
from diskoop.evaluation.registry import EvalConfig, EvalContext
from diskoop.evaluation.results import Key, ModelResults, from_records, single_value
from diskoop.provenance import Origin
from diskoop.run import Run
from diskoop.settings import Settings
from diskoop.training.progress import Reporter
from diskoop.workflows import reproduce
from diskoop.workflows.reproduce import ABLATIONS, ReproduceConfig, build_settings, describe_differences
from tests.conftest import real_data
from tests.helpers.cli import diskoop
from tests.helpers.media import tone, write_sound
from tests.helpers.training import Quiet

TINY = (
    "train.epochs=1",
    "train.batch_size=4",
    "model.k=8",
    "model.h=8",
    "spectrum.static=3",
    "data.window=20",
    "data.stride=20",
)


@pytest.fixture
def voices(tmp_path: Path) -> Path:
    """Six speakers, each a tone of their own, three recordings each."""
    for who in range(6):
        for number in range(3):
            sound = tone(0.5 + 0.05 * number, 150.0 + 120 * who)
            write_sound(tmp_path / "voices" / f"speaker{who}" / f"{number}.wav", sound)
    return tmp_path / "voices"


def asked(name: str, **options: Any) -> ReproduceConfig:
    wanted: dict[str, Any] = {
        "quick": True,
        "data": None,
        "out": Path("out"),
        "preset": None,
        "overrides": {},
        "seed": 3,
        "num_seeds": 1,
        "repeats": None,
        "speaker_label": None,
        "device": "cpu",
        "command": "diskoop reproduce",
    }
    return ReproduceConfig(name, **wanted | options)


@pytest.mark.slow
def test_speech_in_any_folder(voices: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech, "SOUND_CLUSTERS", 4)  # the probe is fast
    words = (
        "reproduce",
        "speech",
        "--quick",
        "--data",
        str(voices),
        "--speaker-label",
        "folder",
        "--out",
        "tables",
        *TINY,
    )
    said = diskoop(*words, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert f"the files in {voices}" in said.stderr
    text = (tmp_path / "tables" / "table.md").read_text(encoding="utf-8")
    for name in ("SKD, the paper", "DiffSDA, best published gap", "ours", "untrained network", "mean cepstrum"):
        assert f"| {name}" in text
    facts = json.loads((tmp_path / "tables" / "table.json").read_text(encoding="utf-8"))
    models = {model["name"]: from_records(model["values"]) for model in facts["models"]}
    assert models["SKD, the paper"][Key("eer", "static", "printed")].mean == 0.0446
    wanted = {Key("eer", "static", "batch"), Key("eer", "dynamic", "frozen"), Key("phones", "dynamic")}
    assert wanted <= models["ours"].keys()
    assert Key("eer", "static", "mean") in models["mean spectrum"]
    run = load(tmp_path / "tables" / "run")
    heard, tested = (set(run.data(split).labels["folder"]) for split in ("train", "test"))
    assert len(tested) == 2
    assert not heard & tested
    for picture in ("spectrum.png", "swaps.png"):
        assert (tmp_path / "tables" / picture).exists()
    page = (tmp_path / "tables" / "run" / "report.html").read_text(encoding="utf-8")
    assert "DiffSDA, best published gap: its authors" in page
    assert "as their authors print them, on TIMIT speech. Ours are on " in page
    more = diskoop(*words, "--seeds", "2", cwd=tmp_path)
    assert more.returncode == 0, more.stderr
    assert more.stderr.count("epoch 1/1") == 1  # the first is neither trained nor measured again
    assert more.stderr.count("ours: speakers") == 1
    assert "untrained network: speakers" not in more.stderr
    assert load(tmp_path / "tables" / "run-1").settings.train.seed == 1
    text = (tmp_path / "tables" / "table.md").read_text(encoding="utf-8")
    assert "means over 2 trainings with seeds 0 to 1" in text
    assert "- ours: trained with seeds 0 to 1, preset quick-speech" in text
    (ours,) = [
        from_records(model["values"])
        for model in json.loads((tmp_path / "tables" / "table.json").read_text(encoding="utf-8"))["models"]
        if model["name"] == "ours"
    ]
    rate = ours[Key("eer", "static", "batch")]
    assert rate.count == 2
    assert rate.std is not None
    assert rate.std >= 0
    other = diskoop(*words, "--seed", "1", cwd=tmp_path)
    assert other.returncode == 2
    assert "holds a run with other settings; choose another folder with --out" in other.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["sprite"], "unknown table 'sprite'; did you mean 'sprites'?"),
        (["sprites", "--data", "nowhere"], "nowhere"),
        (["speech", "--quick", "--data", "nowhere"], "nowhere"),
        (["sprites", "--preset", "dmeo"], "did you mean 'demo'?"),
        (["sprites", "model.kk=3"], "did you mean 'model.k'?"),
        (["sprites", "--seeds", "3", "train.seed=5"], "train.seed = 5: of reproduce it is asked with --seed"),
    ],
)
def test_bad_input_is_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    said = diskoop("reproduce", *words, cwd=tmp_path)
    assert said.returncode == 2
    assert sentence in said.stderr
    assert "Traceback" not in said.stderr
    assert not (tmp_path / "reproduced").exists()


def test_the_stand_in_and_the_real_set_have_the_same_settings(tmp_path: Path) -> None:
    drawn, real = build_settings(asked("sprites")), build_settings(asked("sprites", data="sheets"))
    assert drawn.data.name == "puppets"
    assert (real.data.name, real.data.path) == ("sprites", "sheets")
    assert drawn.replaced({"data": {"name": "sprites", "path": "sheets"}}) == real
    assert drawn.train.seed == 3
    full = build_settings(asked("faces", quick=False))
    assert (full.data.name, full.train.epochs, full.model.h) == ("faces", 1000, 100)


def test_quick_versions_change_their_preset_and_a_named_one_stays_as_it_is() -> None:
    quick, ablated = Settings.load("quick-sprites"), build_settings(asked("ablation"))
    epochs = [each.train.epochs or 0 for each in (build_settings(asked("sprites")), quick, ablated)]
    assert epochs[0] > epochs[1] > epochs[2] > 0
    assert (quick.loss.cycle, ablated.loss.cycle) == (1, 0)
    named = build_settings(asked("ablation", preset="demo"))
    demo = Settings.load("demo")
    assert (named.train.epochs, named.loss) == (demo.train.epochs, demo.loss)
    assert build_settings(asked("ablation", quick=False)).loss == Settings.load("paper-sprites").loss


def test_a_folder_that_is_timit_is_read_as_such(tmp_path: Path) -> None:
    write_sound(tmp_path / "dr1-fcjf0" / "sx37.wav", tone(0.3, 200.0))
    assert build_settings(asked("speech", data=str(tmp_path))).data.name == "timit"
    for name in ("anna", "ben", "carl", "dora", "emil", "mike1", "zoe"):
        for number in range(2):
            write_sound(tmp_path / "other" / name / f"{number}.wav", tone(0.3, 200.0))
    other = build_settings(asked("speech", data=str(tmp_path / "other"))).data
    assert (other.name, other.group) == (None, "folder")
    with pytest.raises(InputError, match="does not say who speaks"):
        build_settings(asked("speech", data=str(tmp_path / "other" / "anna")))


def test_speech_wants_speakers_who_can_be_compared(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", x=np.random.default_rng(0).normal(size=(30, 6, 3)), speaker=np.arange(30) % 5)
    with pytest.raises(InputError, match=r"expected recordings in .*, which has no sound"):
        build_settings(asked("speech", data=str(tmp_path / "mine.npz")))
    for name in ("anna", "ben", "zoe"):
        for number in range(3):
            write_sound(tmp_path / "few" / name / f"{number}.wav", tone(0.3, 200.0))
    with pytest.raises(InputError, match=r"two test speakers at least.*has 1 in 3 test recordings"):
        build_settings(asked("speech", data=str(tmp_path / "few")))


def test_a_runs_own_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.yaml").write_text("data: {}")
    said = diskoop("reproduce", "sprites", "--quick", "--out", "run", cwd=tmp_path)
    assert said.returncode == 2
    assert "'run' is a run's own folder; choose another with --out" in said.stderr
    other = diskoop("reproduce", "faces", "--quick", "--speaker-label", "subject", cwd=tmp_path)
    assert other.returncode == 2
    assert "--speaker-label says who speaks, got it for faces" in other.stderr


def test_the_ablation_takes_terms_away() -> None:
    settings = build_settings(asked("ablation"))
    terms = {name: settings.replaced({"loss": change}).loss for name, change in ABLATIONS.items()}
    assert [loss.eig * loss.stat > 0 for loss in terms.values()] == [True, True, False, False]
    assert [loss.eig * loss.dyn > 0 for loss in terms.values()] == [True, False, True, False]


def test_differences_between_losses_that_seeds_explain_are_called_none() -> None:
    def trained(*scores: float) -> list[ModelResults]:
        key = Key("multifactor", "score")
        return [ModelResults("", {key: single_value(score)}, Origin(0, "", "", "")) for score in scores]

    said = describe_differences(
        {"full": trained(0.9, 0.8, 0.85), "less": trained(0.7, 0.62, 0.66), "same": trained(0.9, 0.7, 0.9)}
    )
    assert said[0] == "less against full: multifactor score -0.190 ± 0.006."
    assert said[1] == "same against full: multifactor score none."
    assert "a standard error over 3 seeds" in said[2]
    assert describe_differences({"full": trained(0.9, 0.8), "twin": trained(0.9, 0.8)})[0].endswith("none.")
    assert describe_differences({"full": trained(0.9), "less": trained(0.7)}) == []


def test_an_ablation_puts_seeds_together_and_draws_the_first(
    video_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it but the eight trainings and what is measured of them."""
    run, key = load(video_run), Key("multifactor", "score")
    train, test = (run.data(split).select(range(20)) for split in ("train", "test"))
    trained: list[tuple[Path, float]] = []
    scores = iter((0.9, 0.8, 0.7, 0.62, 0.9, 0.6, 0.5, 0.5))

    def remember(settings: Settings, path: Path, *_: Any) -> Run:
        trained.append((path, settings.loss.eig))
        return run

    def measure(run: Run, config: EvalConfig, reporter: Reporter) -> tuple[list[ModelResults], EvalContext]:
        assert not config.baselines
        origin = Origin(0, "", "", "")
        return [ModelResults("ours", {key: single_value(next(scores))}, origin)], EvalContext(train, test)

    monkeypatch.setattr(reproduce, "train_or_resume", remember)
    monkeypatch.setattr(reproduce, "measure_models", measure)
    options = asked("ablation", out=tmp_path / "out", num_seeds=2)
    results, files = reproduce.reproduce(options, EvalConfig(), Quiet())
    assert len({path for path, _ in trained}) == 8
    assert [eig > 0 for _, eig in trained] == [True] * 6 + [False] * 2
    means = {model.name: model.values[key].mean for model in results.models if key in model.values}
    assert means == pytest.approx({"full": 0.85, "L_stat only": 0.66, "L_dyn only": 0.75, "plain KAE": 0.5})
    assert any(note.startswith("L_stat only against full: multifactor score -0.190") for note in results.notes)
    assert [file.name for file in files] == ["table.md", "table.json", "swaps.png", "spectra.png"]
    assert all(file.stat().st_size > 0 for file in files)


def means(folder: Path) -> dict[str, dict[Key, float]]:
    facts = json.loads((folder / "table.json").read_text(encoding="utf-8"))
    return {
        model["name"]: {key: value.mean for key, value in from_records(model["values"]).items()}
        for model in facts["models"]
    }


@pytest.mark.long
def test_quick_sprites(tmp_path: Path) -> None:
    said = diskoop("reproduce", "sprites", "--quick", "--repeats", "2", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    models = means(tmp_path / "reproduced" / "sprites-quick")
    assert models["ours"][Key("multifactor", "score")] > 0.75
    assert models["ours"][Key("multifactor", "kept")] > 0.75
    assert Key("multifactor", "kept") not in models["SSM-SKD, best published"]
    # What "Acc" cannot see, and the reason why the score stands beside it.
    assert models["leaks on purpose"][Key("sampling", "acc", "paper")] > 0.99
    assert models["leaks on purpose"][Key("multifactor", "score")] < 0.65
    assert all(
        models["ours"][Key("multifactor", "score")] > models[name][Key("multifactor", "score")]
        for name in models
        if name in BASELINES
    )


BASELINES = ("PCA + DMD", "slow features", "untrained network", "leaks on purpose")


@pytest.mark.slow
def test_quick_speech_on_real_recordings(tmp_path: Path) -> None:
    recordings = str(real_data("speechocean762"))
    said = diskoop("reproduce", "speech", "--quick", "--data", recordings, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    models = means(tmp_path / "reproduced" / "speech-quick")
    untrained = [models["untrained network"][Key("eer", "static", operator)] for operator in ("batch", "frozen")]
    averages = [models[name][Key("eer", "static", "mean")] for name in ("mean spectrum", "mean cepstrum")]
    for operator in ("batch", "frozen"):
        ours = models["ours"]
        assert ours[Key("eer", "static", operator)] < min(*untrained, *averages)
        assert ours[Key("eer", "dynamic", operator)] > ours[Key("eer", "static", operator)]
    assert ours[Key("phones", "dynamic")] > ours[Key("phones", "static")] > ours[Key("phones", "chance")]


@pytest.mark.parametrize("name", ["ablation", "faces", "sprites"])
@pytest.mark.long
def test_each_briefly(name: str, tmp_path: Path) -> None:
    # Few latents, for factors take eight sequences for each static direction.
    brief = ("train.epochs=1", "data.limit=320", "model.k=24", "spectrum.static=12", "--repeats", "1")
    said = diskoop("reproduce", name, "--quick", *brief, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    folder = tmp_path / "reproduced" / f"{name}-quick"
    models = means(folder)
    published = {"faces": "DBSE, best published", "sprites": "SSM-SKD, best published"}
    assert (ABLATIONS.keys() if name == "ablation" else {"ours", published[name]}) <= models.keys()
    pictures = ("swaps", "spectra") if name == "ablation" else ("swaps", "spectrum", "matrix")
    assert all((folder / f"{picture}.png").exists() for picture in pictures)
    reports = ("full", "L_stat-only", "L_dyn-only", "plain-KAE") if name == "ablation" else ("run",)
    assert all((folder / run / "report.html").exists() for run in reports)
