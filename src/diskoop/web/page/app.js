// The explorer: what is chosen, what is made of it, and where that is shown.
import { chart } from "./chart.js";
import { Gallery } from "./gallery.js";
import { ClipMap } from "./map.js";
import { Clock, Stage, thumbnail } from "./player.js";
import { Spectrum } from "./spectrum.js";
import { Training } from "./training.js";
import { byId, el, get, coalesce, post, postFile, showToast, short } from "./util.js";

const STAGES = 6; // of the film strip
const DOWNLOADS = { video: ["webp", "mp4", "npz"], sound: ["wav", "npz"], series: ["csv", "npz"] };

const state = {
  facts: null, // of the run
  kind: "swap", // or sample, forecast
  receiver: null,
  donor: null,
  factors: [],
  modes: [],
  amount: 1,
  seed: 0,
  observed: null,
  steps: null,
  isDrawn: false, // whether receiver and donor are shown as the model draws them
  slot: "donor", // what a chosen clip becomes
};

const clock = new Clock();
const stage = new Stage(clock);
const chooseModes = (modes) => choose({ modes, factors: [] });
const spectrum = new Spectrum(byId("spectrum"), chooseModes);
const gallery = new Gallery(pickClip);
const map = new ClipMap(pickClip, (clips) => {
  showPanel("gallery");
  gallery.pick(clips);
});
const training = new Training(gallery, new Spectrum(byId("training-spectrum"), chooseModes), loadRun);

/** The edit that the page shows now. */
function currentEdit() {
  const { kind, receiver, donor, factors, modes, amount, seed, observed, steps } = state;
  if (kind === "forecast") return { kind, receiver, observed, steps };
  if (kind === "sample") return { kind, receiver, factors, modes, seed };
  return { kind, receiver, donor, factors, modes, amount };
}

/** Change what is chosen, and show what comes of it. */
function choose(change) {
  Object.assign(state, change);
  markSelection();
  if (state.receiver === null) return; // nothing to show yet
  remember();
  refresh();
}

function markSelection() {
  byId("stage").hidden = state.receiver === null; // where the run's data are gone and nothing was brought yet
  for (const chip of byId("factors").querySelectorAll("[data-factor]")) {
    chip.setAttribute("aria-pressed", state.factors.includes(chip.dataset.factor));
  }
  const lit = state.facts.modes.filter((mode) => state.factors.some((name) => belongs(mode, name))).map((mode) => mode.index);
  for (const each of [spectrum, training.spectrum]) each.mark(state.modes, lit);
  byId("amount-text").textContent = short(state.amount);
  for (const node of byId("stage").querySelectorAll("[data-for]")) node.hidden = node.dataset.for !== state.kind;
  for (const tab of byId("edit-tabs").querySelectorAll("[data-edit]")) tab.setAttribute("aria-selected", tab.dataset.edit === state.kind);
  byId("made").setAttribute("aria-labelledby", `tab-${state.kind}`);
  for (const card of document.querySelectorAll(".card")) {
    card.classList.toggle("receiver", card.dataset.clip === state.receiver);
    card.classList.toggle("donor", card.dataset.clip === state.donor);
  }
  stage.figures.donor.figure.hidden = state.kind !== "swap";
  const nameable = state.facts.factors.filter((factor) => factor.kind !== "part").map((factor) => factor.name);
  byId("start-rename").hidden = nameable.length === 0;
  byId("start-rename").disabled = !(state.factors.length === 1 && nameable.includes(state.factors[0]));
  byId("start-rename").title = byId("start-rename").disabled ? "Choose one factor to rename it" : "";
}

/** Whether a fair part of a mode lies in a factor: factors of the static part share modes. */
function belongs(mode, name) {
  if (name === "static" || name === "dynamic") return mode.static === (name === "static");
  return (mode.factors[name] ?? 0) > 0.25;
}

const refresh = coalesce(async () => {
  byId("stage").classList.add("loading");
  try {
    await showClip("receiver");
    if (state.kind === "swap") await showClip("donor");
    await showResult();
  } finally {
    byId("stage").classList.remove("loading");
  }
  markSelection(); // of clips that were drawn meanwhile
  if (state.kind === "swap") drawFilm();
});

const shown = { receiver: null, donor: null };

/** Show the receiver or the donor, as it is or as the model draws it. */
async function showClip(role) {
  const edit = { kind: state.isDrawn ? "reconstruction" : "original", receiver: state[role] };
  const key = `${edit.kind} ${edit.receiver}`;
  if (shown[role] === key) return;
  const view = state.isDrawn ? (await post("/api/edit", edit)).view : await gallery.view(edit.receiver);
  await stage.show(role, edit, { caption: await titleOf(edit.receiver), view });
  shown[role] = key;
}

const titles = new Map();

async function titleOf(id) {
  if (!titles.has(id)) {
    const [split, index] = [id.slice(0, id.lastIndexOf("/")), Number(id.slice(id.lastIndexOf("/") + 1))];
    const { clips } = await get("/api/clips", { split, first: index, count: 1 });
    const labels = Object.entries(clips[0]?.labels ?? {}).map(([name, value]) => `${name} ${value}`);
    titles.set(id, [clips[0]?.name ?? id, ...labels].join(" · "));
  }
  return titles.get(id);
}

async function showResult() {
  const edit = currentEdit();
  const facts = await post("/api/edit", edit);
  if (JSON.stringify(edit) !== JSON.stringify(currentEdit())) return; // something newer was asked for meanwhile
  await stage.show("result", edit, facts);
  byId("players").dataset.result = JSON.stringify(edit); // tests wait for it
  byId("result-caption").textContent = facts.caption;
  byId("shell").textContent = facts.shell;
  byId("shell").parentElement.hidden = !facts.shell;
  byId("python").textContent = facts.python;
  drawDownloads(edit);
  if (state.facts.kind === "series") drawSeries(facts.forecast_from);
  byId("scrub").max = clock.length - 1;
}

function drawDownloads(edit) {
  const links = DOWNLOADS[state.facts.kind].map((suffix) => {
    const query = new URLSearchParams({ edit: JSON.stringify(edit), suffix });
    return el("a", { class: "button", href: `/api/download?${query}`, download: "" }, suffix.toUpperCase());
  });
  byId("downloads").replaceChildren("Download ", ...links);
}

/** All features of a series, each in its own unit: receiver and donor behind, the result in front. */
function drawSeries(forecastFrom) {
  const views = Object.fromEntries(Object.entries(stage.figures).map(([role, slot]) => [role, slot.view]));
  const roles = state.kind === "swap" ? ["receiver", "donor", "result"] : ["receiver", "result"];
  const charts = state.facts.features.map((title, feature) =>
    chart({
      title,
      lines: roles.map((role) => ({ values: views[role].values.map((row) => row[feature]), className: role, label: role })),
      mark: forecastFrom,
    }),
  );
  const legend = el("p", { class: "legend-line" }, ...roles.map((role) => el("span", { class: `key ${role}` }, role)));
  let box = byId("series");
  if (!box) {
    box = el("div", { id: "series" });
    byId("players").before(box);
    byId("players").classList.add("captions-only");
    byId("transport").hidden = true;
  }
  box.replaceChildren(legend, ...charts);
}

/** The result with growing amounts, from the receiver to the donor. */
const drawFilm = coalesce(async () => {
  const edit = { ...currentEdit(), amount: 1 };
  const { stages } = await post(`/api/stages?count=${STAGES}`, edit);
  const all = stages.flatMap(({ view }) => view.values ?? []); // series are drawn to one scale
  const cells = await Promise.all(
    stages.map(async ({ view }, index) => {
      const amount = index / (STAGES - 1);
      const picture = await thumbnail(view, `amount ${short(amount)}`, all);
      picture.video?.draw(clock.frame);
      return el("button", { type: "button", class: "film-cell", title: `amount ${short(amount)}`, onclick: () => setAmount(amount) }, picture, el("span", {}, short(amount)));
    }),
  );
  byId("film").replaceChildren(...cells);
});
clock.listeners.add((frame) => {
  for (const canvas of document.querySelectorAll("#film canvas, #swaps canvas")) canvas.video?.draw(frame);
  byId("scrub").value = frame;
  const { figure, forecastFrom } = stage.figures.result;
  const isForecast = state.kind === "forecast" && forecastFrom !== null && frame >= forecastFrom;
  figure.classList.toggle("is-forecast", isForecast);
  byId("frame-number").textContent = `${isForecast ? "forecast, " : ""}frame ${frame + 1} of ${clock.length}`;
});

function setAmount(amount) {
  byId("amount").value = amount;
  state.amount = amount;
  byId("amount-text").textContent = short(amount);
  remember();
  slide();
}

// While a slider moves only the result changes.
const slide = coalesce(showResult);

function pickClip(id) {
  choose({ [state.slot]: id });
}

// --- the run

function drawFactors() {
  const chips = state.facts.factors.map((factor) => {
    const facts = factor.kind === "part"
      ? `all that ${factor.name === "static" ? "lasts" : "moves"}`
      : `${Math.round(100 * factor.strength)}% of what changes, ${factor.dimensions} dimensions${factor.is_weak ? ", weak" : ""}`;
    return el(
      "button",
      {
        type: "button",
        class: `chip ${factor.kind}${factor.is_weak ? " weak" : ""}`,
        "data-factor": factor.name,
        "aria-pressed": false,
        title: facts,
        onclick: (event) => chooseFactor(factor.name, event.shiftKey),
      },
      factor.name,
      el("small", {}, factor.kind === "part" ? "" : ` ${Math.round(100 * factor.strength)}%`),
    );
  });
  byId("factors").replaceChildren(...chips);
  byId("notes").replaceChildren(...state.facts.notes.map((note) => el("li", {}, note)));
  byId("undo").hidden = !state.facts.can_undo;
  if (state.facts.factors.length === 2) {
    const command = `diskoop factors ${state.facts.path}`;
    const words = state.facts.is_finished ? `No finer factors were found in this run yet: ${command}` : "Finer factors are found after training.";
    byId("notes").append(el("li", {}, words));
  }
}

function chooseFactor(name, isAdding) {
  const others = isAdding ? state.factors.filter((other) => other !== name) : [];
  const isRemoved = isAdding && state.factors.includes(name);
  choose({ factors: isRemoved ? others : [...others, name], modes: [] });
}

/** Load the run, at first and whenever it has changed. */
async function loadRun() {
  const facts = await get("/api/run");
  const isFirst = state.facts === null;
  if (!isFirst && facts.is_finished !== state.facts.is_finished) loadVerdict().catch((error) => showToast(error.message));
  state.facts = facts;
  document.title = `${facts.name} · diskoop explorer`;
  document.body.dataset.kind = facts.kind;
  byId("run-name").textContent = facts.name;
  const moves = facts.modes.filter((mode) => !mode.static).length;
  byId("run-facts").textContent = `${facts.data} · ${facts.k} eigenvalues, ${facts.k - moves} static · ${facts.fitted_on}`;
  const known = facts.factors.map((factor) => factor.name);
  state.factors = state.factors.filter((name) => known.includes(name));
  if (!state.factors.length && !state.modes.length) state.factors = [firstFactor(facts)];
  state.modes = state.modes.filter((index) => index < facts.k);
  spectrum.show(facts);
  training.show(facts);
  drawFactors();
  map.forget();
  if (!isFirst) {
    shown.receiver = shown.donor = null;
    choose({});
  }
}

/** The strongest factor that lasts, or the static part. */
function firstFactor(facts) {
  const found = facts.factors.filter((factor) => factor.kind === "factor" && !factor.is_weak);
  found.sort((a, b) => b.strength - a.strength);
  return found[0]?.name ?? "static";
}

async function loadVerdict() {
  const { sentences, problems } = await get("/api/verdict");
  const box = byId("verdict");
  box.classList.toggle("poor", problems.length > 0);
  box.querySelector("summary").textContent = problems.length ? "Verdict: look first" : "Verdict";
  byId("verdict-text").replaceChildren(...sentences.map((sentence) => el("p", {}, sentence)));
  if (problems.length) box.open = true;
}

// --- the address keeps what is chosen, so that it can be kept, sent and reloaded

function remember() {
  const { kind, receiver, donor, factors, modes, amount, seed } = state;
  const words = new URLSearchParams({ kind, receiver, donor, factors: factors.join(","), modes: modes.join(","), amount, seed });
  history.replaceState(null, "", `#${words}`);
}

function recall() {
  const words = new URLSearchParams(location.hash.slice(1));
  if (["swap", "sample", "forecast"].includes(words.get("kind"))) state.kind = words.get("kind");
  state.receiver = words.get("receiver");
  state.donor = words.get("donor");
  state.factors = (words.get("factors") ?? "").split(",").filter(Boolean);
  state.modes = (words.get("modes") ?? "").split(",").filter(Boolean).map(Number).filter(Number.isInteger);
  if (Number.isFinite(Number(words.get("amount") ?? NaN))) state.amount = Math.max(-0.5, Math.min(2, Number(words.get("amount"))));
  if (Number.isInteger(Number(words.get("seed") ?? NaN))) state.seed = Number(words.get("seed"));
  byId("amount").value = state.amount;
  byId("seed").value = state.seed;
}

// --- panels

function showPanel(name) {
  for (const tab of byId("panel-tabs").querySelectorAll("[data-panel]")) tab.setAttribute("aria-selected", tab.dataset.panel === name);
  for (const node of byId("clips").querySelectorAll(":scope > [data-for]")) node.hidden = node.dataset.for !== name;
  if (name === "map" && gallery.split !== null) map.open(gallery.split, state.facts.factors.map((factor) => factor.name), state.factors[0] ?? "static");
  training.open(name === "training");
}

async function uploadFile(file) {
  if (!file) return;
  try {
    showToast(`Reading ${file.name} …`, false);
    const { clips } = await postFile(file);
    showPanel("gallery");
    await gallery.open("uploads");
    choose({ receiver: clips[0], donor: state.donor ?? clips[clips.length - 1] });
    showToast(`${file.name}: ${clips.length} clip${clips.length > 1 ? "s" : ""}`, false);
  } catch (error) {
    showToast(error.message);
  }
}

// --- events

function listen() {
  byId("theme").addEventListener("click", () => {
    const isDark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = isDark ? "light" : "dark";
  });
  byId("edit-tabs").addEventListener("click", (event) => {
    if (event.target.dataset.edit) choose({ kind: event.target.dataset.edit });
  });
  byId("panel-tabs").addEventListener("click", (event) => {
    if (event.target.dataset.panel) showPanel(event.target.dataset.panel);
  });
  for (const tabs of [byId("edit-tabs"), byId("panel-tabs")]) {
    tabs.addEventListener("keydown", (event) => {
      const all = [...tabs.querySelectorAll("[role=tab]")];
      const at = all.indexOf(event.target);
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (at < 0 || !step) return;
      all[(at + step + all.length) % all.length].focus();
    });
  }
  for (const radio of document.querySelectorAll("input[name=slot]")) {
    radio.addEventListener("change", () => (state.slot = radio.value));
  }
  byId("amount").addEventListener("input", (event) => setAmount(Number(event.target.value)));
  byId("seed").addEventListener("change", (event) => choose({ seed: Math.max(0, Math.floor(Number(event.target.value) || 0)) }));
  byId("exchange").addEventListener("click", () => choose({ receiver: state.donor, donor: state.receiver }));
  byId("drawn").addEventListener("change", (event) => choose({ isDrawn: event.target.checked }));
  byId("draw").addEventListener("click", () => {
    byId("seed").value = state.seed + 1;
    choose({ seed: state.seed + 1 });
  });
  for (const name of ["observed", "steps"]) {
    byId(name).addEventListener("change", (event) => choose({ [name]: Math.floor(Number(event.target.value)) || null }));
  }
  byId("play").addEventListener("click", () => setPlaying(!clock.isPlaying));
  byId("scrub").addEventListener("input", (event) => {
    setPlaying(false);
    clock.go(Number(event.target.value));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === " " && event.target === document.body) {
      event.preventDefault();
      setPlaying(!clock.isPlaying);
    }
  });
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
        showToast("Copied", false);
      } catch {
        showToast("This browser does not let pages copy; select the text instead.");
      }
    });
  }
  byId("start-rename").addEventListener("click", () => {
    byId("rename-old").textContent = state.factors[0];
    byId("rename-new").value = state.factors[0];
    byId("rename").hidden = false;
    byId("rename-new").select();
  });
  byId("rename-cancel").addEventListener("click", () => (byId("rename").hidden = true));
  byId("rename").addEventListener("submit", (event) => {
    event.preventDefault();
    rename(byId("rename-old").textContent, byId("rename-new").value.trim());
  });
  byId("undo").addEventListener("click", () => attempt(async () => {
    await post("/api/undo", {});
    await loadRun();
  }));
  byId("filters").addEventListener("change", (event) => event.target.id === "file" && uploadFile(event.target.files[0]));
  listenForFiles();
}

function setPlaying(isPlaying) {
  clock.isPlaying = isPlaying;
  byId("play").textContent = isPlaying ? "❚❚" : "▶";
  byId("play").setAttribute("aria-pressed", isPlaying);
}

async function rename(from, to) {
  await attempt(async () => {
    await post("/api/rename", { names: { [from]: to } });
    byId("rename").hidden = true;
    state.factors = [to];
    await loadRun();
    showToast(`${from} is called ${to} from now on, in the run's folder too`, false);
  });
}

async function attempt(work) {
  try {
    await work();
  } catch (error) {
    showToast(error.message);
  }
}

function listenForFiles() {
  let depth = 0;
  const show = (change) => {
    depth = Math.max(0, depth + change);
    byId("drop").hidden = depth === 0;
  };
  addEventListener("dragenter", (event) => event.dataTransfer?.types.includes("Files") && show(1));
  addEventListener("dragleave", () => show(-1));
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    show(0);
    uploadFile(event.dataTransfer.files[0]);
  });
}

async function start() {
  setPlaying(clock.isPlaying);
  listen();
  recall();
  await loadRun();
  await gallery.open(state.receiver?.split("/")[0] ?? null);
  const [first, second] = firstClips();
  state.receiver ??= first;
  state.donor ??= second;
  if (state.receiver !== null) choose({});
  else markSelection();
  training.watch();
  loadVerdict().catch((error) => showToast(error.message));
}

/** Two clips to begin with: the first, and one from the middle, or from another split where this has no other. */
function firstClips() {
  if (gallery.split === null) return [null, null];
  const total = gallery.splits[gallery.split];
  const other = total === 1 && Object.keys(gallery.splits).find((split) => split !== gallery.split);
  return [`${gallery.split}/0`, other ? `${other}/0` : `${gallery.split}/${Math.floor(total / 2)}`];
}

start().catch((error) => showToast(error.message));
