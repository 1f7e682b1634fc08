"""which figure stands in which table, and what guessing comes to"""

from collections.abc import Sequence

import numpy as np

from diskoop.evaluation.evaluate import EvalContext
from diskoop.evaluation.multifactor import floor, value_count
from diskoop.evaluation.results import Column, Measured, Table, exactly


def chance(context: EvalContext) -> Measured:
    """What guessing comes to, and what is best where the best is known."""
    guesses = {label: exactly(1 / value_count(context.clips, label)) for label in context.labels}
    begins = [f"two/{way}/{part}/kept" for way in ("paper", "two", "found") for part in ("static", "dynamic")]
    begins += [f"{table}/{label}" for table in ("factorial", "multifactor", "kept") for label in context.labels]
    figures = {f"{begin}/{label}": guess for begin in begins for label, guess in guesses.items()}
    if context.labels:
        lowest = exactly(floor([value_count(context.clips, label) for label in context.labels]))
        figures |= {"multifactor/score": lowest, "multifactor-single/score": lowest}
    if len(context.labels) > 1:  # every label is left alone as often as any other
        kept = exactly(float(np.mean([guess.mean for guess in guesses.values()])))
        figures |= {"kept/score": kept, "kept-single/score": kept}
    origin = "1 / number of values; of the score, what doing nothing gets; of what is kept, what swapping all keeps"
    return Measured("chance", figures, origin)


def tables(labels: Sequence[str], moving: str | None) -> list[Table]:
    """The paper's tables and those beyond, for the labels of a set and the one that moves."""
    by_label = [Column(label, label, share=True) for label in labels]
    return [*_sampled(labels, moving), *_swapped(labels, by_label), *_read(by_label), *_spoken(), *_unlabelled()]


def _sampled(labels: Sequence[str], moving: str | None) -> list[Table]:
    """One part sampled, the other kept."""
    kept = [*(Column(label, f"kept/{label}", share=True) for label in labels), Column("diversity", "diversity")]
    ways = {
        "paper": "the paper's way",
        "two": "two clips mixed",
        "found": "two mixed, factors as found",
    }
    return [
        Table(
            "Two factors",
            [
                Column("Acc", "acc", True, "↑"),
                Column("IS", "is", False, "↑"),
                Column("H(y|x)", "hyx", False, "↓"),
                Column("H(y)", "hy", False, "↑"),
                Column("multifactor score", "/multifactor/score", False, "↑"),
                Column("kept", "/kept/score", False, "↑"),
            ],
            f"Acc: the static part is sampled, and a judge still recognises the {moving}, as the paper measures it. It "
            "cannot see whether anything else changed: a model that keeps everything in its dynamic part has a perfect "
            "one. The multifactor score looks at what changes when one factor is taken, kept at what does not. The "
            "paper's way mixes the static parts of a whole "
            "batch, split by the batch's own operator; beside it stand mixtures of two clips with the frozen operator, "
            "split by eigenvalue and by the factors that were found (those that move are the dynamic part).",
            {text: f"two/{way}/static/" for way, text in ways.items()},
        ),
        *(
            Table(
                f"{part.capitalize()} part sampled: what is still recognised",
                kept,
                f"Share of sequences that still show their own value, which should be {wish}. Diversity is that of the "
                "samples next to that of the reconstructions.",
                {text: f"two/{way}/{part}/" for way, text in ways.items()},
            )
            for part, wish in _eval_config(labels, moving)
        ),
    ]


def _swapped(labels: Sequence[str], by_label: Sequence[Column]) -> list[Table]:
    """Factors taken from a donor, and the scores that follow."""
    return [
        Table(
            "Factorial swap",
            by_label,
            "A label's modes are searched for in each batch and swapped in that same batch, as in the paper: the share "
            "that shows the donor's value. `alone` also asks the search that nothing else changes.",
            {f"{label} swap": f"factorial/{label}/" for label in labels}
            | {f"{label} swap, alone": f"factorial-alone/{label}/" for label in labels},
        ),
        Table(
            "One factor at a time",
            by_label,
            "Factors found in training sequences (the notes say how), swapped one at a time in test sequences: the "
            "share that shows the donor's value.",
            {f"{label} taken": f"multifactor/{label}/" for label in labels},
        ),
        Table(
            "One factor at a time: what is kept",
            by_label,
            "The same swaps: the share that still shows its own value of each label that was not taken. Doing nothing "
            "keeps all, swapping everything keeps chance.",
            {f"{label} taken": f"kept/{label}/" for label in labels},
        ),
        Table(
            "Scores",
            [
                Column("multifactor", "multifactor/score", False, "↑"),
                Column("its floor", "multifactor/floor"),
                Column("kept", "kept/score", False, "↑"),
                Column("multifactor, one factor a label", "multifactor-single/score", False, "↑"),
                Column("kept, one factor a label", "kept-single/score", False, "↑"),
                Column("modularity", "dci/modularity", False, "↑"),
                Column("compactness", "dci/compactness", False, "↑"),
                Column("explicitness", "dci/explicitness", False, "↑"),
                Column("factors", "factors/count"),
                Column("stability", "factors/stability", False, "↑"),
            ],
            "The floor is what doing nothing scores, and what swapping everything does; doing nothing keeps all of the "
            "other labels (1), swapping everything keeps chance. The multifactor score sees what is taken and not "
            "whether the rest is damaged, so it means little where less is kept. Where several factors were matched to "
            "a label (the notes say which), they are taken together; beside that stand the scores with only the one "
            "that changes it most.",
        ),
    ]


def _read(by_label: Sequence[Column]) -> list[Table]:
    """What probes read from codes, and a judge from single frames."""
    return [
        Table(
            "What a linear probe reads",
            by_label,
            "Balanced accuracy on test sequences, learnt from training sequences.",
            {
                "from the static part": "leak/static/",
                "from the dynamic part": "leak/dynamic/",
                "chance": "leak/chance/",
            },
        ),
        Table(
            "Consistency of frames after a static swap",
            by_label,
            "A judge of single frames: the share that agree with their sequence's most frequent value (global) and "
            "with the frame before (local).",
            {"global": "consistency/global/", "local": "consistency/local/"},
        ),
    ]


def _spoken() -> list[Table]:
    """Who speaks, and what is said."""
    rate = [
        Column("static", "static", True, "↓"),
        Column("dynamic", "dynamic", True, "↑"),
        Column("gap", "gap", True, "↑"),
    ]
    return [
        Table(
            "Speaker verification, equal error rate",
            rate,
            "Cosine of codes averaged over time, all distinct pairs; in brackets a 95% interval over speakers. The "
            "batch operator is fitted on the evaluated set, as in the paper.",
            {
                "batch operator": "eer/batch/",
                "frozen operator": "eer/frozen/",
                "as printed": "eer/printed/",
                "no operator": "eer/mean/",
            },
        ),
        Table(
            "What is said",
            [
                Column("dynamic", "phones/dynamic", True, "↑"),
                Column("static", "phones/static", True, "↓"),
                Column("spectrum itself", "phones/spectrum", True),
                Column("chance", "phones/chance", True),
            ],
            "Balanced accuracy of a linear probe on single frames: a code that has forgotten everything has a high "
            "dynamic error rate, and shows here.",
        ),
    ]


def _unlabelled() -> list[Table]:
    """What needs no labels."""
    return [
        Table(
            "Without labels",
            [
                Column("reconstruction RMSE", "rec/rmse", False, "↓"),
                Column("variance explained", "rec/explained", True, "↑"),
                Column("next frame RMSE", "pred/ours", False, "↓"),
                Column("holding the last", "pred/held"),
                Column("static eigenvalues from 1", "spectrum/static_gap", False, "↓"),
                Column("largest dynamic", "spectrum/dynamic_radius"),
                Column("cycle error", "cycle/static", False, "↓"),
            ],
            "In the data's units. The cycle error is how far the static code of a swapped, decoded and encoded "
            "sequence is from what was put in, next to how far apart sequences are.",
        ),
        Table(
            "Resources",
            [
                Column("parameters", "cost/parameters"),
                Column("training sequences", "cost/sequences"),
                Column("seconds a step", "cost/step"),
                Column("in training", "cost/trained"),
                Column("bytes", "cost/memory"),
            ],
            "Weights, gradients, moments and what one step keeps for its backward pass.",
        ),
    ]


def _eval_config(labels: Sequence[str], moving: str | None) -> list[tuple[str, str]]:
    """What should be recognised when either part is sampled."""
    if moving is None:
        return [("static", "chance for what stays"), ("dynamic", "chance for what moves")]
    others = ", ".join(label for label in labels if label != moving) or "the others"
    return [
        ("static", f"all for {moving} and chance for {others}"),
        ("dynamic", f"all for {others} and chance for {moving}"),
    ]
