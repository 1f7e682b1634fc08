// Clips in pages, filtered by split, label and name. A click makes one the receiver or the donor.
import { thumbnail } from "./player.js";
import { byId, el, get, post, showToast } from "./util.js";

const PAGE = 24;

export class Gallery {
  /** onPick(id): a clip was chosen. */
  constructor(onPick) {
    this.onPick = onPick;
    this.first = 0;
    this.split = null;
    this.labels = {};
    this.text = "";
    this.picked = null; // ids from a map, shown instead of a page
    this.views = new Map();
    this.asked = 0;
  }

  /** Ask for the splits again; `split` is the one to show. */
  async open(split = this.split) {
    const facts = await get("/api/splits");
    this.splits = facts.splits;
    this.values = facts.labels;
    this.split = split && split in this.splits ? split : (Object.keys(this.splits)[0] ?? null);
    Object.assign(this, { first: 0, labels: {}, text: "", picked: null });
    this.drawFilters();
    if (this.split !== null) await this.load();
    else byId("gallery").replaceChildren(el("p", { class: "empty" }, `${facts.problem}. A file of yours can still be taken apart.`));
  }

  drawFilters() {
    const splits = el(
      "select",
      { "aria-label": "Split", onchange: (event) => this.change({ split: event.target.value, labels: {}, text: "" }) },
      ...Object.entries(this.splits).map(([name, count]) =>
        el("option", { value: name, selected: name === this.split }, `${name} (${count})`),
      ),
    );
    const labels = Object.entries(this.values[this.split] ?? {}).filter(([, values]) => values.length > 1 && values.length <= 200);
    const filters = labels.map(([name, values]) =>
      el(
        "select",
        { "aria-label": name, onchange: (event) => this.change({ labels: { ...this.labels, [name]: event.target.value } }) },
        el("option", { value: "" }, `any ${name}`),
        ...values.map((value) => el("option", { value, selected: this.labels[name] === value }, value)),
      ),
    );
    const search = el("input", {
      type: "search",
      placeholder: "part of a name",
      "aria-label": "Part of a name",
      value: this.text,
      onchange: (event) => this.change({ text: event.target.value }),
    });
    const file = el("input", { type: "file", id: "file", class: "hidden" });
    const upload = el("label", { class: "button", for: "file" }, "Bring a file …");
    byId("filters").replaceChildren(...(this.split === null ? [] : [splits, ...filters, search]), file, upload);
  }

  change(choice) {
    Object.assign(this, choice, { first: 0, picked: null });
    if ("split" in choice) this.drawFilters();
    this.load().catch((error) => showToast(error.message));
  }

  /** Show the clips that were picked in a map. */
  pick(clips) {
    this.picked = clips;
    this.draw({ total: clips.length, clips });
  }

  async load() {
    const number = ++this.asked;
    byId("gallery").classList.add("loading");
    const query = { split: this.split, first: this.first, count: PAGE, text: this.text };
    for (const [name, value] of Object.entries(this.labels)) if (value) query[`label.${name}`] = value;
    try {
      const page = await get("/api/clips", query);
      if (number === this.asked) this.draw(page);
    } finally {
      if (number === this.asked) byId("gallery").classList.remove("loading");
    }
  }

  draw({ total, clips }) {
    const cards = clips.map((clip) => this.card(clip));
    byId("gallery").replaceChildren(...(cards.length ? cards : [el("p", { class: "muted" }, "No clip is like that.")]));
    const go = (first) => () => this.turn(first);
    const last = Math.min(this.first + PAGE, total);
    const range = total === 0 ? "" : this.picked ? `${total} picked on the map` : `${this.first + 1} to ${last} of ${total}`;
    byId("pages").replaceChildren(
      el("button", { type: "button", disabled: this.picked !== null || this.first === 0, onclick: go(this.first - PAGE) }, "Earlier"),
      el("span", {}, range),
      this.picked
        ? el("button", { type: "button", onclick: () => this.change({}) }, "Show all")
        : el("button", { type: "button", disabled: last >= total, onclick: go(this.first + PAGE) }, "More"),
    );
  }

  turn(first) {
    this.first = Math.max(0, first);
    this.load().catch((error) => showToast(error.message));
  }

  card(clip) {
    const labels = Object.entries(clip.labels).map(([name, value]) => `${name} ${value}`).join(", ");
    const picture = el("span", { class: "thumb" });
    const card = el(
      "button",
      { type: "button", class: "card", "data-clip": clip.id, title: `${clip.name}\n${labels}`, onclick: () => this.onPick(clip.id) },
      picture,
      el("span", { class: "name" }, shortened(clip.name)),
      el("span", { class: "muted" }, labels),
    );
    this.drawThumbnail(clip, picture, card);
    return card;
  }

  async drawThumbnail(clip, picture, card) {
    let view;
    try {
      view = await this.view(clip.id);
    } catch (error) {
      picture.textContent = error.message;
      return;
    }
    const drawn = await thumbnail(view, clip.name);
    picture.append(drawn);
    const { video } = drawn;
    if (!video) return;
    let timer = null;
    const stop = () => {
      clearInterval(timer);
      timer = null;
      video.draw(0);
    };
    const play = () => {
      timer ??= setInterval(() => video.draw((video.frame + 1) % view.frames), 150);
    };
    card.addEventListener("mouseenter", play);
    card.addEventListener("mouseleave", stop);
  }

  /** A clip as it was given; asked for once. */
  view(id) {
    if (!this.views.has(id)) {
      const asked = post("/api/edit", { kind: "original", receiver: id }).then((facts) => facts.view);
      asked.catch(() => this.views.delete(id));
      this.views.set(id, asked);
      if (this.views.size > 400) this.views.delete(this.views.keys().next().value);
    }
    return this.views.get(id);
  }
}

/** A long name by its beginning and its end, where files of one folder differ. */
function shortened(name) {
  return name.length <= 34 ? name : `${name.slice(0, 10)}…${name.slice(-22)}`;
}
