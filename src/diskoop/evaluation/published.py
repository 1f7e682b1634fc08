"""what the paper and others report, to stand beside ours"""

from collections.abc import Mapping

from diskoop.evaluation.metrics import Summary
from diskoop.evaluation.results import Measured

PAPER = "Berman, Naiman and Azencot (2023)"
REPEATS = 300  # of the paper's appendix


def _printed(name: str, source: str, figures: Mapping[str, float | tuple[float, float]]) -> Measured:
    """Figures as printed: a number, or a mean and a standard deviation."""
    values = {
        key: Summary(value[0], value[1], None, None, REPEATS)
        if isinstance(value, tuple)
        else Summary(value, None, None, None, 1)
        for key, value in figures.items()
    }
    return Measured(name, values, source)


def _two(accuracy: float, score: float, within: float, across: float) -> dict[str, float]:
    return dict(zip(_TWO, (accuracy / 100, score, within, across), strict=True))


_TWO = tuple(f"two/paper/static/{key}" for key in ("acc", "is", "hyx", "hy"))
_LABELS = ("action", "skin", "top", "pants", "hair")


def _swap(taken: str, *shares: float) -> dict[str, float]:
    return {f"factorial/{taken}/{label}": share / 100 for label, share in zip(_LABELS, shares, strict=True)}


def _swap_spread(taken: str, *shares: tuple[float, float]) -> dict[str, tuple[float, float]]:
    pairs = zip(_LABELS, shares, strict=True)
    return {f"factorial/{taken}/{label}": (mean / 100, std / 100) for label, (mean, std) in pairs}


def _matrix(rows: Mapping[str, tuple[float, ...]]) -> dict[str, float]:
    return {
        f"multifactor/{taken}/{label}": share
        for taken, shares in rows.items()
        for label, share in zip(rows, shares, strict=True)
    }


SPRITES = (
    _printed("MoCoGAN", f"{PAPER}, table 2", _two(92.89, 8.461, 0.090, 2.192)),
    _printed("DSVAE", f"{PAPER}, tables 2 and 9", _two(90.73, 8.384, 0.072, 2.192) | {"cost/parameters": 21e6}),
    _printed("R-WAE", f"{PAPER}, tables 2 and 9", _two(98.98, 8.516, 0.055, 2.197) | {"cost/parameters": 121e6}),
    _printed("S3VAE", f"{PAPER}, tables 2 and 9", _two(99.49, 8.637, 0.041, 2.197) | {"cost/parameters": 11e6}),
    _printed("C-DSVAE", f"{PAPER}, tables 2 and 9", _two(99.99, 8.871, 0.014, 2.197) | {"cost/parameters": 11e6}),
    _printed(
        "SKD, the paper",
        f"{PAPER}, main text",
        _two(100, 8.999, 1.6e-7, 2.197)
        | _swap("hair", 10.51, 16.25, 16.33, 35.51, 90.59)
        | _swap("skin", 10.55, 73.01, 16.29, 30.55, 17.70)
        | {"cost/parameters": 2e6},
    ),
    _printed(
        "SKD, its appendix",
        f"{PAPER}, appendix",
        dict(zip(_TWO, ((1.0, 0.0), (8.999, 2.3e-6), (1.6e-7, 2.2e-7), (2.197, 0.0)), strict=True))
        | _swap_spread("hair", (11.35, 0.65), (17.40, 0.79), (17.07, 0.77), (36.29, 0.88), (90.20, 0.52))
        | _swap_spread("skin", (11.35, 0.65), (72.72, 0.68), (17.23, 0.89), (31.22, 0.84), (16.92, 0.77)),
    ),
    _printed(
        "SSM-SKD, best published",
        "the matrix in its authors' repository",
        _matrix(
            {
                "skin": (0.843, 0.177, 0.183, 0.174, 0.129),
                "pants": (0.189, 0.985, 0.175, 0.166, 0.116),
                "top": (0.176, 0.169, 0.992, 0.166, 0.115),
                "hair": (0.186, 0.167, 0.171, 0.985, 0.116),
                "action": (0.187, 0.169, 0.172, 0.177, 0.995),
            }
        )
        | {"multifactor/score": 0.976},
    ),
)

FACES = (
    _printed("MoCoGAN", f"{PAPER}, table 3", _two(63.12, 4.332, 0.183, 1.721)),
    _printed("DSVAE", f"{PAPER}, table 3", _two(54.29, 3.608, 0.374, 1.657)),
    _printed("R-WAE", f"{PAPER}, table 3", _two(71.25, 5.149, 0.131, 1.771)),
    _printed("S3VAE", f"{PAPER}, table 3", _two(70.51, 5.136, 0.135, 1.760)),
    _printed("C-DSVAE", f"{PAPER}, table 3", _two(81.16, 5.341, 0.092, 1.775)),
    _printed("SKD, the paper", f"{PAPER}, table 3", _two(77.45, 5.569, 0.052, 1.769)),
    _printed(
        "SKD, its appendix",
        f"{PAPER}, appendix",
        dict(zip(_TWO, ((0.7745, 0.0062), (5.569, 0.026), (0.052, 0.004), (1.769, 0.0)), strict=True)),
    ),
    _printed("SPYL", "its authors' paper", _two(85.71, 5.548, 0.066, 1.779)),
    _printed("DBSE, best published", "its authors' paper", _two(86.90, 5.598, 0.041, 1.782)),
)


def _rates(name: str, source: str, static: float, dynamic: float) -> Measured:
    shares = {"eer/printed/static": static / 100, "eer/printed/dynamic": dynamic / 100}
    return _printed(name, source, shares | {"eer/printed/gap": (dynamic - static) / 100})


SPEECH = (
    _rates("FHVAE", f"{PAPER}, table 4", 5.06, 22.77),
    _rates("DSVAE", f"{PAPER}, table 4", 5.65, 19.20),
    _rates("R-WAE", f"{PAPER}, table 4", 4.73, 23.41),
    _rates("S3VAE", f"{PAPER}, table 4", 5.02, 25.51),
    _rates("C-DSVAE without content augmentation", f"{PAPER}, table 4", 5.09, 24.30),
    _rates("C-DSVAE without dynamic augmentation", f"{PAPER}, table 4", 4.31, 31.09),
    _rates("C-DSVAE", f"{PAPER}, table 4", 4.03, 31.81),
    _rates("SKD, the paper", f"{PAPER}, table 4", 4.46, 26.78),
    _rates("SPYL, best published static", "its authors' paper", 3.41, 33.22),
    _rates("DBSE", "its authors' paper", 3.50, 34.62),
    _rates("DiffSDA, best published gap", "its authors' paper", 4.43, 46.72),
)
