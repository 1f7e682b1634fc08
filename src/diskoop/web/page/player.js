// Sequences on the page: video on a canvas, sound as a spectrogram with a player. One clock moves all videos.
import { sparkline } from "./chart.js";
import { byId, el } from "./util.js";

const MILLISECONDS = 150;

/** Frame numbers for everything that plays together. */
export class Clock {
  constructor() {
    this.frame = 0;
    this.length = 1;
    this.listeners = new Set();
    this.isPlaying = !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.elapsed = 0;
    let before = performance.now();
    const tick = (now) => {
      this.elapsed += this.isPlaying ? Math.min(now - before, 1000) : 0;
      before = now;
      if (this.elapsed >= MILLISECONDS) {
        this.elapsed %= MILLISECONDS;
        this.go((this.frame + 1) % this.length);
      }
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  go(frame) {
    this.frame = Math.max(0, Math.min(frame, this.length - 1));
    for (const listener of this.listeners) listener(this.frame);
  }

  setLength(length) {
    this.length = Math.max(1, length);
    if (this.frame >= this.length) this.go(0);
    else this.go(this.frame);
  }
}

/** A picture of a sheet of frames, ready to draw from. */
function loadImage(address) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Error("A picture of the explorer could not be drawn."));
    image.src = address;
  });
}

/** Video on a canvas that shows any of its frames. */
export class Video {
  constructor(label) {
    this.canvas = el("canvas", { role: "img", "aria-label": label });
    this.view = null;
    this.frame = 0;
  }

  async show(view) {
    const image = await loadImage(view.image);
    this.view = view;
    this.image = image;
    if (this.canvas.width !== view.width || this.canvas.height !== view.height) {
      this.canvas.width = view.width;
      this.canvas.height = view.height;
    }
    this.draw(this.frame);
  }

  draw(frame) {
    this.frame = frame;
    if (!this.view) return;
    const { columns, frames, width, height } = this.view;
    const shown = Math.min(frame, frames - 1);
    const x = (shown % columns) * width;
    const y = Math.floor(shown / columns) * height;
    this.canvas.getContext("2d").drawImage(this.image, x, y, width, height, 0, 0, width, height);
  }
}

/** A spectrogram with axes. */
export function spectrogram(view, label, mark = null) {
  const picture = el("img", { src: view.image, alt: `Spectrogram of ${label}` });
  const line = el("i", { class: "mark", hidden: mark === null });
  if (mark !== null) line.style.left = `${(100 * mark) / view.frames}%`;
  return el(
    "div",
    { class: "spectrogram" },
    el("span", { class: "axis top" }, `${view.khz} kHz`),
    el("div", { class: "picture" }, picture, line),
    el("span", { class: "axis" }, `0 to ${view.seconds.toFixed(2)} s`),
  );
}

/** A small picture of a sequence. Video has its first frame, and `video` to draw others; series stand within `all`. */
export async function thumbnail(view, label, all = view.values) {
  if (view.kind === "series") return sparkline(view.values, all);
  if (view.kind === "sound") return spectrogram(view, label).querySelector("img");
  const video = new Video(label);
  await video.show(view);
  video.canvas.video = video;
  return video.canvas;
}

export function soundAddress(edit) {
  return `/api/sound?${new URLSearchParams({ edit: JSON.stringify(edit) })}`;
}

/** The receiver, the result and the donor side by side. */
export class Stage {
  constructor(clock) {
    this.clock = clock;
    this.figures = {};
    const players = byId("players");
    for (const [role, title] of [["receiver", "Receiver"], ["result", "Result"], ["donor", "Donor"]]) {
      const picture = el("div", { class: "picture-box" });
      const caption = el("figcaption");
      const figure = el("figure", { id: `${role}-figure`, class: role }, el("h3", {}, title), picture, caption);
      players.append(figure);
      this.figures[role] = { figure, picture, caption, view: null, video: null, forecastFrom: null };
    }
    clock.listeners.add((frame) => this.draw(frame));
  }

  draw(frame) {
    for (const { video } of Object.values(this.figures)) video?.draw(frame);
  }

  /** Show a sequence in the figure of a role. `edit` is what made it, `facts` what the server said of it. */
  async show(role, edit, facts) {
    const slot = this.figures[role];
    slot.view = facts.view;
    slot.caption.textContent = facts.caption;
    slot.caption.title = facts.caption;
    slot.forecastFrom = facts.forecast_from ?? null;
    if (facts.view.kind === "video") {
      slot.video ??= new Video(role);
      slot.video.canvas.setAttribute("aria-label", facts.caption);
      await slot.video.show(facts.view);
      if (slot.picture.firstChild !== slot.video.canvas) slot.picture.replaceChildren(slot.video.canvas);
    } else if (facts.view.kind === "sound") {
      const player = el("audio", { controls: true, preload: "none", src: soundAddress(edit), "aria-label": facts.caption });
      slot.picture.replaceChildren(spectrogram(facts.view, facts.caption, slot.forecastFrom), player);
    }
    const lengths = Object.values(this.figures).map(({ view }) => view?.frames ?? 1);
    this.clock.setLength(Math.max(...lengths));
  }
}
