// Gives the commands of redisclients_test.go by ioredis. Arguments: host, port, token.
const Redis = require("ioredis");

const [host, port, password] = process.argv.slice(2);
const client = new Redis({ host, port, password, connectionName: "test", maxRetriesPerRequest: 0 });

const throttle = (...args) => client.call("CL.THROTTLE", ...args);

const message = (reply) => reply.then(() => "no error", (e) => e.message);
const failed = async (reply) => "error " + (await message(reply)).replace(/^ERR /, "").split(": this server")[0];

async function main() {
  console.log(...await throttle("user123", 15, 30, 60));
  console.log(...await throttle("user123", 15, 30, 60, 3));
  console.log(...await throttle("user123", 15, 30, 60, 100));
  for (const cost of [1, 3]) {
    const reply = await client.call("SLUICE.CHECK", "pair", "192.0.2.1", "COST", "COST", cost);
    const verdict = {};
    for (let i = 0; i + 1 < reply.length; i += 2) verdict[reply[i]] = reply[i + 1];
    console.log(verdict.allowed ? `remaining ${verdict.remaining}` : `denied ${verdict.reason}`);
  }
  console.log(await failed(throttle("user123", 15, 0, 60)));
  console.log(await failed(client.get("x")));
  const pipeline = client.pipeline();
  for (let i = 0; i < 4; i++) pipeline.call("CL.THROTTLE", "pipelined", 2, 1, 3600);
  console.log("pipelined", ...(await pipeline.exec()).map(([, reply]) => reply[0]));
  let multi = client.multi();
  for (let i = 0; i < 4; i++) multi.call("CL.THROTTLE", "transaction", 2, 1, 3600);
  console.log("transaction", ...(await multi.exec()).map(([, reply]) => reply[0]));
  multi = client.multi();
  multi.call("CL.THROTTLE", "aborted", 1, 1, 3600);
  multi.get("x");
  console.log(/^EXECABORT/.test(await message(multi.exec())) ? "aborted" : "no error");
  console.log("left", (await throttle("aborted", 1, 1, 3600, 0))[2]);
  console.log("instead of ttl:", (await message(client.ttl("x"))).split("; ")[1]);
}

main().then(() => client.quit(), (e) => {
  console.log(e.message);
  process.exit(1);
});
