// Compiles a JSON Schema in the strict mode of ajv, which refuses unknown keywords and schemas that say nothing.
import { readFileSync } from "node:fs";
import { Ajv } from "ajv";

const ajv = new Ajv({ strict: true, logger: { log: console.log, warn: console.log, error: console.log } });
ajv.compile(JSON.parse(readFileSync(process.argv[2], "utf8")));
