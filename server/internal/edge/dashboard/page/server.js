// Calls of the server, and its stream of frames. Addresses are relative, because a proxy may serve the page below another path.

// Refused is an answer that is not a success.
export class Refused extends Error {
  constructor(status, problem) {
    super([problem.detail || "The server answers " + status + ".", problem.remedy].filter(Boolean).join(" "));
    this.status = status;
  }
}

const kept = "sluice-admin-token";

export const setToken = (token) => token ? sessionStorage.setItem(kept, token) : sessionStorage.removeItem(kept);

function headers(more) {
  const token = sessionStorage.getItem(kept);
  return { "Sluice-Operator": "page", ...more, ...(token ? { Authorization: "Bearer " + token } : {}) };
}

async function get(path, options) {
  const answer = await fetch(path, { cache: "no-store", redirect: "error", ...options });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  return answer;
}

// call makes a call and returns the answer. With a body it is a POST.
export async function call(path, body) {
  const options = { headers: headers(body && { "Content-Type": "application/json" }), signal: AbortSignal.timeout(10000) };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  return (await get(path, options)).json();
}

// stream gives each frame to a function until the stream ends, which is an error.
export async function stream(path, signal, onFrame) {
  const answer = await get(path, { headers: headers({ Accept: "text/event-stream" }), signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the stream ended");
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) onFrame(JSON.parse(part.slice(6)));
  }
}
