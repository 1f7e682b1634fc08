"""Films and folders of frames: read in order, square, windows stitched; every fault is named."""

import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from diskoop import load_data
from diskoop.data.formats.videos import _decode_video, read_image
from diskoop.errors import InputError
from tests.helpers.media import CODECS, moving_square, write_film, write_frames


def centre(clip: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Where the bright square is in each frame, as a share of the width."""
    bright = clip.max(1) > 128  # (time, height, width)
    middle: NDArray[np.float64] = (bright * np.arange(clip.shape[-1])).sum((1, 2)) / bright.sum((1, 2)) / clip.shape[-1]
    return middle


@pytest.mark.parametrize("suffix", [*CODECS, ".gif"])
def test_a_folder_of_films(suffix: str, tmp_path: Path) -> None:
    for number, color in enumerate((0, 1, 2, 0)):
        write_film(
            tmp_path / ("red", "green", "blue", "red")[number] / f"{number}{suffix}", moving_square(12, color=color)
        )
    clips = load_data(tmp_path, "all", size=32)
    assert clips.shape == (4, 12, 3, 32, 32)
    assert clips.frames.dtype == np.uint8
    names = [clips.clip_name(index) for index in range(4)]
    assert names == [f"blue/2{suffix}", f"green/1{suffix}", f"red/0{suffix}", f"red/3{suffix}"]
    assert clips.values["folder"] == ("blue", "green", "red")
    for index in range(4):
        channel = {"red": 0, "green": 1, "blue": 2}[clips.label_text(index).split()[1]]
        x = clips.read([index])[0]
        assert x[:, channel].max() > 150
        assert x[:, (channel + 1) % 3].max() < 120
    # 48 x 64 is cropped to its middle 48 x 48: the square enters at the left edge and moves 4 of 48 pixels a frame.
    path = centre(clips.read([2])[0])[3:9]
    assert (np.diff(path) > 0).all()
    assert (path[-1] - path[0]) / 5 == pytest.approx(4 / 48, abs=0.01)
    assert {clips.split_size(split) for split in ("train", "val", "test")} == {2, 1}


def test_long_films_are_cut_into_windows_and_come_back_whole(tmp_path: Path) -> None:
    for number, frames in enumerate((50, 33, 20, 40)):
        write_film(tmp_path / f"{number}.mp4", moving_square(frames))
    clips = load_data(tmp_path, "all", size=32)
    assert clips.lengths.tolist() == [16] * (4 + 3 + 2 + 3)
    assert clips.mask is None
    whole = clips.stitch(clips.x)
    assert [len(clip) for clip in whole.values()] == [50, 33, 20, 40]
    one = load_data(tmp_path, "all", size=32, window=50)
    assert one.lengths.tolist() == [50, 33, 20, 40]
    assert one.mask is not None
    for index, clip in enumerate(whole.values()):
        assert np.array_equal(clip, one.read([index])[0][: len(clip)])
    parts = [set(clips.split(split).clips.tolist()) for split in ("train", "val", "test")]  # type: ignore[union-attr]
    assert sum(map(len, parts)) == 4  # windows of a film stay together
    few = load_data(tmp_path, "all", size=32, every=5)
    assert few.lengths.tolist() == [10, 7, 4, 8]
    assert np.array_equal(few.read([0])[0], one.read([0])[0][::5])


def test_one_film_alone_is_split_in_time(tmp_path: Path) -> None:
    path = write_film(tmp_path / "film.mp4", moving_square(100))
    clips = load_data(path, "all", size=32, window=8, stride=4)
    assert clips.offsets is not None
    ends = {split: (clips.split(split).offsets, clips.split(split).lengths) for split in ("train", "val", "test")}
    spans = [(int(at.min()), int((at + size).max())) for at, size in ends.values() if at is not None]
    assert spans == [(0, 81), (81, 90), (90, 100)]
    with pytest.raises(InputError, match=r"holds 1 clip of 10 frames, too little to train, validate and test on"):
        load_data(write_film(tmp_path / "short.mp4", moving_square(10)), size=32)


def test_folders_of_frames_come_in_natural_order(tmp_path: Path) -> None:
    film = moving_square(12, 32, 32)
    for take in range(1, 12):
        write_frames(tmp_path / "anna" / f"take{take}", film[:, :, ::-1] if take == 10 else film)
    clips = load_data(tmp_path, "all", size=32)
    assert [clips.clip_name(i) for i in (1, 9)] == ["anna/take2", "anna/take10"]
    assert np.array_equal(clips.read([1])[0], np.moveaxis(film, -1, 1))  # not resized, not touched
    assert np.array_equal(clips.read([9])[0], np.moveaxis(film[:, :, ::-1], -1, 1))
    assert clips.labels == {}


def test_images_of_every_depth_become_bytes(tmp_path: Path) -> None:
    gray = np.arange(32 * 32, dtype=np.uint16).reshape(32, 32) * 63
    expected = np.repeat((gray // 257).astype(np.uint8)[..., None], 3, -1)
    Image.fromarray(gray).save(tmp_path / "deep.png")
    Image.fromarray(gray).save(tmp_path / "deep.tiff")
    Image.fromarray((gray / 65535).astype(np.float32)).save(tmp_path / "fractions.tiff")
    Image.fromarray((gray // 257).astype(np.uint8)).save(tmp_path / "gray.png")
    Image.fromarray((gray // 257).astype(np.uint8)).convert("P").save(tmp_path / "palette.png")
    Image.fromarray(gray > 30_000).save(tmp_path / "bits.png")
    for name in ("deep.png", "deep.tiff", "gray.png", "palette.png"):
        assert np.array_equal(np.asarray(read_image(tmp_path / name)), expected), name
    fractions = np.asarray(read_image(tmp_path / "fractions.tiff")).astype(int)
    assert np.abs(fractions - expected).max() <= 1
    assert set(np.unique(np.asarray(read_image(tmp_path / "bits.png")))) == {0, 255}
    see_through = np.dstack([expected, np.where(gray > 30_000, 255, 0).astype(np.uint8)])
    Image.fromarray(see_through).save(tmp_path / "alpha.png")
    assert np.array_equal(np.asarray(read_image(tmp_path / "alpha.png")), expected * (gray > 30_000)[..., None])
    for name, low, high in (("bright.tiff", 0, 255), ("negative.tiff", -1, 1)):
        Image.fromarray(np.linspace(low, high, 1024, dtype=np.float32).reshape(32, 32)).save(tmp_path / name)
        with pytest.raises(InputError, match=rf"{name} has fractions from {low} to {high}, wanted 0 to 1"):
            read_image(tmp_path / name)
    Image.fromarray(np.full((32, 32), 70_000, np.int32)).save(tmp_path / "wide.tiff")
    with pytest.raises(InputError, match=r"wide\.tiff has 32-bit values from 70000 to 70000; save 8 or 16 bits"):
        read_image(tmp_path / "wide.tiff")


@pytest.mark.parametrize("suffix", [".mp4", ".avi", ".webm", ".mkv", ".gif"])
def test_a_film_that_is_cut_off_is_named_or_skipped(suffix: str, tmp_path: Path) -> None:
    random = np.random.Generator(np.random.PCG64(0))
    noise = random.integers(0, 255, (60, 48, 64, 3), dtype=np.uint8)  # noise does not compress: every byte counts
    for number in range(3):
        write_film(tmp_path / f"{number}{suffix}", moving_square(20))
    whole = write_film(tmp_path / f"broken{suffix}", noise).read_bytes()
    (tmp_path / f"broken{suffix}").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        InputError, match=rf"broken{suffix} is (cut off|damaged).*make it again \(--skip-bad leaves it out"
    ):
        load_data(tmp_path, size=32)
    clips = load_data(tmp_path, "all", size=32, skip_bad=True)
    assert len(clips) == 3
    (note,) = (note for note in clips.notes if not note.startswith("cropped: "))
    assert f"broken{suffix}" in note
    assert "left out" in note


def test_a_playlist_opens_no_other_file(tmp_path: Path) -> None:
    """FFmpeg takes a file for what its first bytes say, and a playlist names others."""
    write_film(tmp_path / "elsewhere" / "secret.mp4", moving_square(20))
    film = tmp_path / "clips" / "mine.mp4"
    film.parent.mkdir()
    (film.parent / "secret.mp4").symlink_to(tmp_path / "elsewhere" / "secret.mp4")
    film.write_text("ffconcat version 1.0\nfile secret.mp4\n")
    with pytest.raises(InputError, match=r"mine\.mp4 is damaged or no video"):
        load_data(film.parent, size=32)


def test_a_drawing_in_postscript_starts_no_program(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 32 32\n%%EndComments\n")
    with pytest.raises(InputError, match=r"a\.png is damaged or no picture \(cannot identify"):
        read_image(tmp_path / "a.png")


def test_other_faults_are_named(tmp_path: Path) -> None:
    film = moving_square(6, 32, 32)
    for number in range(4):
        write_frames(tmp_path / str(number), film)
    (tmp_path / "2" / "3.png").write_bytes((tmp_path / "2" / "3.png").read_bytes()[:60])
    with pytest.raises(InputError, match=r"2/3\.png is damaged or no picture \(.*\); make it again \(--skip-bad"):
        load_data(tmp_path)
    assert len(load_data(tmp_path, "all", skip_bad=True)) == 3
    (tmp_path / "2" / "3.png").write_text("hello")
    with pytest.raises(InputError, match=r"2/3\.png is damaged or no picture"):
        load_data(tmp_path)
    write_frames(tmp_path / "2", film)
    write_frames(tmp_path / "1one", film[:1])  # between the others
    with pytest.raises(InputError, match=r"1one has 1 frame: dynamics need at least 2 \(--skip-bad leaves it out\)"):
        load_data(tmp_path)
    left = load_data(tmp_path, "all", skip_bad=True, size=32)
    assert len(left) == 4
    assert all(np.array_equal(left.read([index])[0], np.moveaxis(film, -1, 1)) for index in range(4))
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "text.mp4").write_text("no film at all")
    with pytest.raises(InputError, match=r"text\.mp4 is damaged or no video \(.*\); make it again"):
        load_data(tmp_path / "films")


def test_pictures_come_the_right_way_up(tmp_path: Path) -> None:
    """A phone writes lying frames and says how to turn them: in a film's track header, in a photograph's tags."""
    film = moving_square(12, 48, 96)
    path = write_film(tmp_path / "phone.mp4", film)
    content = bytearray(path.read_bytes())
    matrix = content.find(b"tkhd") + 44
    content[matrix : matrix + 36] = struct.pack(">9i", 0, 0x10000, 0, -0x10000, 0, 0, 48 << 16, 0, 0x40000000)
    path.write_bytes(content)
    frame = next(_decode_video(path))
    assert frame.size == (48, 96)
    expected = np.rot90(film[0], -1).astype(int)  # a quarter turn clockwise
    assert np.abs(np.asarray(frame).astype(int) - expected).mean() < 5
    tagged = Image.fromarray(film[0])
    tagged.getexif()[0x0112] = 6  # the same turn
    tagged.save(tmp_path / "photo.png", exif=tagged.getexif())
    assert np.array_equal(np.asarray(read_image(tmp_path / "photo.png")), np.rot90(film[0], -1))


def test_a_trimmed_film_is_whole(tmp_path: Path) -> None:
    """WindowRule without decoding: the file holds packets that are not shown."""
    source = write_film(tmp_path / "source.mp4", moving_square(60))
    with (
        av.open(str(source)) as given,
        av.open(str(tmp_path / "t.mp4"), "w", options={"avoid_negative_ts": "0"}) as cut,
    ):
        stream = cut.add_stream_from_template(given.streams.video[0])
        for packet in given.demux(given.streams.video[0]):
            if packet.dts is not None and packet.pts is not None and packet.duration:
                packet.pts -= 20 * packet.duration
                packet.dts -= 20 * packet.duration
                packet.stream = stream
                cut.mux(packet)
    assert len(list(_decode_video(tmp_path / "t.mp4"))) >= 40


def test_a_film_whose_sound_lasts_longer_is_whole(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "talk.mkv"), "w") as container:
        picture: Any = container.add_stream("libx264", rate=25)
        picture.height, picture.width, picture.pix_fmt = 48, 64, "yuv420p"
        speech: Any = container.add_stream("pcm_s16le", rate=16_000, layout="mono")
        for frame in moving_square(20):
            container.mux(picture.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(picture.encode(None))
        samples = av.AudioFrame.from_ndarray(np.zeros((1, 64_000), np.int16), format="s16", layout="mono")
        samples.sample_rate = 16_000
        container.mux(speech.encode(samples))
        container.mux(speech.encode(None))
    assert len(list(_decode_video(tmp_path / "talk.mkv"))) == 20


def test_a_picture_that_holds_several_is_named(tmp_path: Path) -> None:
    first, *rest = [Image.fromarray(frame) for frame in moving_square(3, 32, 32)]
    first.save(tmp_path / "pages.tiff", save_all=True, append_images=rest)
    with pytest.raises(InputError, match=r"pages\.tiff holds 3 pictures; unpack it into a file for each"):
        read_image(tmp_path / "pages.tiff")


def test_a_missing_reader_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_film(tmp_path / "film.mp4", moving_square(9))
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(InputError, match=r"film\.mp4 needs PyAV: pip install 'diskoop\[video\]'"):
        load_data(path)


def test_a_strip_of_frames_is_offered_and_read(tmp_path: Path) -> None:
    film = moving_square(8, 32, 32)
    for number in range(4):
        (tmp_path / ("tall" if number == 3 else "wide")).mkdir(exist_ok=True)
        strip = np.concatenate(film[:8], 0 if number == 3 else 1)
        Image.fromarray(strip).save(tmp_path / ("tall" if number == 3 else "wide") / f"{number}.png")
    with pytest.raises(
        InputError,
        match=r"0\.png of 256 x 32 pixels looks like a strip of 8 frames: data\.strip=auto reads .*strip=none",
    ):
        load_data(tmp_path / "wide", size=32)
    for count in ("auto", 8, "8"):
        clips = load_data(tmp_path, "all", size=32, strip=count)
        assert clips.shape == (4, 8, 3, 32, 32)
        assert all(np.array_equal(clips.read([index])[0], np.moveaxis(film, -1, 1)) for index in range(4))
        assert clips.values == {"folder": ("tall", "wide")}
    assert load_data(tmp_path, "all", size=32, strip=4).shape[1] == 4  # frames of 64 x 32, cropped
    with pytest.raises(InputError, match=r"\.png has .* pixels, wanted a multiple of 7 along its longer side"):
        load_data(tmp_path, size=32, strip=7)
    frames = load_data(
        tmp_path / "wide", "all", size=32, strip="none", window=2, split_by="clip", val_fraction=0, test_fraction=0
    )
    assert frames.frames.shape == (3, 3, 32, 32)
    write_frames(tmp_path / "square" / "0", film)
    with pytest.raises(
        InputError, match=r"has 32 x 32 pixels, wanted 3 squares at least in a row \(data\.strip=auto\)"
    ):
        load_data(tmp_path / "square", strip="auto")
    with pytest.raises(InputError, match=r"data\.strip should be auto, none or a number of frames from 2, got 1"):
        load_data(tmp_path / "square", strip=1)
    with pytest.raises(InputError, match=r"data\.strip = auto is for images, not for videos"):
        load_data(write_film(tmp_path / "film.mp4", film), strip="auto")


def test_small_frames_that_are_enlarged_are_told(tmp_path: Path) -> None:
    for number in range(4):
        write_film(tmp_path / f"{number}.gif", moving_square(5))  # 48 x 64 pixels
    (note,) = (note for note in load_data(tmp_path, "all").notes if "enlarged" in note)
    assert note == "enlarged: frames of 48 pixels to 64 (data.size=32 reduces them)"
    assert note in load_data(tmp_path, "all").notes  # from the cache too
    assert not any("enlarged" in note for note in load_data(tmp_path, "all", size=32).notes)


def test_what_lies_outside_the_middle_square_is_told(tmp_path: Path) -> None:
    for number, shape in enumerate([(48, 64), (48, 96), (48, 48)]):
        write_frames(tmp_path / "clips" / str(number), np.zeros((4, *shape, 3), np.uint8))
    told = "cropped: of 96 x 48 pixels the middle 48 x 48 are seen, 50% at the left and right are not"
    for _ in range(2):  # from the cache too
        notes = load_data(tmp_path / "clips", "all", size=32, strip="none").notes
        assert [note for note in notes if note.startswith("cropped")] == [told]
    write_frames(tmp_path / "square" / "0", np.zeros((4, 48, 48, 3), np.uint8))
    write_frames(tmp_path / "square" / "1", np.zeros((4, 48, 48, 3), np.uint8))
    write_frames(tmp_path / "square" / "2", np.zeros((4, 48, 48, 3), np.uint8))
    assert not [note for note in load_data(tmp_path / "square", "all", size=32).notes if note.startswith("cropped")]
    np.save(tmp_path / "x.npy", np.zeros((6, 4, 3, 80, 60), np.uint8))
    notes = load_data(tmp_path / "x.npy", "all", size=32).notes
    assert "cropped: of 60 x 80 pixels the middle 60 x 60 are seen, 25% at the top and bottom are not" in notes


def test_a_picture_of_too_many_pixels_is_named_before_it_is_decoded(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    write_frames(tmp_path / "clip", moving_square(4))
    file = tmp_path / "clip" / "0.png"
    content = next((tmp_path / "clip").iterdir()).read_bytes()
    for pixels, sentence in ((100_000, "has more than 178 million pixels; make it smaller"), (11_000, "is damaged")):
        ihdr = b"IHDR" + struct.pack(">II", pixels, pixels) + content[24:29]
        file.write_bytes(content[:12] + ihdr + struct.pack(">I", zlib.crc32(ihdr)) + content[33:])
        with pytest.raises(InputError, match=sentence):
            load_data(str(tmp_path), "all")
        with pytest.raises(InputError, match=sentence):
            load_data(str(tmp_path), "all", strip="auto")
    assert not recwarn.list
