"""Sequences as bytes: what comes out is read back by other programs' decoders."""

import io
import wave
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diskoop.data.formats.audio import spectrogram
from diskoop.data.sequences import PIXELS, Units
from diskoop.errors import InputError
from diskoop.web import media
from tests.helpers.media import tone

RANDOM = np.random.default_rng(0)


def test_a_sheet_holds_every_frame_at_its_place() -> None:
    video = RANDOM.integers(0, 256, (70, 3, 6, 5), dtype=np.uint8)
    sheet = media.frame_sheet(video, PIXELS)
    pixels = np.asarray(Image.open(io.BytesIO(sheet.png)))
    assert (sheet.columns, sheet.frames, sheet.width, sheet.height) == (32, 70, 5, 6)
    for index in (0, 31, 32, 69):
        row, column = divmod(index, sheet.columns)
        frame = pixels[row * 6 : row * 6 + 6, column * 5 : column * 5 + 5]
        np.testing.assert_array_equal(frame, np.moveaxis(video[index], 0, -1))


def test_grey_video_and_fractions_become_pixels() -> None:
    video = np.linspace(0, 1, 2 * 4 * 4, dtype=np.float32).reshape(2, 1, 4, 4)
    sheet = media.frame_sheet(video, Units())
    pixels = np.asarray(Image.open(io.BytesIO(sheet.png)))
    np.testing.assert_array_equal(pixels[:4, :4, 0], (video[0, 0] * 255).round())
    assert (pixels[..., 0] == pixels[..., 2]).all()


def test_animations_are_lossless_and_enlarged() -> None:
    video = RANDOM.integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    picture: Any = Image.open(io.BytesIO(media.animation(video, PIXELS)))
    assert picture.size == (256, 256)
    assert picture.n_frames == 3
    picture.seek(2)
    np.testing.assert_array_equal(np.asarray(picture.convert("RGB"))[::8, ::8], np.moveaxis(video[2], 0, -1))


def test_movies_have_all_frames() -> None:
    import av

    video = np.repeat(RANDOM.integers(0, 256, (5, 3, 1, 1), dtype=np.uint8), 33, 2).repeat(33, 3)  # odd sides
    with av.open(io.BytesIO(media.mp4_bytes(video, PIXELS)), "r") as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == 5
    assert np.abs(frames[3].mean((0, 1)) - video[3, :, 0, 0]).max() < 12  # mpeg4 loses some


def test_spectrograms_have_low_frequencies_below() -> None:
    logs = spectrogram(tone(0.3, 200.0))
    pixels = np.asarray(Image.open(io.BytesIO(media.spectrogram_picture(logs)))).astype(int).sum(-1)
    assert pixels.shape == (201, len(logs))
    assert pixels[-20:].mean() > 2 * pixels[:100].mean()


def test_sound_lasts_as_long_as_its_spectrogram() -> None:
    logs = spectrogram(tone(0.3))
    with wave.open(io.BytesIO(media.speech_wav(logs))) as file:
        assert file.getframerate() == 16_000
        assert file.getnframes() / 16_000 == pytest.approx(media.seconds(len(logs)))


def test_tables_quote_names_and_keep_numbers() -> None:
    text = media.csv_bytes(np.array([[0.1, -2.5e300]]), Units(features=("a, b", "c"), dtype="float64")).decode()
    assert text == 'frame,"a, b",c\n0,0.1,-2.5e+300\n'


def test_views_of_series_have_no_numbers_that_json_lacks() -> None:
    view = media.to_payload(np.array([[1.0, np.nan], [np.inf, 2.0]]), Units())
    assert view == {"kind": "series", "values": [[1.0, None], [None, 2.0]], "frames": 2}


def test_arrays_come_back() -> None:
    x = RANDOM.normal(size=(4, 3))
    stored = np.load(io.BytesIO(media.download(x, Units(), "npz")), allow_pickle=False)
    np.testing.assert_array_equal(stored["x"], x)


def test_a_download_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="expected series as csv, npz, got 'wav'"):
        media.download(np.zeros((4, 3)), Units(), "wav")
