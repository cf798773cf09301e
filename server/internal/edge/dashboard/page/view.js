// What the page shows of a frame.
import * as chart from "./chart.js";
import { act, ask, look, state } from "./main.js";
import { override } from "./override.js";
import { $, ago, bytes, clock, count, draw, keep, make, names, number, percent, rate, row, set, time } from "./words.js";

const none = "(none)"; // the name of the requests that no rule matched
const title = (rule) => rule === none ? "no rule" : rule;
const recent = 10; // seconds over which a rate is measured

// per returns how much a number grew in a second.
function per(get, seconds = recent) {
  const all = state.frames, last = all[all.length - 1], to = get(last);
  const first = all.slice(-1 - seconds).find((f) => get(f) !== undefined); // a key may be new in the list
  if (!first || to === undefined || last.at <= first.at) return 0;
  return Math.max(0, to - get(first)) / (last.at - first.at) * 1000;
}

// sum returns the requests of a rule: of all outcomes, or of one. What candidates deny is counted beside the outcomes.
const demand = (totals, figures) => totals && totals.reduce((a, n, i) => figures[i] === "candidate_denied" ? a : a + n, 0);

// freed tells how many keys of a rule its candidate would free, of the keys that are denied most.
const freed = (r) => `${number(r.freed || 0)} of ${count(r.compared, "key")}`;

// trial tells what the candidate of its rule would do to a key.
function trial({ role, candidate: c }) {
  if (role === "candidate") return "only the candidate would deny these";
  if (!c) return "";
  if (!c.would_deny) return "the candidate frees it";
  return c.would_deny < c.compared ? `the candidate denies ${number(c.would_deny)}, not ${number(c.compared)}` : "limited by the candidate too";
}

// figuresOf returns the rates of each rule.
function figuresOf(f) {
  const denied = f.figures.indexOf("denied");
  return f.rules.map((r) => ({
    ...r,
    demand: per((s) => demand(s.totals.get(r.rule), f.figures)),
    perUnit: per((s) => s.units.get(r.rule)),
    denied: per((s) => s.totals.get(r.rule)?.[denied]),
    all: r.totals[denied],
    minute: state.frames.slice(1).map((s, i) => Math.max(0, (s.totals.get(r.rule)?.[denied] ?? 0) - (state.frames[i].totals.get(r.rule)?.[denied] ?? 0))),
    errors: per((s) => s.totals.get(r.rule)?.[f.figures.indexOf("error")]),
  }));
}

// noted is a text with a smaller line below it.
const noted = () => make("span", null, make("span"), make("span", { className: "words" }));

export function renderFrame() {
  const f = state.frame;
  if (!f) return;
  const rules = figuresOf(f);
  renderSummary(f, rules);
  renderRules(f, rules);
  renderKeys(f);
  renderBans(f);
  renderStore(f);
  renderReloads(f);
  renderHybrid(f);
  renderHeavy(f);
  renderServers(f);
}

// renderSummary answers the first questions: who is limited, by what, and is it us?
function renderSummary(f, rules) {
  const limiting = rules.filter((r) => r.denied > 0).sort((a, b) => b.denied - a.denied);
  const ill = f.notes.filter((n) => n !== "store: ok");
  if (f.not_ready) ill.unshift("not ready: " + f.not_ready);
  const servers = f.servers || [], silent = servers.filter((s) => s.state === "silent");
  if (silent.length) ill.unshift(`${silent.length} of ${servers.length} servers ${silent.length > 1 ? "do" : "does"} not answer: ${silent.map((s) => s.name + " " + s.admin).join(", ")}.`);
  const others = servers.filter((s) => s.other_rules);
  if (others.length) ill.push(`${others.length} of ${servers.length} servers ${others.length > 1 ? "have" : "has"} other rules than this one: ${others.map((s) => s.name + " " + s.admin).join(", ")}.`);
  const failing = rules.reduce((a, r) => a + r.errors, 0);
  if (failing) ill.unshift(`The store failed for ${rate(failing)} requests.`);
  const s = $("summary"), would = [];
  s.className = ill.length ? "ill" : limiting.length ? "limited" : "";
  let text = state.frames.length < 2 ? "Measuring…" : "Nothing is limited now.";
  if (limiting.length) {
    const keys = f.keys.filter((k) => k.last_ms < recent * 1000 && k.role === "enforced"), first = limiting[0];
    text = `${title(first.rule)} refuses ${rate(first.denied)}, ${percent(first.denied, first.demand)} of its requests.`;
    if (limiting.length > 1) text += ` ${limiting.slice(1, 4).map((r) => `${title(r.rule)} refuses ${rate(r.denied)}`).join(", ")}${limiting.length > 4 ? `, and ${count(limiting.length - 4, "more rule")} refuse${limiting.length === 5 ? "s" : ""} some` : ""}.`;
    const all = limiting.reduce((a, r) => a + r.denied, 0), top = Math.max(0, ...keys.map(keyRate));
    if (keys.length) text += keys.length === 1 && !f.more_keys ? " One key is limited." : ` ${number(keys.length)}${f.more_keys ? " or more" : ""} keys are limited; the first has ${percent(Math.min(top, all), all)} of the denials.`;
  }
  for (const r of rules) {
    const rateOf = (name) => per((s) => s.totals.get(r.rule)?.[f.figures.indexOf(name)]), shadow = rateOf("shadow_denied"), tried = rateOf("candidate_denied"), trial = [];
    if (shadow) would.push(`in shadow, ${title(r.rule)} would refuse ${rate(shadow)}`);
    if (tried) trial.push(`refuse ${rate(tried)}` + (r.denied && rate(r.denied) !== rate(tried) ? `, not ${rate(r.denied)}` : ""));
    if (r.compared) trial.push(`free ${freed(r)}`);
    if (trial.length) would.push(`the candidate of ${title(r.rule)} would ${trial.join(", and ")}`);
  }
  if (would.length) text += ` Not enforced: ${would.slice(0, 3).join("; ")}.`;
  set($("answer"), text);
  keep($("notes"), ill, (n) => n, () => make("li"), (e, n) => set(e, n));
  set($("server"), `${servers.length > 1 ? (state.view.servers === "all" ? `sum of ${servers.filter((s) => s.state !== "waiting").length} servers` : `1 of ${servers.length} servers`) + " · " : ""}${f.version} · up ${time(f.at_ms - f.started_ms)} · ${count(f.rules.length + (f.more_rules || 0) - 1, "rule")} · store ${f.store.breaker && f.store.breaker !== "closed" ? "failing" : f.store.overflow ? "was full" : "ok"}`);
}

export function renderWords() {
  const name = state.view.rule, r = state.words?.rules.find((x) => x.rule === name);
  set($("chart-title"), name ? "Requests of " + (name === none ? "no rule" : "rule " + name) : "Requests of all rules");
  $("all").hidden = !name;
  $("words").replaceChildren(...(r ? r.words.flatMap(([about, text]) => [make("dt", { textContent: about }), make("dd", { textContent: text })]) : []));
  set($("keys-title"), name && name !== none ? "Most limited keys of " + name : "Most limited keys");
}

export function renderLegend() {
  keep($("legend"), chart.present(), (n) => n, (n) => {
    const b = make("button", { type: "button" }, make("i", { className: "f-" + n }), names[n]);
    b.addEventListener("click", () => {
      if (!chart.hidden.delete(n)) chart.hidden.add(n);
      look({});
    });
    return b;
  }, (b, n) => b.setAttribute("aria-pressed", !chart.hidden.has(n)));
}

function renderRules(f, rules) {
  const words = new Map((state.words?.rules || []).map((r) => [r.rule, r]));
  keep($("rules").tBodies[0], rules, (r) => r.rule, (r) => {
    const open = make("button", { type: "button", className: "link", textContent: title(r.rule) });
    open.addEventListener("click", () => { look({ rule: r.rule }); $("chart-title").scrollIntoView({ block: "nearest" }); });
    return row($("rules"), make("span", null, open, make("span", { className: "words" })), noted(), noted(), make("span"), make("span"), draw("svg", { class: "spark", viewBox: "0 0 112 22", role: "img" }), make("span", null, make("meter", { min: 0, max: 1, low: 0.8, high: 1, optimum: 0 }), make("span", { className: "words" })), make("span"));
  }, (e, r) => {
    const [name, state_, demand, denied, share, minute, pressure, all] = [...e.cells].map((c) => c.firstElementChild), w = words.get(r.rule);
    e.setAttribute("aria-current", r.rule === state.view.rule);
    set(name.lastElementChild, w ? w.words.filter(([about]) => about === "each" || about === "all" || about === "may" || about === "limits").map(([about, text]) => about === "all" ? text : about + " " + text).join(", ") : r.rule === none ? "requests that no rule matches" : "");
    set(state_.firstElementChild, w ? w.state : "–");
    state_.firstElementChild.className = "chip " + (w ? w.state : "");
    set(state_.lastElementChild, r.compared ? "would free " + freed(r) : "");
    const units = r.perUnit && Math.abs(r.perUnit - r.demand) > r.demand / 50 ? rate(r.perUnit).replace("/s", " units/s") : "";
    set(demand.firstElementChild, rate(r.demand));
    set(demand.lastElementChild, units);
    set(denied, rate(r.denied));
    denied.className = r.denied ? "hot" : "";
    set(share, percent(r.denied, r.demand));
    chart.spark(minute, r.minute, `${number(r.minute.reduce((a, b) => a + b, 0))} denied in the last ${count(r.minute.length, "second")}`);
    const [meter, part] = pressure.children;
    meter.max = Math.max(1.001, r.pressure); // beyond high, the color changes
    meter.value = r.pressure;
    meter.ariaLabel = "demand divided by what the rule allows";
    set(part, percent(r.pressure, 1));
    pressure.hidden = r.rule === none;
    set(all, number(r.all));
  });
  set($("more-rules"), f.more_rules ? `${count(f.more_rules, "more rule")} ${f.more_rules === 1 ? "has" : "have"} fewer denials.` : "");
}

export const idOf = (k) => k.rule + "\0" + k.digest + (k.role === "candidate" ? "\0newly" : "");
const keyRate = (k) => per((s) => s.denials.get(idOf(k)));

// keyCell shows a key by its fingerprint, until an operator wants to see it.
function keyCell(k) {
  const text = make("span", { className: "key masked" }), show = make("button", { type: "button", className: "show-key", textContent: "Show" });
  show.addEventListener("click", async () => {
    const answer = await act("reveal", k);
    if (answer) state.revealed.set(idOf(k), answer.key);
    renderFrame();
  });
  return make("span", { className: "acts" }, text, " ", show);
}

function fillKey(cell, k) {
  const [text, show] = cell.children, values = state.revealed.get(idOf(k));
  text.className = values ? "key" : "key masked";
  set(text, values ? values.map((v) => v === "" ? "(empty)" : v).join("  ") || "everybody" : k.digest ? k.digest.slice(0, 8) + "…" : "not kept");
  text.title = values ? "" : "fingerprint " + k.digest;
  show.hidden = !!values || !k.digest;
  show.setAttribute("aria-label", "Show key " + k.digest);
}

// button acts on a key after a question.
function button(name, path, question, k) {
  const b = make("button", { type: "button", textContent: name, "aria-label": `${name} key ${k.digest} of rule ${k.rule}` });
  b.addEventListener("click", async () => {
    const values = state.revealed.get(idOf(k));
    if (await ask(`${question} Key ${values ? values.join(", ") : k.digest} of rule ${k.rule}.`, name)) await act(path, k);
  });
  return b;
}

const reset = (k) => button("Reset", "reset", "Forget what this key has used, and its bans?", k);
const unban = (k) => button("Unban", "unban", "Lift the ban of this key?", k);

function overrideButton(k) {
  const b = make("button", { type: "button", textContent: "Override…", "aria-label": `Override the limit of key ${k.digest} of rule ${k.rule}` });
  b.addEventListener("click", () => override(k));
  return b;
}

function renderKeys(f) {
  keep($("keys").tBodies[0], f.keys, idOf, (k) => row($("keys"), keyCell(k), ...Array.from({ length: 5 }, () => make("span")), noted(), make("span"), make("span"), make("span", { className: "acts" }, unban(k), reset(k), overrideButton(k))), (e, k) => {
    const [key, rule, denied, now, since, last, why, left, passes, acts] = [...e.cells].map((c) => c.firstElementChild), n = k.now;
    fillKey(key, k);
    set(rule, k.rule);
    set(denied, number(k.denials) + (k.error ? " ± " + number(k.error) : ""));
    const speed = keyRate(k);
    set(now, rate(speed));
    now.className = speed ? "hot" : "";
    set(since, ago(k.first_ms));
    set(last, ago(k.last_ms));
    set(why.firstElementChild, k.reason.replaceAll("-", " ") + (k.role !== "enforced" ? ` (${k.role})` : "") + (k.limit !== k.rule ? " by " + k.limit : ""));
    set(why.lastElementChild, [n?.from === "call" || n?.from === "file" ? "under an override" : k.plan && "under plan " + k.plan, n?.ahead && "units ahead pay", trial(k)].filter(Boolean).join("; "));
    set(left, n && !n.listed ? `${n.remaining === undefined ? "?" : number(n.remaining)} of ${number(n.capacity)}` : "–");
    set(passes, !n ? "–" : n.allowed ? "now" : n.retry_after_ms === undefined ? "never" : "in " + time(n.retry_after_ms));
    acts.firstElementChild.hidden = n?.reason !== "banned";
    acts.children[1].hidden = n?.reason === "banned";
  });
  $("keys").hidden = !f.keys.length;
  $("no-keys").hidden = !!f.keys.length;
  $("reveal").hidden = !f.keys.some((k) => !state.revealed.has(idOf(k)));
  set($("more-keys"), f.more_keys ? "More keys were denied less often. sluice keys lists up to 1000." : "");
}

function renderBans(f) {
  keep($("bans").tBodies[0], f.bans, (b) => idOf(b) + b.limit, (b) => row($("bans"), keyCell(b), ...Array.from({ length: 3 }, () => make("span")), make("span", { className: "acts" }, unban(b))), (e, b) => {
    const [key, rule, left, cause, acts] = [...e.cells].map((c) => c.firstElementChild);
    fillKey(key, b);
    set(rule, b.rule);
    set(left, time(b.left_ms));
    set(cause, b.by_hand ? "by hand" : b.in_row > 1 ? `denials, ${b.in_row} bans in a row` : "denials");
    acts.firstElementChild.hidden = !b.digest;
  });
  $("bans").hidden = !f.bans.length;
  set($("no-bans"), f.bans_unknown ? "The store does not list the bans now." : f.bans.length || f.more_bans ? "" : state.view.rule ? `No key of ${state.view.rule} is banned.` : "No key is banned.");
  set($("more-bans"), f.more_bans ? "There are more bans. sluice bans lists them." : "");
}

function renderStore(f) {
  const s = f.store, facts = [["Kind", s.kind === "redis" ? "Redis" : "in this process"]];
  if (s.kind === "redis") {
    facts.push(["Breaker", s.breaker + (s.breaker_ms ? ", since " + time(s.breaker_ms) : "")], ["Nodes", s.failing ? `${s.failing} of ${s.nodes} failing` : number(s.nodes || 1)],
      ["In flight", number(s.in_flight || 0)], ["Answered", number(s.answered || 0)], ["Failed", number(s.failed || 0)], ["Late", number(s.late || 0)], ["Kept back", number(s.refused || 0)]);
  }
  facts.push(["States", number(s.keys)], ["Memory", bytes(s.bytes)], ["Without room", number(s.overflow)]);
  keep($("store"), facts.flatMap(([k, v]) => [["dt", k, k], ["dd", k, v]]), ([tag, k]) => tag + k, ([tag]) => make(tag), (e, [tag, k, v]) => {
    set(e, v);
    if (tag === "dd") e.className = k === "Breaker" && s.breaker !== "closed" || k === "Without room" && s.overflow ? "hot" : "";
  });
}

function renderReloads(f) {
  keep($("reloads"), f.reloads, (r) => r.at_ms + (r.refused || ""), (r) => make("li", null,
    make("span", { textContent: `${clock(r.at_ms)} ${r.refused ? "refused" : "applied"}${r.changed?.length ? ": " + r.changed.join(", ") : ""}` }),
    ...(r.refused ? [make("div", { className: "bad", textContent: r.refused })] : [])), () => {});
}

function renderHybrid(f) {
  $("hybrid-section").hidden = !f.hybrid.length;
  keep($("hybrid").tBodies[0], f.hybrid, (h) => h.limit, (h) => row($("hybrid"), make("span", null, h.limit, make("span", { className: "words", textContent: h.bound })), ...Array.from({ length: 6 }, () => make("span"))), (e, h) => {
    const values = [number(h.keys), number(h.escrow), number(h.unspent), number(h.over), number(h.under), h.last_sync_ms === undefined ? "never" : ago(h.last_sync_ms)];
    values.forEach((v, i) => set(e.cells[i + 1].firstElementChild, v));
  });
}

function renderHeavy(f) {
  set($("heavy-note"), f.heavy.length ? `Of allowed requests, one in ${f.sampled} is counted, at random: so the numbers are estimates, of this half hour and the one before.`
    : `Too few requests yet: of allowed ones, one in ${f.sampled} is counted, at random.`);
  $("heavy").hidden = !f.heavy.length;
  keep($("heavy").tBodies[0], f.heavy, idOf, (k) => row($("heavy"), keyCell(k), ...Array.from({ length: 4 }, () => make("span")), make("span", { className: "acts" }, overrideButton(k))), (e, k) => {
    fillKey(e.cells[0].firstElementChild, k);
    [k.rule, `${number(k.requests)} ± ${number(k.within)}`, ago(k.first_ms), ago(k.last_ms)].forEach((v, i) => set(e.cells[i + 1].firstElementChild, v));
  });
}

// renderServers lists the servers that share the store. What they say of themselves is text: nothing links to it.
function renderServers(f) {
  const servers = f.servers || [], words = { this: "this one", answers: "answers", waiting: "waiting…" };
  $("servers-section").hidden = $("scope").hidden = servers.length < 2 && !f.servers_unknown;
  set($("servers-note"), f.servers_unknown ? `The other servers are not known now: ${f.servers_unknown}.` : f.more_servers ? "More servers are not listed." : "");
  keep($("servers").tBodies[0], servers, (s) => s.name + s.admin + s.started_ms, (s) => row($("servers"), make("span", null, s.name, make("span", { className: "words" })), make("span", { className: "chip" }), ...Array.from({ length: 4 }, () => make("span"))), (e, s) => {
    const [name, state_, store, up, version, notes] = [...e.cells].map((c) => c.firstElementChild), silent = s.state === "silent";
    set(name.lastElementChild, s.admin);
    set(state_, silent ? "no answer for " + time(s.seen_ms) : words[s.state]);
    state_.className = silent ? "chip hot" : "chip";
    set(store, s.breaker === "closed" ? "ok" : s.breaker ? "breaker " + s.breaker : "–");
    store.className = s.breaker && s.breaker !== "closed" ? "hot" : "";
    set(up, time(f.at_ms - s.started_ms));
    set(version, s.version || "–");
    set(notes, [s.other_rules && "other rules", s.not_ready, ...(s.notes || []).filter((n) => n !== "store: ok")].filter(Boolean).join("; ") || "–");
  });
}

// renderExplained shows which rules a request matches, and why it does not match the others.
export function renderExplained(x) {
  const lines = [make("p", null, x.refused ? "Refused with status 400: " + x.refused : x.matched ? "The request matches:" : `The request matches no rule, and the default is to ${x.default}.`)];
  for (const r of x.rules.toSorted((a, b) => b.matched - a.matched)) {
    const text = r.matched ? [r.limited && "limited at once: " + r.limited, ...(r.key || []).map((k) => `${k.part} = ${k.missing ? "missing" : k.value}`), ...(r.limits || []).map((l) => `${l.algorithm}, kept as ${l.limit}${l.role !== "enforced" ? `, ${l.role}` : ""}`)].filter(Boolean).join("; ") : r.because;
    lines.push(make("p", { className: r.matched ? "yes" : "no" }, make("strong", { textContent: r.rule }), ": " + text));
  }
  $("explained").replaceChildren(...lines);
}
