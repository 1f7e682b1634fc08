"""values that the paper and others report"""

from collections.abc import Mapping

from diskoop.evaluation.metrics import Summary
from diskoop.evaluation.results import Key, ModelResults

PAPER = "Berman, Naiman and Azencot (2023)"
REPEATS = 300  # of the paper's appendix

Printed = dict[Key, float | tuple[float, float]]  # a number, or a mean and a standard deviation

_LABELS = ("action", "skin", "top", "pants", "hair")


def _model(name: str, source: str, printed: Printed) -> ModelResults:
    values = {
        key: Summary(value[0], value[1], None, None, REPEATS)
        if isinstance(value, tuple)
        else Summary(value, None, None, None, 1)
        for key, value in printed.items()
    }
    return ModelResults(name, values, source)


def _sampling(*columns: float | tuple[float, float]) -> Printed:
    """Acc as a fraction, IS, H(y|x), H(y)."""
    names = ("acc", "is", "hyx", "hy")
    return {Key("sampling", name, "paper"): value for name, value in zip(names, columns, strict=True)}


def _swap(swapped: str, *percent: float | tuple[float, float]) -> Printed:
    return {
        Key("factorial", label, swapped): (each[0] / 100, each[1] / 100) if isinstance(each, tuple) else each / 100
        for label, each in zip(_LABELS, percent, strict=True)
    }


def _matrix(rows: Mapping[str, tuple[float, ...]]) -> Printed:
    return {
        Key("swap", label, swapped): value
        for swapped, values in rows.items()
        for label, value in zip(rows, values, strict=True)
    }


def _parameters(count: float) -> Printed:
    return {Key("cost", "parameters"): count}


SPRITES = (
    _model("MoCoGAN", f"{PAPER}, table 2", _sampling(92.89 / 100, 8.461, 0.090, 2.192)),
    _model("DSVAE", f"{PAPER}, tables 2 and 9", _sampling(90.73 / 100, 8.384, 0.072, 2.192) | _parameters(21e6)),
    _model("R-WAE", f"{PAPER}, tables 2 and 9", _sampling(98.98 / 100, 8.516, 0.055, 2.197) | _parameters(121e6)),
    _model("S3VAE", f"{PAPER}, tables 2 and 9", _sampling(99.49 / 100, 8.637, 0.041, 2.197) | _parameters(11e6)),
    _model("C-DSVAE", f"{PAPER}, tables 2 and 9", _sampling(99.99 / 100, 8.871, 0.014, 2.197) | _parameters(11e6)),
    _model(
        "SKD, the paper",
        f"{PAPER}, main text",
        _sampling(1.0, 8.999, 1.6e-7, 2.197)
        | _swap("hair", 10.51, 16.25, 16.33, 35.51, 90.59)
        | _swap("skin", 10.55, 73.01, 16.29, 30.55, 17.70)
        | _parameters(2e6),
    ),
    _model(
        "SKD, its appendix",
        f"{PAPER}, appendix",
        _sampling((1.0, 0.0), (8.999, 2.3e-6), (1.6e-7, 2.2e-7), (2.197, 0.0))
        | _swap("hair", (11.35, 0.65), (17.40, 0.79), (17.07, 0.77), (36.29, 0.88), (90.20, 0.52))
        | _swap("skin", (11.35, 0.65), (72.72, 0.68), (17.23, 0.89), (31.22, 0.84), (16.92, 0.77)),
    ),
    _model(
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
        | {Key("multifactor", "score"): 0.976},
    ),
)

FACES = (
    _model("MoCoGAN", f"{PAPER}, table 3", _sampling(63.12 / 100, 4.332, 0.183, 1.721)),
    _model("DSVAE", f"{PAPER}, table 3", _sampling(54.29 / 100, 3.608, 0.374, 1.657)),
    _model("R-WAE", f"{PAPER}, table 3", _sampling(71.25 / 100, 5.149, 0.131, 1.771)),
    _model("S3VAE", f"{PAPER}, table 3", _sampling(70.51 / 100, 5.136, 0.135, 1.760)),
    _model("C-DSVAE", f"{PAPER}, table 3", _sampling(81.16 / 100, 5.341, 0.092, 1.775)),
    _model("SKD, the paper", f"{PAPER}, table 3", _sampling(77.45 / 100, 5.569, 0.052, 1.769)),
    _model(
        "SKD, its appendix",
        f"{PAPER}, appendix",
        _sampling((0.7745, 0.0062), (5.569, 0.026), (0.052, 0.004), (1.769, 0.0)),
    ),
    _model("SPYL", "its authors' paper", _sampling(85.71 / 100, 5.548, 0.066, 1.779)),
    _model("DBSE, best published", "its authors' paper", _sampling(86.90 / 100, 5.598, 0.041, 1.782)),
)


def _error_rates(name: str, source: str, static: float, dynamic: float) -> ModelResults:
    percent = {"static": static, "dynamic": dynamic, "gap": dynamic - static}
    return _model(name, source, {Key("eer", column, "printed"): rate / 100 for column, rate in percent.items()})


SPEECH = (
    _error_rates("FHVAE", f"{PAPER}, table 4", 5.06, 22.77),
    _error_rates("DSVAE", f"{PAPER}, table 4", 5.65, 19.20),
    _error_rates("R-WAE", f"{PAPER}, table 4", 4.73, 23.41),
    _error_rates("S3VAE", f"{PAPER}, table 4", 5.02, 25.51),
    _error_rates("C-DSVAE without content augmentation", f"{PAPER}, table 4", 5.09, 24.30),
    _error_rates("C-DSVAE without dynamic augmentation", f"{PAPER}, table 4", 4.31, 31.09),
    _error_rates("C-DSVAE", f"{PAPER}, table 4", 4.03, 31.81),
    _error_rates("SKD, the paper", f"{PAPER}, table 4", 4.46, 26.78),
    _error_rates("SPYL, best published static", "its authors' paper", 3.41, 33.22),
    _error_rates("DBSE", "its authors' paper", 3.50, 34.62),
    _error_rates("DiffSDA, best published gap", "its authors' paper", 4.43, 46.72),
)
