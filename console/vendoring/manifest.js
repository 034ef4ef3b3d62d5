// Write manifest.json and LICENSES.txt: the packages in each bundle, their versions and licences.
const {createHash} = require("node:crypto");
const {readFileSync, writeFileSync, readdirSync} = require("node:fs");
const {join} = require("node:path");

const [target, axe] = process.argv.slice(2);
const PACKAGE = /node_modules\/((?:@[^/]+\/)?[^/]+)\//;

function packagesOf(bundle) {
  const {inputs} = JSON.parse(readFileSync(`${bundle}.json`, "utf8"));
  const names = Object.keys(inputs).map((path) => PACKAGE.exec(path)?.[1]).filter(Boolean);
  return [...new Set(names)].sort();
}

function describe(name) {
  const {version, license} = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  return {name, version, license};
}

function licenceOf(name) {
  const folder = `node_modules/${name}`;
  const file = readdirSync(folder).find((each) => /^licen[sc]e/i.test(each));
  return file === undefined ? "" : readFileSync(join(folder, file), "utf8").trim();
}

function entry(folder, file, names) {
  const sha256 = createHash("sha256").update(readFileSync(join(folder, file))).digest("hex");
  return {file, sha256, packages: names.map(describe)};
}

const bundles = ["editor", "interface", "plot"];
const files = bundles.map((each) => entry(target, `${each}.js`, packagesOf(each)));
files.push(entry(target, "plot.css", ["uplot"]));
const names = [...new Set(files.flatMap((each) => each.packages.map(({name}) => name)))].sort();
const write = (folder, what) =>
  writeFileSync(join(folder, "manifest.json"), `${JSON.stringify(what, null, 2)}\n`);
write(target, {files});
write(axe, {files: [entry(axe, "axe.js", ["axe-core"])]});
const texts = names.map((name) => {
  const {version, license} = describe(name);
  return `${name} ${version} (${license})\n\n${licenceOf(name)}\n`;
});
writeFileSync(join(target, "LICENSES.txt"), texts.join(`\n${"-".repeat(80)}\n\n`));
