// Builds the page into dist/: node build.mjs. With --test it bundles and runs the tests of test/ instead.
//
// The same sources and the same package-lock.json give the same bytes on any machine: `cargo xtask web --check` compares them.

import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

// Everything that a browser loads, compressed, has to stay below this.
const MOST_BYTES = 150_000;

const common = {
  bundle: true,
  charset: "utf8",
  format: "esm",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
  target: "es2022",
};

if (process.argv[2] === "--test") {
  const names = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
  const entryPoints = names.map((name) => `test/${name}`);
  rmSync("out-test", { recursive: true, force: true });
  await build({ ...common, entryPoints, outdir: "out-test", outExtension: { ".js": ".mjs" }, platform: "node" });
  const files = names.map((name) => `out-test/${name.replace(/\.ts$/, ".mjs")}`);
  const done = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" });
  process.exit(done.status ?? 1);
}

rmSync("dist", { recursive: true, force: true });
mkdirSync("dist");
await build({ ...common, entryPoints: { app: "src/app.tsx" }, minify: true, outdir: "dist" });
// Terminals: loaded with the first one, so that the page is there sooner.
const dressed = { define: { document: "dressedDocument" }, inject: ["src/dressed.ts"] };
await build({ ...common, ...dressed, entryPoints: { terminal: "src/term.ts" }, loader: { ".css": "text" }, minify: true, outdir: "dist" });
// The element for others' pages: one file, with its style inside.
await build({ ...common, entryPoints: { "netloom-map": "src/embed.ts" }, loader: { ".css": "text" }, minify: true, outdir: "dist" });
for (const name of ["index.html", "icon.svg"]) copyFileSync(`src/${name}`, `dist/${name}`);

// The licences of what is bundled ask for their text beside it.
const bundled = ["preact", "uplot", "@xterm/xterm", "@xterm/addon-fit"].map((name) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return `${name} ${version}\n\n${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}\n`;
});
writeFileSync("dist/licences.txt", bundled.join("\n----\n\n"));

// Of these the page loads all but the element for others.
let total = 0;
for (const name of readdirSync("dist").sort()) {
  const compressed = gzipSync(readFileSync(`dist/${name}`)).length;
  if (name !== "netloom-map.js") total += compressed;
  console.log(`${name}: ${statSync(`dist/${name}`).size} bytes, ${compressed} compressed`);
}
console.log(`the page in all: ${total} bytes compressed`);
if (total > MOST_BYTES) {
  console.error(`the page: ${total} bytes compressed, and ${MOST_BYTES} are allowed; take something out`);
  process.exit(1);
}
