// JavaScript by @duckdb/node-api: three statements on one connection. Its packages are found from the folder it is started in.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const { DuckDBInstance, version } = require("@duckdb/node-api");
const packageFile = process.cwd() + "/node_modules/@duckdb/node-api/package.json";
const packageVersion = JSON.parse(readFileSync(packageFile, "utf8")).version;
const [database, stop, queries] = process.argv.slice(2);
let reads = 0;
let mixed = 0;
const errors = [];
const seen = new Set();
while (!existsSync(stop)) {
  try {
    const instance = await DuckDBInstance.create(database, { access_mode: "READ_ONLY" });
    const connection = await instance.connect();
    const numbers = new Set();
    for (const query of JSON.parse(queries)) {
      const answer = await connection.runAndReadAll(query);
      answer.getRows()[0].forEach((number) => numbers.add(Number(number)));
    }
    connection.closeSync();
    instance.closeSync();
    reads += 1;
    mixed += numbers.size !== 1 ? 1 : 0;
    numbers.forEach((number) => seen.add(number));
  } catch (error) {
    errors.push(String(error));
  }
  writeFileSync(`${stop}.${basename(process.argv[1], ".mjs")}.${packageVersion}`, "");
  await new Promise((resolve) => setTimeout(resolve, 20));
}
const firstError = errors.length ? errors[0].slice(0, 500) : null;
console.log(
  JSON.stringify({ version: packageVersion, reads, mixed, errors: errors.length, seen: seen.size, first_error: firstError }),
);
