// Curves of a training, and a watch on one that goes on.
import { chart } from "./chart.js";
import { byId, el, get, showToast } from "./util.js";

const SECONDS = 5;
const SECONDS_FINISHED = 20; // a finished run may go on again
const UNINTERESTING = ["step", "epoch", "lr", "seconds", "waited"];

export class Training {
  /** onChange(): the run has a newer checkpoint, or is finished. */
  constructor(onChange) {
    this.onChange = onChange;
    this.version = null;
    this.isFinished = false;
    this.drawn = null;
  }

  /** Show the curves, and go on asking: less often of a finished run, and without complaint if nobody answers. */
  async watch() {
    try {
      const facts = await get("/api/training");
      this.draw(facts);
      if (this.version !== null && facts.version !== this.version) await this.onChange();
      this.version = facts.version;
      this.isFinished = facts.is_finished;
    } catch (error) {
      if (!this.isFinished) showToast(error.message);
    }
    setTimeout(() => this.watch(), (this.isFinished ? SECONDS_FINISHED : SECONDS) * 1000);
  }

  draw({ rows, is_finished, version }) {
    const drawn = `${version} ${is_finished} ${rows.length}`;
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    const state = is_finished ? "Trained to its end." : "Training goes on; pictures follow its checkpoints.";
    byId("training-facts").textContent = rows.length ? `${state} ${rows.length} validations.` : `${state} No validation yet.`;
    if (!rows.length) return;
    const last = rows[rows.length - 1];
    const terms = new Map(); // name -> [key of the training split, key of the validation split, or a key alone]
    for (const key of Object.keys(last)) {
      if (typeof last[key] !== "number" || UNINTERESTING.includes(key)) continue;
      const name = key.replace(/^(train|val)\./, "");
      terms.set(name, [...(terms.get(name) ?? []), key]);
    }
    const xs = rows.map((row) => row.step ?? row.epoch);
    const curves = [...terms].map(([name, keys]) => {
      const lines = keys.map((key) => ({
        values: rows.map((row) => row[key] ?? null),
        className: key.startsWith("train.") ? "receiver" : "result",
        label: key,
      }));
      const known = lines.flatMap(({ values }) => values).filter((value) => value !== null);
      const logarithmic = Math.min(...known) > 0 && Math.max(...known) > 20 * Math.min(...known);
      const xLabel = rows[0].step === undefined ? "epoch" : "step";
      return chart({ title: name.replaceAll("_", " "), lines, xLabel, logarithmic, xs });
    });
    const legend = el("p", { class: "legend-line" }, el("span", { class: "key receiver" }, "training"), el("span", { class: "key" }, "validation"));
    byId("curves").replaceChildren(legend, ...curves);
  }
}
