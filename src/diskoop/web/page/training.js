// Curves of a training, and a watch on one that goes on.
import { chart } from "./chart.js";
import { byId, el, get, say } from "./util.js";

const SECONDS = 5;

export class Training {
  /** onChange(): the run has a newer checkpoint, or is finished. */
  constructor(onChange) {
    this.onChange = onChange;
    this.version = null;
  }

  /** Show the curves, and go on asking while training goes on. */
  async watch() {
    try {
      const facts = await get("/api/training");
      this.draw(facts);
      if (this.version !== null && facts.version !== this.version) await this.onChange();
      this.version = facts.version;
      if (facts.is_finished) return;
    } catch (error) {
      say(error.message);
    }
    setTimeout(() => this.watch(), SECONDS * 1000);
  }

  draw({ rows, is_finished }) {
    const state = is_finished ? "Trained to its end." : "Training goes on; pictures follow its checkpoints.";
    byId("training-facts").textContent = rows.length ? `${state} ${rows.length} validations.` : `${state} No validation yet.`;
    if (!rows.length) return;
    const numbers = Object.keys(rows[rows.length - 1]).filter((key) => typeof rows[rows.length - 1][key] === "number");
    const xs = rows.map((row) => row.step ?? row.epoch);
    const curves = [];
    for (const key of numbers) {
      const values = rows.map((row) => row[key] ?? null);
      const isCount = ["step", "epoch", "lr", "seconds"].includes(key) || values.every((v) => v === values[0]);
      if (isCount && rows.length > 1) continue;
      const positive = values.every((v) => v === null || v > 0);
      const wide = positive && Math.max(...values) > 20 * Math.min(...values.filter((v) => v !== null));
      const line = { values, className: "result", label: key };
      curves.push(chart({ title: key.replaceAll("_", " "), lines: [line], xLabel: rows[0].step === undefined ? "epoch" : "step", logarithmic: wide, xs }));
    }
    byId("curves").replaceChildren(...(curves.length ? curves : [el("p", { class: "muted" }, "One validation so far.")]));
  }
}
