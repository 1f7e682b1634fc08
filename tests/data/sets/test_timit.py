"""TIMIT in the corpus's layout and the sample's, upper and lower case, RIFF and SPHERE."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diskoop import Sequences, load_data
from diskoop.data.formats import audio
from diskoop.data.sets.timit import CODES, CORE, PHONES, is_corpus
from diskoop.errors import InputError
from tests.conftest import real_data
from tests.helpers.media import tone, write_sound

SENTENCES = ["sa1", "sa2", "si1", "si2", "si3", "sx1", "sx2", "sx3", "sx4", "sx5"]


def write_speaker(folder: Path, upper: bool, number: int, sentences: list[str] = SENTENCES, **options: Any) -> None:
    for at, sentence in enumerate(sentences):
        name = f"{sentence}.wav".upper() if upper else f"{sentence}.wav"
        write_sound(folder / name, tone(0.15 + 0.01 * at, 100 + 3 * number), **options)
        words = f"{sentence}.phn".upper() if upper else f"{sentence}.phn"
        (folder / words).write_text("0 321 h#\n321 640 q\n640 900 iy\n900 1120 ax-h\n")


def corpus(root: Path, upper: bool, **options: Any) -> Path:
    """The whole corpus's layout: the core speakers and six others in TEST, twelve in TRAIN."""
    training = [f"{sex}tr{letter}0" for letter in "abcdef" for sex in "fm"]
    testing = sorted(CORE) + [f"{sex}te{letter}0" for letter in "abc" for sex in "fm"]
    for use, speakers in (("train", training), ("test", testing)):
        for number, speaker in enumerate(speakers):
            parts = (use, f"dr{number % 8 + 1}", speaker)
            folder = root.joinpath(*(part.upper() if upper else part for part in parts))
            write_speaker(folder, upper, number, SENTENCES[:4], **options)
    return root


@pytest.mark.parametrize("upper", [True, False])
def test_the_corpus(upper: bool, tmp_path: Path) -> None:
    root = corpus(tmp_path / "TIMIT", upper, format="NIST" if upper else "WAV", subtype="PCM_16")
    clips = load_data("timit", "all", path=str(root))
    assert [clips.split_size(split) for split in ("train", "val", "test")] == [24, 12, 48]  # two sentences, SA left out
    test = clips.split("test")
    assert {test.values["speaker"][code] for code in test.labels["speaker"]} == CORE
    assert clips.values["sex"] == ("f", "m")
    assert clips.values["dialect"] == tuple("12345678")
    assert (clips.frame_label("phone", np.arange(len(clips)))[:, :8] == [38, 38, 38, -1, 0, 0, 5, -1]).all()
    assert [
        load_data("timit", "all", path=str(root), val_fraction=0).split_size(split) for split in ("train", "val")
    ] == [
        24,
        0,
    ]
    with_sa = load_data("timit", "all", path=str(root), keep_sa=True)
    assert [with_sa.split_size(split) for split in ("train", "val", "test")] == [48, 12, 48]  # to train on only
    first = clips.read([0])[0][: clips.lengths[0]]
    assert clips.load_audio is not None
    assert np.allclose(first, audio.spectrogram(clips.load_audio(clips.clip_name(0))), atol=1e-5)


@pytest.mark.parametrize(
    ("file", "known"),
    [
        ("TRAIN/DR1/FCJF0/SX37.WAV", True),
        ("dr1-fvmh0/sa1.wav", True),
        ("fcjf0/si648.phn", True),
        ("fcjf0/SX37.WAV.wav", True),  # as some convert it
        ("mark0/hello.wav", False),  # a folder called so by chance
        ("anna/sx37.wav", False),  # or a file
        ("sx37.wav", False),
        ("fcjf0/sx37/one.wav", False),
    ],
)
def test_a_corpus_has_speakers_folders_and_sentences_names(tmp_path: Path, file: str, known: bool) -> None:
    path = tmp_path / "of somebody" / file
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    assert is_corpus(tmp_path / "of somebody") is known
    assert not is_corpus(tmp_path / "nowhere")
    assert not is_corpus(path)


def test_a_speakers_folder_and_a_sentence_elsewhere_are_no_corpus(tmp_path: Path) -> None:
    for file in ("mark0/hello.wav", "anna/sx37.wav"):
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_bytes(b"")
    assert not is_corpus(tmp_path)


def test_the_samples_layout_is_split_by_speaker(tmp_path: Path) -> None:
    for number, who in enumerate(("fvmh0", "mcpm0", "faem0", "marc0", "falk0")):
        write_speaker(tmp_path / f"dr{number + 1}-{who}", False, number)
    clips = load_data("timit", "all", path=str(tmp_path))
    assert len(clips) == 5 * 8
    people = [set(clips.split(split).labels["speaker"].tolist()) for split in ("train", "val", "test")]
    assert [len(part) for part in people] == [3, 1, 1]
    assert len(set.union(*people)) == 5
    assert clips.label_text(8) == "speaker mcpm0, sex m, dialect 2, sentence si1"
    x, mask = clips.batch(np.arange(3), torch.zeros(1))
    assert mask is not None
    assert x.shape[1] == clips.lengths[:3].max()  # padded for this batch, not for all


def test_a_sentence_that_lies_there_twice_counts_once(tmp_path: Path) -> None:
    for number, who in enumerate(("fvmh0", "mcpm0", "faem0")):
        folder = tmp_path / "TRAIN" / "DR1" / who.upper()
        write_speaker(folder, True, number, SENTENCES[2:5], format="NIST", subtype="PCM_16")
        for file in list(folder.glob("*.WAV")):
            write_sound(file.with_name(f"{file.name}.wav"), audio.load_audio(file))
    assert len(load_data("timit", "all", path=str(tmp_path))) == 9


def few_speakers(root: Path) -> Path:
    for number, who in enumerate(("fvmh0", "mcpm0", "faem0")):
        write_speaker(root / f"dr1-{who}", False, number, SENTENCES[2:5])
    return root


FOLDED = {"ax": "ah", "ax-h": "ah", "ix": "ih", "ux": "uw", "axr": "er", "ao": "aa", "hv": "hh", "zh": "sh"}
FOLDED |= {"em": "m", "en": "n", "nx": "n", "eng": "ng", "el": "l"}
FOLDED |= dict.fromkeys(("pcl", "tcl", "kcl", "bcl", "dcl", "gcl", "h#", "pau", "epi"), "sil")
KEPT = {
    *("iy", "ih", "eh", "ae", "aa", "ah", "uh", "uw", "er", "ey", "ay", "oy", "aw", "ow", "m", "n", "ng", "l", "r"),
    *("w", "y", "hh", "f", "th", "s", "sh", "v", "dh", "z", "ch", "jh", "p", "t", "k", "b", "d", "g", "dx", "sil"),
}


def without_phones(clips: Sequences) -> list[str]:
    return [clips.clip_name(at) for at in range(len(clips)) if (clips.frame_label("phone", [at]) < 0).all()]


def test_61_phones_are_folded_to_39() -> None:
    assert len(PHONES) == 39
    assert set(PHONES) == KEPT
    assert CODES.keys() - {"sil"} == (KEPT - {"sil"}) | FOLDED.keys() | {"q"}
    assert len(CODES) - 1 == 61
    assert CODES["q"] == -1
    assert {phone: PHONES[code] for phone, code in CODES.items() if code >= 0} == FOLDED | {name: name for name in KEPT}


def test_windows_keep_their_phones(tmp_path: Path) -> None:
    root = str(few_speakers(tmp_path))
    whole, pieces = load_data("timit", "all", path=root), load_data("timit", "all", path=root, window=5, stride=2)
    assert len(pieces) > 2 * len(whole)
    assert pieces.clips is not None
    assert pieces.offsets is not None
    for index, (clip, begin) in enumerate(zip(pieces.clips, pieces.offsets, strict=True)):
        assert np.array_equal(
            pieces.frame_label("phone", [index])[0], whole.frame_label("phone", [clip])[0][begin : begin + 5]
        )


def test_phones_that_are_missing_are_not_known(tmp_path: Path) -> None:
    few_speakers(tmp_path)
    (tmp_path / "dr1-mcpm0" / "si1.phn").unlink()
    clips = load_data("timit", "all", path=str(tmp_path))
    assert clips.notes == ()
    assert without_phones(clips) == ["dr1-mcpm0/si1.wav"]
    for file in tmp_path.rglob("*.phn"):
        file.unlink()
    without = load_data("timit", "all", path=str(tmp_path))
    assert not without.frame_labels
    assert "phone" not in without.values


@pytest.mark.parametrize(
    ("text", "line", "got"),
    [
        ("0 321 h#\n321 iy\n", 2, "321 iy"),
        ("0 321 h#\n321 640.5 iy\n", 2, "321 640.5 iy"),
        ("-5 321 h#\n", 1, "-5 321 h#"),
        ("0 321 h#\n640 321 iy\n", 2, "640 321 iy"),
        ("0 321 h#\n321 640 yi\n", 2, "321 640 yi"),
        ("0 321 h#\n\n321 640 iy", 2, ""),
        ("", 1, ""),
        ("0 " + "9" * 5000 + " iy", 1, "0 99999"),
    ],
)
def test_phones_that_are_damaged_are_named(text: str, line: int, got: str, tmp_path: Path) -> None:
    few_speakers(tmp_path)
    damaged = tmp_path / "dr1-mcpm0" / "si1.phn"
    damaged.write_text(text)
    sentence = rf"dr1-mcpm0/si1\.phn, line {line}: expected .* '0 2400 h#', got '{got}.*'; mend it"
    with pytest.raises(InputError, match=rf"{sentence} \(--skip-bad leaves it out\)"):
        load_data("timit", "all", path=str(tmp_path))
    clips = load_data("timit", "all", path=str(tmp_path), skip_bad=True)
    (note,) = clips.notes
    assert note.startswith(f"left out: {damaged}, line {line}: ")
    assert without_phones(clips) == ["dr1-mcpm0/si1.wav"]


def test_phones_of_any_platform_are_read(tmp_path: Path) -> None:
    few_speakers(tmp_path)
    (tmp_path / "dr1-mcpm0" / "si1.phn").write_bytes(b"0 321 h#\r\n321\t640  s \r\n\r\n")
    clips = load_data("timit", "all", path=str(tmp_path))
    names = [clips.clip_name(at) for at in range(len(clips))]
    (codes,) = clips.frame_label("phone", [names.index("dr1-mcpm0/si1.wav")])
    assert [PHONES[code] for code in codes[:4]] == ["sil", "sil", "sil", "s"]
    assert (codes[4:] == -1).all()


def test_new_phones_are_seen_without_reading_the_sound_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few_speakers(tmp_path)
    load_data("timit", "all", path=str(tmp_path))

    def refuse(file: Path) -> None:
        raise AssertionError(file)

    monkeypatch.setattr(audio, "load_audio", refuse)
    (tmp_path / "dr1-fvmh0" / "si1.phn").write_text("0 4000 s\n")
    clips = load_data("timit", "all", path=str(tmp_path))
    assert (clips.frame_labels["phone"] == CODES["s"]).sum() == clips.lengths.min() == 16


def test_faults_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.path=FOLDER; TIMIT is sold by .*LDC93S1.*data\.name=voices"):
        load_data("timit")
    with pytest.raises(InputError, match="there is no folder 'nowhere' with the recordings of timit"):
        load_data("timit", path="nowhere")
    write_sound(tmp_path / "anna" / "hello.wav", tone(0.2))
    with pytest.raises(InputError, match=r"holds no recordings of timit, wanted TRAIN/DR1.*data\.path alone"):
        load_data("timit", path=str(tmp_path))
    write_speaker(tmp_path / "dr1-fvmh0", False, 0, ["sa1", "sa2"])
    with pytest.raises(
        InputError, match=r"holds only the sentences that everyone reads; data\.keep_sa=true keeps those"
    ):
        load_data("timit", path=str(tmp_path))


def test_the_real_sample() -> None:
    clips = load_data("timit", "all", path=str(real_data("timit")))
    assert clips.shape == (128, 553, 201)
    assert len(clips.values["speaker"]) == 16
    assert np.bincount(clips.labels["speaker"]).tolist() == [8] * 16
    assert clips.values["dialect"] == tuple("12345678")
    train = clips.split("train")
    frames = np.concatenate([train.read([i])[0][: train.lengths[i]] for i in range(len(train))]).astype(np.float64)
    assert np.allclose(clips.units.offset, frames.mean(0), atol=1e-6)
    assert np.allclose(clips.units.scale, frames.std(0), atol=1e-6)


def test_real_vowels_are_loud_where_the_track_has_them() -> None:
    clips = load_data("timit", "all", path=str(real_data("timit")))
    codes, loudness = clips.frame_labels["phone"], clips.frames.mean(1)
    assert set(np.unique(codes)) == {-1, *range(39)}
    last = codes[clips.starts + clips.lengths - 1]
    assert (last == CODES["sil"]).mean() > 0.3  # the others are centred past the last phone
    assert (codes < 0).mean() < 0.05
    vowels = np.isin(codes, [CODES[phone] for phone in ("iy", "eh", "ae", "aa", "ey", "ay", "ow")])

    def apart(shift: int) -> float:
        return float(loudness[np.roll(vowels, shift)].mean() - loudness[np.roll(codes == CODES["sil"], shift)].mean())

    assert apart(0) > 2
    assert max(apart(-10), apart(10)) < 0.6 * apart(0)
    assert max(range(-10, 11), key=apart) in (-1, 0, 1)


def test_real_recordings_with_a_manifest() -> None:
    clips = load_data(real_data("speechocean762"), "all")
    assert [clips.split_size(split) for split in ("train", "val", "test")] == [400, 48, 192]
    test = clips.split("test")
    assert sorted(np.bincount(test.labels["speaker"])[np.unique(test.labels["speaker"])].tolist()) == [8] * 24
    who = [set(clips.split(split).labels["speaker"].tolist()) for split in ("train", "val", "test")]
    assert not who[0] & who[1]
    assert not (who[0] | who[1]) & who[2]


def test_real_movements() -> None:
    clips = load_data(real_data("hapt") / "hapt_windows_128.npz", "all")
    assert clips.shape == (5409, 128, 6)
    assert len(clips.values["subject"]) == 30
    assert len(clips.values["activity"]) == 6
    assert len(clips.units.features) == 6
    who = [set(clips.split(split).labels["subject"].tolist()) for split in ("train", "val", "test")]
    assert [len(part) for part in who] == [24, 3, 3]
