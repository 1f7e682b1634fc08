// Eigenvalues in the complex plane, and a second plane magnified around 1, where static ones crowd.
import { byId, el, short, svg } from "./util.js";

const SIZE = 300;

/** A mode in words. */
export function describe(mode) {
  const sign = mode.im < 0 ? "−" : "+";
  const value = Math.abs(mode.im) < 1e-9 ? short(mode.re) : `${short(mode.re)} ${sign} ${short(Math.abs(mode.im))}i`;
  const words = [`eigenvalue ${mode.index}: ${value}`, mode.static ? "static" : "dynamic", `modulus ${mode.modulus.toFixed(3)}`];
  if (mode.period !== null) words.push(`period ${short(mode.period)} frames`);
  if (mode.half_life !== null) words.push(`half-life ${short(mode.half_life)} frames`);
  const shares = Object.entries(mode.factors); // the largest first
  if (shares.length) words.push(shareText(shares));
  return words.join(", ");
}

/** The factor that a mode belongs to; factors of the static part share modes, and some shares are negative. */
function shareText(shares) {
  const [name, largest] = shares[0];
  if (shares.length === 1) return `factor ${name}`;
  const share = largest / shares.reduce((total, [, each]) => total + each, 0);
  return `${share > 0.5 ? "mostly" : "shared, most of it"} ${name} (${Math.round(100 * share)}%)`;
}

export class Spectrum {
  /** box: where it is drawn. onSelect(indices): the modes that were chosen, whole pairs. */
  constructor(box, onSelect) {
    this.box = box;
    this.onSelect = onSelect;
    this.selected = new Set();
    this.marks = [];
  }

  show(facts) {
    this.modes = facts.modes;
    const farthest = Math.max(1, facts.radius, ...facts.modes.map((m) => m.modulus)) * 1.12;
    const still = facts.modes.filter((m) => m.static).map((m) => Math.hypot(m.re - 1, m.im));
    const near = Math.max(...still) * 1.3;
    this.marks = [];
    const planes = [this.plane(facts, { x: 0, y: 0 }, farthest, "all eigenvalues")];
    // Magnified only where it shows more than the whole plane does: not where all are 1.
    if (near > 1e-6 && near < farthest / 2) planes.push(this.plane(facts, { x: 1, y: 0 }, near, `within ${short(near)} of 1`));
    this.box.replaceChildren(...planes);
    this.mark();
  }

  plane(facts, centre, reach, title) {
    const x = (value) => (SIZE / 2) * (1 + (value - centre.x) / reach);
    const y = (value) => (SIZE / 2) * (1 - (value - centre.y) / reach);
    const length = (value) => (SIZE / 2) * (value / reach);
    const circle = (radius, name) => svg("circle", { cx: x(0), cy: y(0), r: length(radius), class: name });
    const points = [];
    // Static ones are drawn last, over dynamic ones: they crowd in one place, and there are fewer of them.
    for (const mode of [...facts.modes].sort((a, b) => a.static - b.static)) {
      if (Math.abs(mode.re - centre.x) > reach || Math.abs(mode.im - centre.y) > reach) continue;
      points.push(this.point(mode, x(mode.re), y(mode.im)));
    }
    const picture = svg(
      "svg",
      { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "group", "aria-label": `Complex plane, ${title}` },
      svg("line", { x1: 0, x2: SIZE, y1: y(0), y2: y(0), class: "axis" }),
      svg("line", { x1: x(0), x2: x(0), y1: 0, y2: SIZE, class: "axis" }),
      circle(1, "unit"),
      facts.radius !== 1 ? circle(facts.radius, "radius") : null,
      svg("text", { x: 6, y: SIZE - 6 }, title),
      ...points,
    );
    return picture;
  }

  point(mode, x, y) {
    const choose = (event) => {
      event.preventDefault();
      this.choose(mode, event.shiftKey);
    };
    const show = () => (byId("mode-facts").textContent = describe(mode));
    const shape = mode.static
      ? svg("circle", { cx: x, cy: y, r: 5 })
      : svg("path", { d: `M${x} ${y - 6}L${x + 6} ${y}L${x} ${y + 6}L${x - 6} ${y}Z` });
    const node = svg(
      "g",
      {
        class: `mode ${mode.static ? "static" : "dynamic"}`,
        tabindex: 0,
        role: "button",
        "aria-label": describe(mode),
        "data-mode": mode.index,
        onclick: choose,
        onmouseenter: show,
        onfocus: show,
        onkeydown: (event) => {
          if (event.key === "Enter" || event.key === " ") choose(event);
        },
      },
      svg("circle", { cx: x, cy: y, r: 10, class: "target" }), // easier to hit than the mark itself
      shape,
      svg("title", {}, describe(mode)),
    );
    this.marks.push([mode, node]);
    return node;
  }

  choose(mode, isAdding) {
    const isChosen = mode.pair.every((index) => this.selected.has(index));
    const chosen = new Set(isAdding ? this.selected : []);
    for (const index of mode.pair) {
      if (isAdding && isChosen) chosen.delete(index);
      else chosen.add(index);
    }
    this.onSelect([...chosen].sort((a, b) => a - b));
  }

  /** Mark modes as selected; `lit` are those that belong to selected factors. */
  mark(selected = this.selected, lit = this.lit ?? new Set()) {
    this.selected = new Set(selected);
    this.lit = new Set(lit);
    for (const [mode, node] of this.marks) {
      node.classList.toggle("selected", this.selected.has(mode.index));
      node.classList.toggle("lit", this.lit.has(mode.index));
      node.setAttribute("aria-pressed", this.selected.has(mode.index));
    }
  }
}
