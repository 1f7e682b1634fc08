// Curves of a training, its present spectrum and a few swaps, and a watch on one that goes on.
import { chart } from "./chart.js";
import { thumbnail } from "./player.js";
import { byId, coalesce, el, get, post, showToast } from "./util.js";

const SECONDS = 5;
const SECONDS_FINISHED = 20; // a finished run may go on again
const PAIRS = 3; // that are swapped, always the same ones
const UNINTERESTING = ["step", "epoch", "lr", "seconds", "waited"];

export class Training {
  /** gallery: of the clips that are swapped. onChange(): the run has a newer checkpoint, or is finished. */
  constructor(gallery, spectrum, onChange) {
    this.gallery = gallery;
    this.spectrum = spectrum;
    this.onChange = onChange;
    this.run = null; // the facts of the run that is shown
    this.isFinished = false;
    this.drawn = null;
    this.drawnVersion = null; // of the run whose swaps are drawn
    this.isOpen = false;
    this.drawSwaps = coalesce(() => this.swap());
  }

  /** Show the run as it is now. */
  show(run) {
    this.run = run;
    this.spectrum.show(run);
    this.drawSwaps();
  }

  open(isOpen) {
    this.isOpen = isOpen;
    if (isOpen) this.ask();
  }

  /** Go on asking: less often of a finished run, and without complaint if nobody answers. */
  async watch() {
    await this.ask();
    setTimeout(() => this.watch(), (this.isFinished ? SECONDS_FINISHED : SECONDS) * 1000);
  }

  async ask() {
    try {
      const facts = await get("/api/training");
      this.draw(facts);
      if (facts.version !== this.run.version) await this.onChange();
      this.isFinished = facts.is_finished;
    } catch (error) {
      if (!this.isFinished) showToast(error.message);
    }
    this.drawSwaps();
  }

  /** A few receivers with a donor's static part, beside both; only while they can be seen. */
  async swap() {
    const { splits } = this.gallery;
    const { version } = this.run;
    if (!this.isOpen || !splits || version === this.drawnVersion) return;
    const split = ["val", ...Object.keys(splits)].find((name) => splits[name] > 1);
    const half = Math.floor((splits[split] ?? 0) / 2);
    const rows = Array.from({ length: Math.min(PAIRS, half) }, async (_, index) => {
      const [receiver, donor] = [`${split}/${index}`, `${split}/${index + half}`];
      const made = await post("/api/edit", { kind: "swap", receiver, donor, factors: ["static"] });
      const views = [await this.gallery.view(receiver), made.view, await this.gallery.view(donor)];
      const all = views.flatMap(({ values }) => values ?? []); // series are drawn to one scale
      const pictures = await Promise.all(views.map((view, at) => thumbnail(view, [receiver, made.caption, donor][at], all)));
      return pictures.map((picture) => el("span", { class: "thumb", title: made.caption }, picture));
    });
    const cells = (await Promise.all(rows)).flat();
    const titles = ["receiver", "with the donor's static part", "donor"].map((title) => el("span", { class: "muted" }, title));
    byId("swaps").replaceChildren(...(cells.length ? [...titles, ...cells] : []));
    this.drawnVersion = version;
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
