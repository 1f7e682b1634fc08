"""synthetic speakers: a glottal source through a vocal tract, sentences as strings of phones, 16 kHz

Every phone has targets: formants, levels of voice, breath and hiss, resonances of the hiss. Tracks run smoothly from
one to the next. Glottal pulses and breath pass the resonances of the tract, hiss those of its own narrow place; for
each frame of 5 ms a filter is a polynomial, its response the polynomial's Fourier transform. Frequencies are in hertz,
levels in decibels, lengths of phones in milliseconds, times in samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Random = np.random.Generator

RATE = 16_000
TRAIN_SPEAKERS = 60
TEST_SPEAKERS = 24
SPEAKERS = TRAIN_SPEAKERS + TEST_SPEAKERS
SENTENCES = 8  # that each speaker reads, and nobody else
UTTERANCES = SPEAKERS * SENTENCES

HOP, WINDOW, LENGTH = 80, 320, 720  # of the filters' frames, in samples; the rest of the length is for their ringing
SILENT = -80.0
ANY = float("nan")  # a target that the neighbours decide

Formants = tuple[float, float, float, float]


# --- phones: what the mouth aims at -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phone:
    length: float
    formants: Formants = (ANY, ANY, ANY, ANY)  # F1 to F4 of a man
    towards: Formants | None = None  # where a diphthong ends
    voice: float = SILENT
    breath: float = SILENT  # noise of the glottis
    hiss: float = SILENT  # noise of a narrow place
    fade: float = 0.0  # what the hiss loses on its way
    place: Formants = (ANY, ANY, ANY, ANY)  # two resonances of the hiss, each with its bandwidth
    nasal: float = 0.0  # how far the nose is open
    cutoff: float = 9000.0  # what lips and tongue let through
    edge: float = 18.0  # how long its sounds take to come and go


_vowel = partial(Phone, voice=0)
_nasal = partial(Phone, voice=-5, nasal=1, cutoff=4000, edge=10)
_glide = partial(Phone, voice=-4, cutoff=6000)
_buzz = partial(Phone, cutoff=3000)
_closure = partial(Phone, 52, cutoff=180, edge=1.5)
_release = partial(Phone, edge=1.5)

_LABIAL, _DENTAL, _ALVEOLAR = (320, 950, 2250, 3300), (320, 1350, 2550, 3450), (320, 1750, 2650, 3550)
_PALATAL, _VELAR = (300, 2000, 2600, 3500), (320, ANY, 2300, 3400)
_HISS, _HUSH = (4900, 900, 6800, 1800), (2700, 600, 4700, 1600)
_LIPS, _TEETH = (1800, 2500, 7000, 3000), (5500, 4000, 7200, 3000)
_POP, _TICK, _CLICK = (900, 900, 3000, 4000), (4000, 1500, 6500, 2500), (1900, 500, 4200, 1800)

PHONES: dict[str, Phone] = {
    "iy": _vowel(100, (280, 2250, 2950, 3550)),
    "ih": _vowel(80, (400, 1950, 2580, 3550)),
    "eh": _vowel(95, (550, 1780, 2520, 3550)),
    "ae": _vowel(135, (680, 1680, 2430, 3500)),
    "aa": _vowel(130, (730, 1130, 2450, 3400)),
    "ao": _vowel(130, (580, 900, 2450, 3350)),
    "ah": _vowel(90, (620, 1220, 2480, 3450)),
    "uh": _vowel(80, (440, 1080, 2300, 3350)),
    "uw": _vowel(105, (310, 1050, 2250, 3300)),
    "er": _vowel(110, (480, 1330, 1700, 3200)),
    "ax": _vowel(50, (500, 1450, 2500, 3500)),
    "ey": _vowel(130, (490, 1980, 2550, 3550), (320, 2230, 2800, 3550)),
    "ay": _vowel(150, (720, 1200, 2450, 3450), (390, 2000, 2600, 3550)),
    "oy": _vowel(160, (540, 880, 2400, 3350), (390, 1950, 2550, 3500)),
    "aw": _vowel(150, (720, 1280, 2450, 3450), (430, 950, 2350, 3350)),
    "ow": _vowel(130, (520, 1030, 2350, 3350), (370, 850, 2300, 3300)),
    "m": _nasal(60, _LABIAL),
    "n": _nasal(55, _ALVEOLAR),
    "ng": _nasal(65, _VELAR),
    "l": _glide(60, (360, 1050, 2650, 3350)),
    "r": _glide(60, (340, 1150, 1550, 3200)),
    "w": _glide(60, (310, 700, 2200, 3250)),
    "y": _glide(55, (270, 2200, 2950, 3550)),
    "hh": Phone(65, breath=-22),
    "f": Phone(95, _LABIAL, hiss=-32, place=_LIPS),
    "th": Phone(85, _DENTAL, hiss=-33, place=_TEETH),
    "s": Phone(110, _ALVEOLAR, hiss=-21, place=_HISS),
    "sh": Phone(110, _PALATAL, hiss=-20, place=_HUSH),
    "v": _buzz(60, _LABIAL, voice=-9, hiss=-36, place=_LIPS),
    "dh": _buzz(45, _DENTAL, voice=-9, hiss=-37, place=_TEETH),
    "z": _buzz(85, _ALVEOLAR, voice=-12, hiss=-27, place=_HISS),
    "zh": _buzz(80, _PALATAL, voice=-12, hiss=-26, place=_HUSH),
    "ch": _release(80, _PALATAL, hiss=-12, fade=8, place=_HUSH),
    "jh": _release(50, _PALATAL, hiss=-15, fade=9, place=_HUSH),
    "p": _release(45, _LABIAL, breath=-28, hiss=-22, fade=28, place=_POP),
    "t": _release(50, _ALVEOLAR, breath=-28, hiss=-14, fade=26, place=_TICK),
    "k": _release(55, _VELAR, breath=-27, hiss=-14, fade=26, place=_CLICK),
    "b": _release(14, _LABIAL, hiss=-24, fade=21, place=_POP),
    "d": _release(18, _ALVEOLAR, hiss=-18, fade=22, place=_TICK),
    "g": _release(22, _VELAR, hiss=-18, fade=22, place=_CLICK),
    "pcl": _closure(_LABIAL),
    "tcl": _closure(_ALVEOLAR),
    "kcl": _closure(_VELAR),
    "bcl": _closure(_LABIAL, voice=-11),
    "dcl": _closure(_ALVEOLAR, voice=-11),
    "gcl": _closure(_VELAR, voice=-11),
    "pau": Phone(180, cutoff=ANY, edge=25),
    "h#": Phone(140, place=_LIPS, cutoff=ANY, edge=25),
}
NAMES = tuple(PHONES)
VOWELS = NAMES[:16]
CLOSURES = {stop: f"{stop}cl" for stop in "ptkbdg"} | {"ch": "tcl", "jh": "dcl"}


# --- speakers: whose mouth it is --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Speaker:
    name: str
    sex: str  # f or m
    pitch: float  # the mean, in hertz
    accent: float  # how far stress lifts the pitch, in semitones
    declination: float  # how far it sinks, in semitones a second
    tract: float  # its length relative to the men's mean: formants are divided by it
    open_quotient: float  # the part of a glottal cycle during which the glottis is open
    softness: float  # above this frequency the voice loses another 6 dB an octave
    jitter: float  # of the periods, relative
    shimmer: float  # of the pulses' heights, relative
    breath: float  # the level of breath in the voice
    nasality: float  # how far the nose is open where it should be closed
    damping: float  # of the formants' bandwidths, relative
    sharpness: float  # of the hisses' frequencies, relative
    hiss: float  # their level
    hollow: float  # the frequency that the pockets beside the larynx swallow
    pace: float  # the lengths of phones, relative
    habits: Array = field(repr=False)  # (phone, 4) own formants, relative
    upper: Array = field(repr=False)  # (3,) F5 to F7


def _random(purpose: int, number: int) -> Random:
    return np.random.Generator(np.random.PCG64([20230501, purpose, number]))


def speaker(number: int) -> Speaker:
    """Women are even, men odd; the first TRAIN_SPEAKERS are for training."""
    if not 0 <= number < SPEAKERS:
        raise ValueError(f"expected a speaker from 0 to {SPEAKERS - 1}, got {number}")
    random, woman = _random(0, number), number % 2 == 0
    habits = np.exp(random.normal(0, (0.04, 0.03, 0.02, 0.02), (len(PHONES), 4)))
    return Speaker(
        name=f"{'f' if woman else 'm'}{number:02d}",
        sex="f" if woman else "m",
        pitch=random.triangular(165, 205, 255) if woman else random.triangular(85, 115, 155),
        accent=random.uniform(2, 5),
        declination=random.uniform(0.5, 2.5),
        tract=random.normal(0.87 if woman else 1.0, 0.04),
        open_quotient=random.uniform(0.5, 0.9) if woman else random.uniform(0.35, 0.75),
        softness=np.exp(random.uniform(*np.log((1000, 4000) if woman else (1500, 7000)))),
        jitter=random.uniform(0.002, 0.01),
        shimmer=random.uniform(0.02, 0.1),
        breath=random.normal(-38 if woman else -34, 3),
        nasality=random.uniform(0, 0.8),
        damping=np.exp(random.normal(0, 0.3)),
        sharpness=np.exp(random.normal(0.06 if woman else 0, 0.06)),
        hiss=random.normal(-3, 3),
        hollow=random.uniform(3800, 6000),
        pace=random.uniform(0.85, 1.2),
        habits=habits * np.exp(random.normal(0, (0.06, 0.04, 0.04, 0.03))),
        upper=np.array([4400, 5350, 6300]) * np.exp(random.uniform(-0.07, 0.07, 3)),
    )


# --- sentences: what is said ------------------------------------------------------------------------------------------


class Syllable(NamedTuple):
    """Or a pause, which is a syllable of one phone."""

    phones: tuple[str, ...]
    stressed: bool = False


_ONSETS = (  # a phone is as frequent as it stands here
    "p t t k k b b d d g m m n n l l r r w w y hh hh f f th dh dh s s s sh v z ch jh "
    "p-r t-r k-r b-r d-r g-r f-r p-l k-l b-l g-l f-l s-l s-p s-t s-k s-m s-n s-w t-w k-w s-t-r"
)
_STRESSED = "iy ih ih eh eh ae ae aa ao ah uh uw er ey ey ay ay oy aw ow"
_WEAK = "ax ax ax ax ax ih ih ih iy er ow uw"
_CODAS = "n n n m ng l l r r s z z t t d d k p v f th sh zh g b ch n-t n-d s-t k-s l-z n-z r-d m-p ng-k"


def _pick(random: Random, clusters: str) -> tuple[str, ...]:
    """One of them, with the closures of its stops."""
    choices = clusters.split()
    phones = choices[random.integers(len(choices))].split("-")  # as `choice` would, but quicker
    return tuple(part for phone in phones for part in ((CLOSURES[phone], phone) if phone in CLOSURES else (phone,)))


def _syllable(random: Random, stressed: bool) -> Syllable:
    onset = _pick(random, _ONSETS) if random.random() < 0.9 else ()
    coda = _pick(random, _CODAS) if random.random() < (0.55 if stressed else 0.3) else ()
    return Syllable((*onset, *_pick(random, _STRESSED if stressed else _WEAK), *coda), stressed)


def sentence(number: int) -> tuple[Syllable, ...]:
    """The words of an utterance, drawn without regard to who speaks: 8 to 14 syllables, perhaps a pause between."""
    random = _random(1, number)
    count = int(random.integers(8, 15))
    beats = np.cumsum(random.integers(2, 4, count)) - random.integers(1, 3)  # every second or third is stressed
    syllables = [_syllable(random, i in beats) for i in range(count)]
    if random.random() < 0.3:
        syllables.insert(int(random.integers(3, count - 2)), Syllable(("pau",)))
    return (Syllable(("h#",)), *syllables, Syllable(("h#",)))


# --- timing and melody ------------------------------------------------------------------------------------------------


class Segment(NamedTuple):
    start: int
    end: int
    phone: str


class Note(NamedTuple):
    """How high a vowel is sung, and how loud."""

    time: float
    semitones: float
    level: float


def timed(syllables: Sequence[Syllable], voice: Speaker, random: Random) -> tuple[list[Segment], list[Note]]:
    """When each phone comes; stress takes time, and so does the last syllable before the silence."""
    segments, notes, time = list[Segment](), list[Note](), 0
    for i, syllable in enumerate(syllables):
        slow = voice.pace * (1.1 if syllable.stressed else 0.85) * (1.4 if i == len(syllables) - 2 else 1)
        for j, phone in enumerate(syllable.phones):
            unaspirated = "s" in syllable.phones[max(j - 2, 0) : j] and phone in CLOSURES  # the p of "spin"
            length = PHONES[phone].length * (0.4 if unaspirated else slow) * np.exp(random.normal(0, 0.15))
            end = time + max(int(length * RATE / 1000), HOP)
            if phone in VOWELS:
                height = voice.accent * random.uniform(0.4, 1.3) if syllable.stressed else random.normal(0, 0.4)
                notes.append(Note((time + end) / 2, height, random.normal(2 if syllable.stressed else -2, 1.5)))
            segments.append(Segment(time, end, phone))
            time = end
    return segments, notes


def melody(voice: Speaker, notes: Sequence[Note], count: int, random: Random) -> Array:
    """The pitch at each of `count` samples; its mean over the sentence is the speaker's."""
    times = np.arange(0, count + HOP, HOP)
    drift = np.convolve(random.normal(0, 1, len(times) + 40), np.hanning(41) / 10, "valid")
    heights = np.interp(times, [note.time for note in notes], [note.semitones for note in notes])
    semitones = _smooth(heights + 0.3 * drift - voice.declination * times / RATE, 5)
    pitch = voice.pitch * 2 ** ((semitones - semitones.mean()) / 12)
    return np.asarray(np.interp(np.arange(count), times, pitch))


# --- tracks: smooth ways from target to target ------------------------------------------------------------------------


def _smooth(track: Array, sigma: float) -> Array:
    """Along time, by a Gaussian of `sigma` frames; the ends are held."""
    reach = int(3 * sigma)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    return np.convolve(np.pad(track, reach, mode="edge"), kernel / kernel.sum(), "valid")


def _track(times: Array, knots: Array, values: Array) -> Array:
    """Straight lines between those knots whose value is known."""
    known = ~np.isnan(values)
    return np.interp(times, knots[known], values[known])


def _knots(segments: Sequence[Segment], edges: Array) -> Array:
    """Two times a segment, `edges` samples from its ends but never past its middle."""
    start, end = np.array([(start, end) for start, end, _ in segments]).T
    edges = np.minimum(edges, 0.45 * (end - start))
    return np.stack([start + edges, end - edges], 1).ravel()


@dataclass(frozen=True, eq=False)
class Tracks:
    """The mouth's shape in each frame."""

    formants: Array  # (frames, 7)
    place: Array  # (frames, 4) of the hiss
    nasal: Array  # (frames,)
    cutoff: Array  # (frames,)


def shapes(segments: Sequence[Segment], voice: Speaker, random: Random) -> Tracks:
    targets = []
    for _, _, name in segments:
        phone = PHONES[name]
        own = voice.habits[NAMES.index(name)] * np.exp(random.normal(0, 0.02, 4)) / voice.tract
        place = np.multiply(phone.place, voice.sharpness)
        nasal = max(phone.nasal, voice.nasality)
        for aim in (phone.formants, phone.towards or phone.formants):
            targets.append([*np.multiply(aim, own), *place, nasal, np.log(phone.cutoff)])
    knots = _knots(segments, np.array(0.04 * RATE))
    times = np.arange(0, segments[-1].end + WINDOW, HOP, dtype=float) - WINDOW / 2 + HOP
    tracks = np.stack([_smooth(_track(times, knots, column), 2) for column in np.array(targets).T], 1)
    upper = np.tile(np.minimum(voice.upper / voice.tract, 0.48 * RATE), (len(times), 1))
    return Tracks(np.hstack([tracks[:, :4], upper]), tracks[:, 4:8], tracks[:, 8], np.exp(tracks[:, 9]))


def levels(segments: Sequence[Segment], notes: Sequence[Note]) -> tuple[Array, Array, Array]:
    """The amplitudes of voice, breath and hiss at each sample."""
    phones = [PHONES[name] for _, _, name in segments]
    knots = _knots(segments, np.array([phone.edge for phone in phones]) * RATE / 1000)
    times = np.arange(segments[-1].end, dtype=float)
    stress = np.interp(times, [note.time for note in notes], [note.level for note in notes]) - times / RATE
    targets = np.array([(phone.voice, phone.breath, phone.hiss - lost) for phone in phones for lost in (0, phone.fade)])
    voice, breath, hiss = (10 ** ((np.interp(times, knots, column) + stress) / 20) for column in targets.T)
    return voice, breath, hiss


# --- sound: sources and filters ---------------------------------------------------------------------------------------


def _pulses(pitch: Array, amplitude: Array, voice: Speaker, random: Random) -> Array:
    """A pulse for each glottal cycle, between samples where it falls there."""
    count = len(pitch)
    phase = np.cumsum(pitch / RATE)
    times = np.interp(np.arange(1, phase[-1]), phase, np.arange(count))
    period = RATE / np.interp(times, np.arange(count), pitch)
    heights = np.interp(times, np.arange(count), amplitude) * np.sqrt(period)  # the power does not depend on the pitch
    heights *= 1 + voice.shimmer * random.normal(size=len(times))
    times += voice.jitter * period * random.normal(size=len(times))
    taps = np.arange(-15, 17)
    at = np.floor(times).astype(int)[:, None] + taps  # (pulses, taps)
    away = at - times[:, None]
    drawn = heights[:, None] * np.sinc(away) * np.cos(np.pi * away / 34) ** 2
    inside = (at >= 0) & (at < count)
    return np.asarray(np.bincount(at[inside], drawn[inside], count), float)


def _glottal(pulses: Array, voice: Speaker) -> Array:
    """Pulses rounded to the glottis' flow, as the lips radiate it: a hump at the glottal formant, then a fall."""
    length = 1 << len(pulses).bit_length()  # fast, and longer than the sound: nothing comes round to its start
    f = np.fft.rfftfreq(length, 1 / RATE)
    hump = 1.8 * voice.pitch / voice.open_quotient
    response = 1j * f * 500 / (hump**2 - f**2 + 1.6j * f * hump) / (1 + 1j * f / voice.softness)
    return np.fft.irfft(np.fft.rfft(pulses, length) * response, length)[: len(pulses)]


def _polynomial(frequency: Array, bandwidth: Array) -> Array:
    """(frames, n) resonances -> (frames, 2n + 1), the polynomial of the delay that vanishes at them."""
    radius = np.exp(-np.pi * bandwidth / RATE)
    first, second = -2 * radius * np.cos(2 * np.pi * frequency / RATE), radius**2
    product = np.zeros((len(frequency), 2 * frequency.shape[1] + 1))
    product[:, 0] = 1
    for i in range(frequency.shape[1]):
        product[:, 2:] += first[:, i : i + 1] * product[:, 1:-1] + second[:, i : i + 1] * product[:, :-2]
        product[:, 1] += first[:, i]
    return product


def _response(polynomial: Array) -> NDArray[np.complex128]:
    """Over frequency, 1 at zero."""
    return np.fft.rfft(polynomial / polynomial.sum(1, keepdims=True), LENGTH)


BANDWIDTHS = np.array([70.0, 90.0, 130.0, 190.0, 260.0, 380.0, 520.0])


def tract_response(tracks: Tracks, voice: Speaker) -> NDArray[np.complex128]:
    """(frames, bins); the nose adds a resonance, and a dip beside it where it is open."""
    nose = np.full((len(tracks.nasal), 1), 280 / voice.tract)
    hollow, narrow = np.full_like(nose, voice.hollow), np.full_like(nose, 100)
    dips = np.hstack([nose * (1 + 0.8 * tracks.nasal[:, None]), hollow]), np.hstack([narrow, 2 * narrow])
    bandwidths = BANDWIDTHS * voice.damping * (1 + tracks.nasal[:, None])
    poles = np.hstack([tracks.formants, nose, hollow]), np.hstack([bandwidths, narrow, 10 * narrow])
    lips = 1 + 1j * np.fft.rfftfreq(LENGTH, 1 / RATE) / tracks.cutoff[:, None]
    return _response(_polynomial(*dips)) / (_response(_polynomial(*poles)) * lips**2)


def hiss_response(tracks: Tracks) -> NDArray[np.complex128]:
    """(frames, bins), of power 1; no sound at zero, where a small hole radiates none."""
    edge = 1 - np.exp(-2j * np.pi * np.fft.rfftfreq(LENGTH))
    response = edge / _response(_polynomial(tracks.place[:, ::2], tracks.place[:, 1::2]))
    return np.asarray(response / np.sqrt((np.abs(response) ** 2).mean(1, keepdims=True)))


def _frames(sound: Array, count: int) -> NDArray[np.complex128]:
    """(count, bins), the transforms of overlapping windows that add up to the sound."""
    padded = np.pad(sound, (WINDOW - HOP, WINDOW + HOP))
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][:count]
    return np.fft.rfft(windows * np.hanning(WINDOW + 1)[:-1] / 2, LENGTH)


def _overlap(spectra: NDArray[np.complex128], count: int) -> Array:
    """The sound whose frames, ringing included, are these."""
    blocks = np.fft.irfft(spectra, LENGTH).reshape(len(spectra), -1, HOP)
    sound = np.zeros((len(spectra) + blocks.shape[1], HOP))
    for i in range(blocks.shape[1]):
        sound[i : i + len(spectra)] += blocks[:, i]
    return sound.reshape(-1)[WINDOW - HOP :][:count]


def pronounce(segments: Sequence[Segment], notes: Sequence[Note], voice: Speaker, random: Random) -> Array:
    """The sound of one speaker's phones, before room and microphone."""
    count = segments[-1].end
    tracks = shapes(segments, voice, random)
    pitch = melody(voice, notes, count, random)
    voiced, breathed, hissed = levels(segments, notes)
    flutter = 1 + 0.7 * np.cos(2 * np.pi * np.cumsum(pitch / RATE))  # breath comes when the glottis is open
    breath = (breathed + voiced * 10 ** (voice.breath / 20) * flutter) * random.normal(size=count)
    source = _glottal(_pulses(pitch, voiced, voice, random), voice) + breath
    hiss = hissed * 10 ** (voice.hiss / 20) * random.normal(size=count)
    frames = len(tracks.formants)
    spectra = _frames(source, frames) * tract_response(tracks, voice) + _frames(hiss, frames) * hiss_response(tracks)
    return _overlap(spectra, count)


# --- recordings -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Utterance:
    sound: NDArray[np.float32]  # (samples,) in [-1, 1]
    speaker: Speaker
    segments: tuple[Segment, ...]  # every sample in one


def utterance(number: int) -> Utterance:
    """Speaker number // SENTENCES reads one of his or her sentences."""
    voice, segments, notes, random = _planned(number)
    sound = pronounce(segments, notes, voice, random)
    return Utterance(record(sound, random), voice, tuple(segments))


def segments(number: int) -> tuple[Segment, ...]:
    """Those of an utterance, without making its sound."""
    return tuple(_planned(number)[1])


def _planned(number: int) -> tuple[Speaker, list[Segment], list[Note], Random]:
    """Who speaks, what when and how high; the rest is drawn from the generator as it is left."""
    if not 0 <= number < UTTERANCES:
        raise ValueError(f"expected an utterance from 0 to {UTTERANCES - 1}, got {number}")
    voice, random = speaker(number // SENTENCES), _random(2, number)
    return voice, *timed(sentence(number), voice, random), random


def record(sound: Array, random: Random) -> NDArray[np.float32]:
    """A loudness and a noise floor drawn anew each time, so that neither tells who speaks."""
    sound = _in_a_room(sound)
    sound = sound * 10 ** (random.uniform(-36, -32) / 20) / np.sqrt((sound**2).mean())
    floor = 10 ** (random.uniform(-86, -82) / 20)
    return np.asarray(sound + floor * random.normal(size=len(sound)), np.float32)


def _in_a_room(sound: Array) -> Array:
    """With a short echo, the same for everyone."""
    time = np.arange(int(0.2 * RATE))
    echo = _random(3, 0).normal(size=len(time)) * 10 ** (-3 * time / len(time))
    echo *= 10 ** (-22 / 20) / np.sqrt((echo**2).sum())
    echo[0] = 1
    length = 1 << (len(sound) + len(echo)).bit_length()
    return np.fft.irfft(np.fft.rfft(sound, length) * np.fft.rfft(echo, length), length)[: len(sound)]
