// Lints a description with the strict rules of Redocly, and prints what is wrong with it.
import { createConfig, lint } from "@redocly/openapi-core";

const config = await createConfig({ extends: ["recommended-strict"] });
const problems = await lint({ ref: process.argv[2], config });
for (const p of problems) {
  console.log(`${p.ruleId}: ${p.message} ${p.location.map((l) => l.pointer ?? l.start?.line).join(" ")}`);
}
process.exitCode = problems.length > 0 ? 1 : 0;
