// Clips as points, near each other where a factor is alike. A click picks one, a lasso picks several.
import { byId, el, get, coalesce, svg } from "./util.js";

const SIZE = 480;
const MARGIN = 14;
const COLORS = 10; // classes color-0 to color-9 of the style sheet

export class ClipMap {
  /** onPick(id): one clip; onLasso(clips): several. */
  constructor(onPick, onLasso) {
    this.onPick = onPick;
    this.onLasso = onLasso;
    this.label = "";
    this.load = coalesce(async (split, factor) => {
      byId("map").replaceChildren(el("p", { class: "muted" }, `Placing the clips of ${split} by ${factor} …`));
      const { points, of } = await get("/api/map", { split, factor });
      this.points = points;
      this.of = of;
      this.factor = factor;
      this.split = split;
      this.draw();
    });
  }

  open(split, factors, chosen) {
    this.factors = factors;
    if (this.split !== split || this.factor !== chosen) this.load(split, chosen);
  }

  forget() {
    this.split = null;
  }

  draw() {
    const labels = Object.keys(this.points[0]?.labels ?? {});
    if (!labels.includes(this.label)) this.label = labels[0] ?? "";
    const factor = el(
      "select",
      { id: "map-factor", onchange: (event) => this.load(this.split, event.target.value) },
      ...this.factors.map((name) => el("option", { selected: name === this.factor }, name)),
    );
    const label = el(
      "select",
      { onchange: (event) => ((this.label = event.target.value), this.draw()) },
      ...labels.map((name) => el("option", { selected: name === this.label }, name)),
    );
    const shown = this.points.length < this.of ? `${this.points.length} of ${this.of} clips` : `${this.of} clips`;
    byId("map-controls").replaceChildren(
      el("label", {}, "near each other by ", factor),
      labels.length ? el("label", {}, " coloured by ", label) : "",
      el("span", { class: "muted" }, ` ${shown}; click one, or draw around several`),
    );
    const values = [...new Set(this.points.map((point) => point.labels[this.label] ?? ""))].sort();
    const place = (value) => MARGIN + (SIZE - 2 * MARGIN) * value;
    const dots = this.points.map((point) => {
      const color = values.indexOf(point.labels[this.label] ?? "") % COLORS;
      const words = [point.name, ...Object.entries(point.labels).map(([name, value]) => `${name} ${value}`)].join(", ");
      return svg(
        "circle",
        { cx: place(point.x), cy: place(1 - point.y), r: 5, class: `dot color-${color}`, tabindex: 0, role: "button", "aria-label": words,
          onclick: () => this.onPick(point.id),
          onkeydown: (event) => event.key === "Enter" && this.onPick(point.id) },
        svg("title", {}, words),
      );
    });
    const lasso = svg("path", { class: "lasso" });
    const picture = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`, role: "group", "aria-label": `Map of clips by ${this.factor}` }, ...dots, lasso);
    this.follow(picture, lasso, place);
    const legend = values.length > 1 && values.length <= 24
      ? el("ul", { class: "legend" }, ...values.map((value, i) => el("li", { class: `color-${i % COLORS}` }, value)))
      : "";
    byId("map").replaceChildren(picture, legend);
  }

  /** Draw a lasso while the pointer is down. */
  follow(picture, lasso, place) {
    let outline = null;
    const position = (event) => {
      const box = picture.getBoundingClientRect();
      return [((event.clientX - box.left) * SIZE) / box.width, ((event.clientY - box.top) * SIZE) / box.height];
    };
    picture.addEventListener("pointerdown", (event) => (outline = [position(event)]));
    picture.addEventListener("pointermove", (event) => {
      if (!outline) return;
      outline.push(position(event));
      lasso.setAttribute("d", `M${outline.map((p) => p.map((v) => v.toFixed(1)).join(" ")).join("L")}Z`);
    });
    const end = () => {
      if (!outline) return;
      const drawn = outline;
      outline = null;
      lasso.setAttribute("d", "");
      if (drawn.length < 8) return; // a click
      const inside = this.points.filter((point) => contains(drawn, place(point.x), place(1 - point.y)));
      if (inside.length) this.onLasso(inside);
    };
    picture.addEventListener("pointerup", end);
    picture.addEventListener("pointerleave", end);
  }
}

/** Whether a polygon contains a point: a ray from there crosses its outline an odd number of times. */
function contains(outline, x, y) {
  let isInside = false;
  for (let i = 0, j = outline.length - 1; i < outline.length; j = i++) {
    const [ax, ay] = outline[i];
    const [bx, by] = outline[j];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) isInside = !isInside;
  }
  return isInside;
}
