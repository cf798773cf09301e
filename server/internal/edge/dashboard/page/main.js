// The page: what is limited now. It shows the frames that the server sends each second.
import * as chart from "./chart.js";
import { listen as listenToOverrides } from "./override.js";
import * as server from "./server.js";
import { idOf, renderExplained, renderFrame, renderLegend, renderWords } from "./view.js";
import { $, clock, make, set } from "./words.js";

const ranges = { "15m": { name: "15 min", minutes: 15, span: "hour" }, "1h": { name: "1 h", minutes: 60, span: "hour" }, "24h": { name: "24 h", minutes: 1440, span: "day" } };
const silence = 2500; // without a frame for so long, the server counts as gone

// state is what the page shows. The view is in the address, so that a link keeps it.
export const state = { view: { rule: "", range: "15m", paused: false, servers: "all" }, frame: null, frames: [], words: null, revealed: new Map(), rates: new Map() };
let failed = ""; // the error of the last button, for a few seconds
let seen = 0, stopped = null, historyAt = 0;
let access = "granted"; // asked: for the token; refused: by the user, who gives none

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  state.view = { rule: given.get("rule") || "", range: ranges[given.get("range")] ? given.get("range") : "15m", paused: given.get("paused") === "1", servers: given.get("servers") === "this" ? "this" : "all" };
  chart.hidden.clear();
  for (const name of (given.get("hide") || "").split(",")) if (name) chart.hidden.add(name);
}

export function look(change) {
  Object.assign(state.view, change);
  const v = state.view, p = new URLSearchParams();
  if (v.rule) p.set("rule", v.rule);
  if (v.range !== "15m") p.set("range", v.range);
  if (v.paused) p.set("paused", "1");
  if (v.servers !== "all") p.set("servers", v.servers);
  if (chart.hidden.size) p.set("hide", [...chart.hidden].join(","));
  history.replaceState(null, "", "#" + p);
  follow();
}

// shown has the parameters of the view, for calls.
const shown = () => ({ servers: state.view.servers, ...(state.view.rule ? { rule: state.view.rule } : {}) });

// follow begins a stream of the view, or ends it.
function follow() {
  if (stopped) stopped.abort();
  stopped = null;
  $("pause").setAttribute("aria-pressed", state.view.paused);
  set($("pause"), state.view.paused ? "Continue" : "Pause");
  for (const b of $("ranges").querySelectorAll("button")) b.setAttribute("aria-pressed", b.value === state.view.range);
  for (const b of $("scope").querySelectorAll("button")) b.setAttribute("aria-pressed", b.value === state.view.servers);
  renderWords(state);
  refreshHistory();
  if (state.view.paused && state.frame) { renderFrame(state); return status(); }
  const mine = stopped = new AbortController();
  const path = "../v1/live?" + new URLSearchParams(shown());
  let last = Date.now();
  const watch = setInterval(() => { // a proxy may keep a dead stream open
    if (Date.now() - last > silence) mine.abort("silent");
  }, 250);
  server.stream(path, mine.signal, (frame) => {
    last = Date.now();
    if (stopped === mine) receive(frame);
  }).catch(async (e) => {
    clearInterval(watch);
    if (stopped !== mine) return; // another view
    if (e instanceof server.Refused && e.status === 401) return signIn();
    if (e instanceof server.Refused && e.status === 400) return look({ rule: "" }); // a reload removed the rule
    if (e instanceof server.Refused) trouble(e.message);
    status();
    setTimeout(() => { if (stopped === mine) follow(); }, 1000);
  });
}

function receive(frame) {
  const before = state.frame;
  // The numbers begin anew if the server has restarted, or if others are added.
  if (before && (before.started_ms !== frame.started_ms || before.counted !== frame.counted)) state.frames = [];
  seen = Date.now();
  state.frame = frame;
  state.frames.push({ at: frame.at_ms, units: new Map(frame.rules.map((r) => [r.rule, r.units])), totals: new Map(frame.rules.map((r) => [r.rule, r.totals])), denials: new Map(frame.keys.map((k) => [idOf(k), k.denials])) });
  if (state.frames.length > 61) state.frames.shift();
  trouble(failed);
  if (!state.words || state.words.policy !== frame.policy) refreshWords();
  if (frame.at_ms - historyAt > (state.frames.length < 12 ? 2000 : 10000) || frame.at_ms < historyAt) refreshHistory();
  renderFrame(state);
  status();
  if (state.view.paused) { stopped.abort(); stopped = null; } // it was opened paused, and has one frame now
}

async function refreshWords() {
  try {
    state.words = await server.call("../v1/rules");
    renderWords(state);
    renderFrame(state);
  } catch { /* the next frame tries again */ }
}

async function refreshHistory() {
  const { rule, range, servers } = state.view;
  historyAt = state.frame ? state.frame.at_ms : 0;
  try {
    const query = new URLSearchParams({ span: ranges[range].span, ...shown() });
    const h = await server.call("../v1/history?" + query);
    if (rule !== state.view.rule || range !== state.view.range || servers !== state.view.servers) return;
    chart.show(h, ranges[range].minutes, state.frame ? state.frame.at_ms : h.end_ms);
    renderLegend(state);
  } catch { /* the stream shows that the server is gone */ }
}

function status() {
  const s = $("status"), out = access !== "granted", gone = !out && !state.view.paused && Date.now() - seen > silence;
  s.className = out || state.view.paused ? "" : gone ? "dead" : "live";
  set(s, out ? "needs the admin token" : state.view.paused ? "paused at " + (seen ? clock(seen) : "–") : gone ? "no answer" : "live");
  if (gone) trouble(seen ? `The server does not answer since ${clock(seen)}. This is what it said then.` : "The server does not answer.");
  document.title = (gone ? "✕ " : "") + (state.view.rule ? state.view.rule + " · " : "") + "Sluice";
}

export function trouble(text) {
  $("trouble").hidden = !text;
  set($("trouble"), text);
}

// ask shows a question, and returns whether the answer is yes.
export function ask(question, yes, token) {
  set($("question"), question);
  set($("yes"), yes);
  $("token-label").hidden = !token;
  const dialog = $("question-dialog");
  $("no").autofocus = !token; // Enter confirms nothing by mistake
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

async function signIn() {
  if (access === "asked") return;
  access = "asked";
  status();
  trouble("");
  const yes = await ask("This server needs the admin token. The page keeps it until this tab is closed.", "Sign in", true);
  server.setToken(yes ? $("token").value.trim() : "");
  $("token").value = "";
  access = yes ? "granted" : "refused";
  seen = Date.now();
  if (yes) follow();
  else trouble("Without the admin token, the page shows nothing. Load it again to sign in.");
}

// act makes a call about a key, and reports an error.
export async function act(path, key, more) {
  try {
    return await server.call(path, { rule: key.rule, digest: key.digest, ...more });
  } catch (e) {
    failed = e.message;
    trouble(failed);
    setTimeout(() => { failed = ""; trouble(""); }, 8000);
    return null;
  }
}

async function explain(e) {
  e.preventDefault();
  const f = new FormData(e.target), [path, query] = f.get("path").split(/\?(.*)/s), body = { method: f.get("method").trim(), path };
  for (const name of ["host", "client_ip"]) if (f.get(name).trim()) body[name] = f.get(name).trim();
  const add = (to, name, value) => { (to[name] ||= []).push(value); return to; };
  if (query) body.query = [...new URLSearchParams(query)].reduce((to, [name, value]) => add(to, name, value), {});
  for (const line of f.get("headers").split("\n")) {
    const at = line.indexOf(":");
    if (line.trim()) add(body.headers ||= {}, (at < 0 ? line : line.slice(0, at)).trim(), at < 0 ? "" : line.slice(at + 1).trim());
  }
  try {
    renderExplained(await server.call("../v1/explain", body));
  } catch (error) {
    $("explained").replaceChildren(make("p", { className: "hot", textContent: error.message }));
  }
}

for (const [value, r] of Object.entries(ranges)) {
  const b = make("button", { type: "button", value, textContent: r.name });
  b.addEventListener("click", () => look({ range: value }));
  $("ranges").append(b);
}
for (const b of $("scope").querySelectorAll("button")) b.addEventListener("click", () => look({ servers: b.value }));
$("no").addEventListener("click", () => $("question-dialog").close("no"));
$("pause").addEventListener("click", () => look({ paused: !state.view.paused }));
$("all").addEventListener("click", () => look({ rule: "" }));
$("reveal").addEventListener("click", () => { for (const b of document.querySelectorAll("button.show-key")) b.click(); });
$("explain").addEventListener("submit", explain);
addEventListener("hashchange", () => { readAddress(); follow(); });
setInterval(status, 250);
chart.listen();
listenToOverrides();
readAddress();
follow();
