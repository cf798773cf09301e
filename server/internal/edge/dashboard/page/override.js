// The dialog that gives a key other numbers.
import { act, state } from "./main.js";
import { $, make, set } from "./words.js";

const hour = 3600e3;
const lasts = [["15 minutes", hour / 4], ["1 hour", hour], ["8 hours", 8 * hour], ["1 day", 24 * hour], ["7 days", 168 * hour], ["until…", "until"], ["ever, until it is removed", ""]];
const whats = [["gets other numbers", "numbers"], ["passes without a limit", "unlimited"], ["is refused", "deny"], ["gets the rule's own numbers again", "unset"]];
const fill = (select, rows) => select.replaceChildren(...rows.map(([textContent, value]) => make("option", { value: String(value), textContent })));

// change shows the fields that the choice needs.
function change() {
  const what = $("override-what").value;
  $("override-numbers").hidden = what !== "numbers";
  $("override-for").parentElement.hidden = $("override-note-label").hidden = what === "unset";
  $("override-until-label").hidden = what === "unset" || $("override-for").value !== "until";
  for (const input of $("override-numbers").querySelectorAll("input")) input.required = what === "numbers" && input.dataset.only === "true";
  $("override-until").required = !$("override-until-label").hidden;
}

// body returns what the dialog says, as /v1/overrides reads it.
function body() {
  const what = $("override-what").value, lasting = $("override-for").value, given = {};
  if (what === "numbers") {
    const limits = [...$("override-numbers").querySelectorAll("fieldset")].map((f) => Object.fromEntries([...f.querySelectorAll("input")]
      .filter((i) => i.value.trim()).map((i) => [i.name, i.name === "rate" ? i.value.trim() : Number(i.value)])));
    given[limits.length > 1 ? "limits" : "limit"] = limits.length > 1 ? limits : limits[0];
  } else given[what] = true;
  if (lasting === "until") given.until = new Date($("override-until").value).toISOString();
  else if (lasting) given.for_ms = Number(lasting);
  return { ...given, note: $("override-note").value.trim() || "by the page" };
}

// override lets the operator change what a key gets.
export async function override(k) {
  const rule = state.words?.rules.find((r) => r.rule === k.rule), numbers = rule?.numbers || ["rate"], values = state.revealed.get(k.rule + "\0" + k.digest);
  set($("override-title"), `Key ${values ? values.join(", ") : k.digest} of rule ${k.rule}`);
  $("override-numbers").replaceChildren(...numbers.map((name, i) => make("fieldset", { className: "pair" },
    make("label", null, numbers.length > 1 ? `Limit ${i + 1}: ${name} ` : name === "rate" ? "Rate " : "At once ",
      make("input", { name, size: "10", placeholder: name === "rate" ? "200/m" : "20", inputMode: name === "rate" ? "text" : "numeric", autocomplete: "off", "data-only": String(numbers.length === 1) })))));
  change();
  const dialog = $("override-dialog");
  dialog.returnValue = "no";
  dialog.showModal();
  if (await new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue !== "yes"), { once: true }))) return;
  if ($("override-what").value === "unset") await act("unset", k);
  else await act("override", k, body());
}

export function listen() {
  fill($("override-what"), whats);
  fill($("override-for"), lasts);
  $("override-for").value = String(hour);
  $("override-what").addEventListener("change", change);
  $("override-for").addEventListener("change", change);
  $("override-no").addEventListener("click", () => $("override-dialog").close("no"));
}
