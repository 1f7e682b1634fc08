"""How long label-free discovery takes, and what it finds when two labels are tied in the clips.

    python benchmarks/factors.py RUN [--tie hair,skin] [--shares 0.17,0.5,0.7,0.9] [--json]
    python benchmarks/factors.py RUN --draws 10 [--json]

Labels only choose the clips and describe what was found: a share beside a factor is how much of its codes' variance a
label explains. With `--draws` factors are looked for again and again, each time with another seed in half of the
training clips drawn anew, and it says how often there is one for each label.
"""

import argparse
import json
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from diskoop import Run, Sequences, load
from diskoop.analysis.decomposition import Decomposition
from diskoop.analysis.discovery.guided import explained_variance
from diskoop.analysis.discovery.label_free import LabelFree
from diskoop.analysis.discovery.results import DiscoveryResult

MOST = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", help="the folder of a run whose data have labels")
    parser.add_argument("--tie", default="hair,skin", help="two labels")
    parser.add_argument("--shares", default="0.17,0.5,0.7,0.9", help="of clips in which they have the same number")
    parser.add_argument("--draws", type=int, help="discoveries in other clips with other seeds, instead of tied labels")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    run = load(options.run, factors=False)
    if options.draws:
        facts = redrawn(run, options.draws)
        print(json.dumps(facts) if options.json else sentence(facts))
        return
    one, other = options.tie.split(",")
    results = [timed(run), *(tied(run, one, other, float(share)) for share in options.shares.split(","))]
    if options.json:
        print(json.dumps(results))
        return
    for result in results:
        print(f"{result['clips']}, {result['sequences']} sequences: ", end="")
        print(f"decomposed in {result['decompose_s']:.1f} s, factors found in {result['find_s']:.1f} s")
        for factor in result["factors"]:
            shares = ", ".join(f"{label} {share:.0%}" for label, share in factor["explained"].items())
            print(f"  {factor['name']}: {factor['dimensions']} dimensions, stability {factor['stability']}: {shares}")
        for note in result["notes"]:
            print(f"  note: {note}")


def redrawn(run: Run, draws: int) -> dict[str, Any]:
    """How many factors each of several discoveries gives, and whether each label explains most of just one of them."""
    clips, counts, clean = run.data("train"), [], []
    for draw in range(draws):
        order = np.random.Generator(np.random.PCG64([1, draw])).permutation(len(clips))
        parts = run.decompose(clips.select(np.sort(order[: min(MOST, len(clips) // 2)])))
        found = LabelFree(seed=draw).find(parts)
        rows = described(parts, replace(found, factors=found.without_remainder))
        owners = [max(row["explained"], key=row["explained"].__getitem__, default=None) for row in rows]
        counts.append(len(rows))
        clean.append(sorted(map(str, owners)) == sorted(clips.labels))
    return {"draws": draws, "counts": counts, "one_for_each_label": sum(clean)}


def sentence(facts: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} factors {times} times" for count, times in sorted(Counter(facts["counts"]).items()))
    return f"{facts['draws']} discoveries: {counts}; one for each label {facts['one_for_each_label']} times"


def timed(run: Run) -> dict[str, Any]:
    """Discovery in as many training clips as it takes at most."""
    return measured(run, some(run.data("train"), MOST), "as they come")


def tied(run: Run, one: str, other: str, share: float) -> dict[str, Any]:
    """Discovery in training clips of which `share` have equal values of two labels."""
    clips = run.data("train")
    equal = clips.labels[one] == clips.labels[other]
    random = np.random.Generator(np.random.PCG64(0))
    total = min(MOST, int(equal.sum() / max(share, 1e-9)), int((~equal).sum() / max(1 - share, 1e-9)))
    chosen = [random.permutation(np.flatnonzero(equal))[: round(share * total)]]
    chosen += [random.permutation(np.flatnonzero(~equal))[: total - len(chosen[0])]]
    subset = clips.select(np.sort(np.concatenate(chosen)))
    really = float((subset.labels[one] == subset.labels[other]).mean())
    return measured(run, subset, f"{one} and {other} tied in {really:.0%}")


def some(clips: Sequences, count: int) -> Sequences:
    return clips.select(np.sort(np.random.Generator(np.random.PCG64(0)).permutation(len(clips))[:count]))


def measured(run: Run, clips: Sequences, title: str) -> dict[str, Any]:
    begin = time.perf_counter()
    parts = run.decompose(clips)
    middle = time.perf_counter()
    found = LabelFree().find(parts)
    end = time.perf_counter()
    return {
        "clips": title,
        "sequences": len(clips),
        "decompose_s": middle - begin,
        "find_s": end - middle,
        "factors": described(parts, found),
        "notes": list(found.notes),
    }


def described(parts: Decomposition, found: DiscoveryResult) -> list[dict[str, Any]]:
    """Each factor with the labels that explain a tenth of its codes at least."""
    rows = []
    for each in found.factors:
        codes = each.factor.part(parts.code(["static", "dynamic"]))
        u, s, _ = torch.linalg.svd(codes - codes.mean(0), full_matrices=False)
        kept = (u * s)[:, : each.dimensions].cpu().numpy()
        shares = {label: explained_variance(kept, values) for label, values in parts.clips.labels.items()}
        rows.append(
            {
                "name": each.name,
                "dimensions": each.dimensions,
                "stability": None if each.stability is None else round(each.stability, 2),
                "explained": {label: share for label, share in shares.items() if share >= 0.1},
            }
        )
    return rows


if __name__ == "__main__":
    main()
