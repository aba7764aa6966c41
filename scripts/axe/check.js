// check.js FILE.html|ADDRESS…: looks for faults that axe-core knows in each page, light and dark, wide and narrow, folded and unfolded, and
// ends with 1 where there are any. PICTURES=DIR has pictures and prints of the pages as well.
"use strict";

const fs = require("fs");
const path = require("path");
const { chromium } = require("playwright-core");

const AXE = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const WIDTHS = [1280, 400];

const unfold = () => document.querySelectorAll("details").forEach((one) => { one.open = true; });

// Returns a line for each fault of the page as it is.
const faults = async (page) => {
  const found = await page.evaluate(`${AXE}; axe.run(document, { resultTypes: ["violations"] })`);
  return found.violations.map((one) => {
    const first = one.nodes[0];
    return `${one.id} (${one.impact}): ${one.nodes.length} × ${first.html.slice(0, 160)} ${first.failureSummary}`;
  });
};

const pictures = async (page, name, scheme, width) => {
  const to = process.env.PICTURES;
  if (!to) return;
  await page.screenshot({ path: path.join(to, `${name}-${scheme}-${width}.png`) });
  await page.screenshot({ path: path.join(to, `${name}-${scheme}-${width}-whole.png`), fullPage: true });
  if (scheme === "light" && width === WIDTHS[0]) await page.pdf({ path: path.join(to, `${name}.pdf`), format: "A4", printBackground: true });
};

const check = async (browser, file) => {
  const name = file.startsWith("http") ? "browser" : path.basename(file, ".html");
  let count = 0;
  for (const colorScheme of ["light", "dark"]) {
    for (const width of WIDTHS) {
      const page = await browser.newPage({ colorScheme, viewport: { width, height: 800 } });
      await page.goto(file.startsWith("http") ? file : `file://${path.resolve(file)}`);
      // The page of a server runs a race.
      if (file.startsWith("http")) await page.waitForFunction(() => document.body.dataset.done);
      await pictures(page, name, colorScheme, width);
      const folded = await faults(page);
      await page.evaluate(unfold);
      const all = new Set([...folded, ...await faults(page)]);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) all.add(`the page is ${wide} pixels wider than the window`);
      for (const fault of all) console.log(`${name}, ${colorScheme}, ${width} pixels: ${fault}`);
      count += all.size;
      await page.close();
    }
  }
  console.log(`${name}: ${count} faults`);
  return count;
};

(async () => {
  const executablePath = process.env.CHROMIUM;
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  let count = 0;
  try {
    for (const file of process.argv.slice(2)) count += await check(browser, file);
  } finally {
    await browser.close();
  }
  process.exit(count === 0 ? 0 : 1);
})();
