// Small things that all modules share: elements, requests, messages.

/** An element with attributes (on* are listeners) and children (nodes or text). */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

export const byId = (id) => document.getElementById(id);

/** A JSON answer; an Error with the server's sentence where it refuses. */
export async function get(path, query = {}) {
  return answer(await reach(`${path}?${new URLSearchParams(query)}`));
}

export async function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return answer(await reach(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

export async function postFile(file) {
  const path = `/api/upload?${new URLSearchParams({ name: file.name })}`;
  return answer(await reach(path, { method: "POST", body: file }));
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Error("The explorer does not answer: start it again with diskoop explore.");
  }
}

async function answer(response) {
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(content.error || `The explorer answered ${response.status}.`);
  return content;
}

/** Show a message for some seconds. */
export function showToast(text, isError = true) {
  const toast = byId("toast");
  toast.textContent = text;
  toast.classList.toggle("error", isError);
  toast.hidden = false;
  clearTimeout(showToast.timer);
  showToast.timer = setTimeout(() => (toast.hidden = true), isError ? 9000 : 3000);
}

/** Runs only the newest call: what comes while one is under way waits, and replaces what waited before. */
export function coalesce(work) {
  let isBusy = false;
  let waiting = null;
  return async function run(...args) {
    if (isBusy) {
      waiting = args;
      return;
    }
    isBusy = true;
    try {
      await work(...args);
    } catch (error) {
      showToast(error.message);
    } finally {
      isBusy = false;
      if (waiting) {
        const next = waiting;
        waiting = null;
        run(...next);
      }
    }
  };
}

/** A number in few digits. */
export function short(value) {
  if (value === null || value === undefined) return "";
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}
