// A program with the client that openapi-typescript generates from the description of the API. It makes every call, and
// fails where something is not as it should be. Its test generates sluice.d.ts beside a copy of this file.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./sluice.js";

type Request = components["schemas"]["DecisionRequest"];

const { URL: baseUrl, TOKEN, ADMIN_TOKEN } = process.env as Record<string, string>;
const client = (token: string, headers: Record<string, string> = {}) =>
  createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}`, ...headers } });
const c = client(TOKEN);
const operator = client(ADMIN_TOKEN);

// one returns the decision of a check, or the answers to a batch are an error.
function one(d: components["schemas"]["Decision"] | components["schemas"]["Answers"] | undefined) {
  assert(d && "allowed" in d, JSON.stringify(d));
  return d;
}

async function decisions() {
  const login: Request = { method: "POST", path: "/login", client_ip: "192.0.2.1", headers: { "X-User": ["ann"] } };
  for (const remaining of [1, 0]) {
    const d = one((await c.POST("/v1/check", { body: login })).data);
    assert(d.allowed && d.action === "allow" && d.remaining === remaining && d.limits[0].role === "enforced");
  }
  const call = { params: { query: { status: 429 }, header: { "Idempotency-Key": "once" } }, body: login };
  const denied = await c.POST("/v1/check", call);
  assert(denied.response.status === 429 && denied.error && "allowed" in denied.error && !denied.error.allowed);
  assert(Number(denied.response.headers.get("Retry-After")) > 0 && denied.error.answer?.status === 429);
  assert.equal((await c.POST("/v1/check", call)).response.headers.get("Idempotency-Replayed"), "true");
  assert(one((await c.POST("/v1/peek", { body: { client_ip: "192.0.2.8" } })).data).allowed);
  const peek = await c.POST("/v1/peek", { params: { query: { status: 503 } }, body: login });
  assert(peek.response.status === 503 && peek.error && "reason" in peek.error && peek.error.reason === "limited");
  for (const action of ["allow", "mark"] as const) {
    const d = one((await c.POST("/v1/check", { body: { path: "/search", client_ip: "192.0.2.1" } })).data);
    assert(d.action === action && (action === "allow" || d.mark?.request_header?.["Sluice-Marked"] === "search"));
  }
  const requests: Request[] = [login, { rule: "no such rule" }, { rule: "login", key: "192.0.2.9", cost: 2 }];
  const { data } = await c.POST("/v1/check", { body: { requests } });
  assert(data && "answers" in data);
  assert(data.answers[0].decision?.allowed === false && data.answers[1].problem?.field === "rule" && data.answers[2].decision?.allowed);
}

async function reservations() {
  const reserve = async () => {
    const { data } = await c.POST("/v1/reserve", { body: { rule: "units", cost: 40, ttl_ms: 60_000 } });
    assert(data?.token && data.expires_in_ms === 60_000);
    return data.token;
  };
  assert.equal((await c.POST("/v1/settle", { body: { token: await reserve(), cost: 7 } })).data?.charges, 1);
  const again = await c.POST("/v1/settle", { body: { token: "used", cost: 7 } });
  assert(again.response.status === 404 && again.error?.field === "token");
  assert.equal((await c.POST("/v1/cancel", { body: { token: await reserve() } })).data?.charges, 1);
  assert.equal((await c.POST("/v1/cancel", { body: { token: "used" } })).response.status, 404);
  const debited = (await c.POST("/v1/debit", { body: { rule: "units", cost: 2 } })).data;
  assert(debited && "allowed" in debited && debited.allowed && debited.remaining !== undefined);
  const undirected = await c.POST("/v1/debit", { body: { path: "/units" } });
  assert(undirected.response.status === 400 && undirected.error && "field" in undirected.error && undirected.error.field === "rule");
  const usage = (await c.GET("/v1/usage", { params: { query: { rule: "units" } } })).data;
  assert.equal(usage?.limits[0].used, 9, JSON.stringify(usage));
  const denied = await c.POST("/v1/reserve", { params: { query: { status: 429 } }, body: { rule: "units", cost: 1000 } });
  assert(denied.response.status === 429 && denied.error && "allowed" in denied.error && !denied.error.token);
}

async function leases() {
  const acquire = () => c.POST("/v1/acquire", { params: { query: { status: 429 } }, body: { rule: "jobs" } });
  const token = (await acquire()).data?.token;
  assert(token);
  assert.equal((await acquire()).response.status, 429);
  assert.equal((await c.POST("/v1/renew", { body: { token } })).data?.delay_ms, 0);
  assert.equal((await c.POST("/v1/release", { body: { token } })).data?.charges, 1);
  assert.equal((await c.POST("/v1/release", { body: { token } })).response.status, 404);
  assert.deepEqual((await operator.POST("/v1/reset", { body: { rule: "jobs" } })).data?.rules, ["jobs"]);
  const units = (await c.POST("/v1/reserve", { body: { rule: "units" } })).data?.token;
  assert(units);
  assert.equal((await c.POST("/v1/renew", { body: { token: units } })).response.status, 409);
  assert.equal((await c.POST("/v1/acquire", { body: { rule: "units" } })).response.status, 409);
}

async function operations() {
  const ban = { rule: "login", key: ["192.0.2.7"] };
  assert.equal((await operator.POST("/v1/bans", { body: { ...ban, for_ms: 3_600_000 } })).data?.for_ms, 3_600_000);
  const bans = (await operator.GET("/v1/bans", { params: { query: { most: 1000 } } })).data?.bans;
  assert(bans?.length === 1 && bans[0].by_hand && bans[0].left_ms > 0);
  assert.equal((await operator.DELETE("/v1/bans", { body: ban })).data?.lifted, true);
  const override = { rule: "login", key: ["192.0.2.8"] };
  assert.equal((await operator.PUT("/v1/overrides", { body: { ...override, limit: { rate: "9/d" }, for_ms: 60_000 } })).response.status, 200);
  assert.equal((await operator.PUT("/v1/overrides", { body: override })).response.status, 400);
  assert.equal((await operator.GET("/v1/overrides", { params: { query: { rule: "login" } } })).response.status, 200);
  assert.equal((await operator.DELETE("/v1/overrides", { body: override })).response.status, 200);
  assert((await operator.POST("/v1/grant", { body: { rule: "units", units: 1, note: "a test" } })).data?.allowed);
  assert.equal((await operator.POST("/v1/grant", { body: { rule: "jobs", units: 1 } })).response.status, 409);
  assert.equal((await operator.POST("/v1/grant", { body: { rule: "units", units: 5, ahead: true } })).data?.ahead?.remaining, 5);
  assert.equal((await operator.DELETE("/v1/grant", { body: { rule: "units" } })).response.status, 200);
  assert.equal((await operator.GET("/v1/keys", { params: { query: { rule: "login" } } })).data?.keys[0].now?.capacity, 2);
  const hot = { requests: Array.from({ length: 50 }, () => ({ path: "/hot" })) };
  let hybrid: components["schemas"]["Hybrid"] | undefined;
  for (let i = 0; i < 200 && !hybrid?.keys.length; i++) { // until the key is hot
    await operator.POST("/v1/check", { body: hot });
    hybrid = (await operator.GET("/v1/hybrid")).data;
  }
  assert(hybrid && hybrid.keys.length === 1 && hybrid.limits[0].rule === "hot", JSON.stringify(hybrid));
  const pressures = (await operator.GET("/v1/pressure")).data?.pressures;
  assert(pressures && pressures.login >= 0);
  const rule = (name: string) => operator.GET("/v1/pressure/{rule}", { params: { path: { rule: name } } });
  assert.equal((await rule("login")).data?.rule, "login");
  assert.equal((await rule("other")).response.status, 404);
  assert.match((await operator.GET("/openapi.yaml", { parseAs: "text" })).data ?? "", /^openapi: 3\.1\.0\n/);
  assert.match((await operator.GET("/", { parseAs: "text" })).data ?? "", /\/v1\/check/);
}

async function refusals() {
  const all: Request = { client_ip: "192.0.2.50" };
  const refused = async (call: ReturnType<typeof check>, status: number, title: string) => {
    const { error, response } = await call;
    assert(error && "title" in error && error.title === title && response.status === status, title);
    assert.equal(response.headers.get("Content-Type"), "application/problem+json");
  };
  const check = (by: typeof c, body: Request, header: Record<string, string> = {}, send?: BodyInit) =>
    by.POST("/v1/check", { body, headers: header, ...(send === undefined ? {} : { bodySerializer: () => send }) });
  await refused(check(c, { client_ip: "x" }), 400, "Invalid request");
  await refused(check(client("wrong"), all), 401, "Not authorized");
  await refused(check(client(TOKEN, { Origin: "https://foreign.example" }), all), 403, "Foreign origin");
  await refused(check(c, { path: "/" + "x".repeat(2 << 20) }), 413, "Request too large");
  await refused(check(c, all, { "Content-Type": "text/plain" }), 415, "Not JSON");
  const repeated = { params: { query: { status: 429 }, header: { "Idempotency-Key": "once" } }, body: all };
  assert.equal((await c.POST("/v1/check", repeated)).response.status, 422);
  assert.equal((await c.POST("/v1/reset", { body: { rule: "login" } })).response.status, 403);
  assert.equal((await operator.POST("/v1/bans", { body: { rule: "units", for_ms: 1 } })).response.status, 409);
  assert.equal((await operator.GET("/v1/bans", { params: { query: { from: "nowhere" } } })).response.status, 400);
  assert.equal((await operator.POST("/v1/grant", { body: { rule: "units", units: 5, ahead: true } })).data?.ahead?.remaining, 5);
  assert.equal((await operator.DELETE("/v1/grant", { body: { rule: "units" } })).response.status, 200);
  assert.equal((await operator.GET("/v1/keys", { params: { query: { most: 1001 } } })).response.status, 400);
  assert.equal((await operator.GET("/v1/hybrid", { params: { query: { rule: "other" } } })).response.status, 400);
}

// open opens a reservation, and prints its token.
async function open() {
  console.log((await c.POST("/v1/reserve", { body: { rule: "units" } })).data?.token);
}

// withoutStore makes the calls that need the store, while it does not answer.
async function withoutStore(reservation: string) {
  assert.equal(one((await c.POST("/v1/check", { body: { rule: "units" } })).data).degraded, true);
  const ban = { rule: "login", key: ["192.0.2.7"] };
  for (const { response, error } of [
    await c.POST("/v1/settle", { body: { token: reservation, cost: 1 } }),
    await operator.POST("/v1/reset", { body: { rule: "units" } }),
    await operator.POST("/v1/bans", { body: { ...ban, for_ms: 1 } }),
    await operator.DELETE("/v1/bans", { body: ban }),
    await operator.GET("/v1/bans"),
  ]) {
    assert(response.status === 503 && error?.remedy, response.url);
  }
  assert((await operator.GET("/v1/keys")).data?.keys.length);
}

if (process.argv[2] === "calls") {
  await decisions();
  await reservations();
  await leases();
  await operations();
  await refusals();
  await open();
} else {
  await withoutStore(process.argv[3]);
}
