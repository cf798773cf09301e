// Numbers, times and elements. Text from the server is only ever set as text, never as HTML.

const whole = new Intl.NumberFormat("en");

export const number = (n) => whole.format(Math.round(n));
export const count = (n, thing) => `${number(n)} ${thing}${n === 1 ? "" : "s"}`;

// rate is a number of requests per second.
export function rate(n) {
  if (!n) return "0/s";
  return (n < 10 ? n.toFixed(1) : number(n)) + "/s";
}

export const percent = (part, all) => all && !part ? "0 %" : all ? (100 * part / all < 0.1 && part ? "<0.1" : (100 * part / all).toFixed(part / all < 0.1 ? 1 : 0)) + " %" : "–";

export function bytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return (n < 10 && unit !== "B" ? n.toFixed(1) : Math.round(n)) + " " + unit;
    n /= 1024;
  }
}

export function time(ms) {
  const s = Math.ceil(ms / 1000);
  if (ms < 1000) return "<1 s";
  if (s < 120) return s + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  if (s < 172800) return Math.floor(s / 3600) + " h " + Math.round(s % 3600 / 60) + " min";
  return Math.round(s / 86400) + " days";
}

export const ago = (ms) => ms < 1500 ? "now" : time(ms) + " ago";

export const clock = (ms, seconds = true) =>
  new Date(ms).toLocaleTimeString("en-GB", seconds ? {} : { hour: "2-digit", minute: "2-digit" });

// names are the words for outcomes.
export const names = {
  allowed: "allowed", delayed: "delayed", denied: "denied", shadow_denied: "denied in shadow", uncharged: "refused by another rule",
  error: "store failed", degraded: "degraded", marked: "marked", candidate_denied: "denied by the candidate",
};

export const $ = (id) => document.getElementById(id);

// make returns an element with properties and children. Children are elements or texts.
export function make(name, properties, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(properties || {})) {
    if (k in e && typeof v !== "string" || k === "className" || k === "textContent") e[k] = v;
    else e.setAttribute(k, v);
  }
  e.append(...children);
  return e;
}

// draw returns an element of SVG.
export function draw(name, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// set changes a text only if it differs, so that selections and screen readers are left alone.
export function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// keep makes the children of a list those of items, and moves no child that stays in its place: its focus stays too.
export function keep(list, items, id, create, update) {
  const old = new Map([...list.children].map((e) => [e.dataset.id, e]));
  let next = list.firstElementChild;
  for (const item of items) {
    const key = id(item);
    let e = old.get(key);
    if (!e) {
      e = create(item);
      e.dataset.id = key;
    }
    old.delete(key);
    if (e === next) next = next.nextElementSibling;
    else {
      const focused = document.activeElement;
      list.insertBefore(e, next);
      if (e.contains(focused)) focused.focus();
    }
    update(e, item);
  }
  for (const e of old.values()) e.remove();
}

// row makes a row of a table whose cells have the labels of the table's head.
export function row(table, ...cells) {
  const labels = [...table.querySelectorAll("th")];
  return make("tr", null, ...cells.map((c, i) => {
    const td = make("td", { "data-label": labels[i].textContent, className: labels[i].className });
    td.append(c);
    return td;
  }));
}
