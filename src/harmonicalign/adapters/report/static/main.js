// Puts the page together, section by section; a section without facts stays hidden.

function show(id) {
  const section = byId(id);
  section.hidden = false;
  if (section.dataset.title) byId("nav").append(el("a", { href: `#${id}`, text: section.dataset.title }));
  return section;
}

const allPanels = [];
const themeNames = { auto: "automatic", light: "light", dark: "dark" };
let themeChoice = "auto";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
function nameTheme() {
  byId("theme").textContent = `◐ ${themeNames[themeChoice]}`;
  byId("theme").setAttribute("aria-label", `Theme: ${themeNames[themeChoice]}`);
}
function applyTheme() {
  document.documentElement.dataset.theme = themeChoice === "auto" ? (systemDark.matches ? "dark" : "light") : themeChoice;
  nameTheme();
  for (const redraw of redraws) redraw();
}

function buildHeader() {
  const rows = facts.datasets.reduce((sum, d) => sum + d.rows, 0);
  byId("title").textContent = facts.title;
  const method = { default: "default method", paper: "published method", single: "diffusion map" }[facts.method];
  const sets = facts.datasets.length;
  byId("subtitle").textContent = `${sets} dataset${sets > 1 ? "s" : ""}, ${whole(rows)} rows, ${method}`;
  byId("footer").textContent = `Made by harmonicalign ${facts.versions[0].version} on ${facts.created}. This file is self-contained.`;
  byId("theme").addEventListener("click", () => {
    // The first press changes what is seen; the third returns to the system's choice.
    const opposite = systemDark.matches ? "light" : "dark";
    const same = systemDark.matches ? "dark" : "light";
    themeChoice = { auto: opposite, [opposite]: same, [same]: "auto" }[themeChoice];
    applyTheme();
  });
  systemDark.addEventListener("change", applyTheme);
  nameTheme();
}

function buildVerdict() {
  const { level, headline, sentences, checks, next } = facts.verdict;
  const section = show("verdict");
  section.classList.add(level);
  section.querySelector(".badge").textContent = { good: "✓", doubtful: "!", bad: "✕", none: "–" }[level];
  section.querySelector(".headline").textContent = headline;
  section.querySelector(".sentences").append(...sentences.map((text) => el("p", { text })));
  section
    .querySelector(".figures")
    .append(...facts.figures.map((f) => el("div", {}, el("dt", { text: f.name }), el("dd", { class: "value", text: f.value }), el("dd", { class: "small muted", text: f.note }))));
  if (next) {
    const line = section.querySelector(".next");
    line.hidden = false;
    line.textContent = next;
  }
  if (checks.length) {
    const part = section.querySelector(".checks");
    part.hidden = false;
    part.querySelector("ul").append(...checks.map((text) => el("li", { text })));
  }
}

function buildPicture() {
  show("picture");
  const given = facts.points;
  const points = new Points(given);
  const panels = [];
  const events = {
    hover(from, i) {
      for (const panel of panels) panel.mark(i, panel === from);
    },
    say(i) {
      byId("live").textContent = i < 0 ? "" : points.describe(i).join("; ");
    },
  };
  for (const panel of given.panels) panels.push(new Scatter(panel, points, events));
  allPanels.push(...panels);
  byId("panels").append(...panels.map((p) => p.figure));
  if (given.n < given.total) {
    const notice = byId("sample-notice");
    notice.hidden = false;
    notice.textContent = `A sample of ${whole(given.n)} of ${whole(given.total)} rows is drawn, to keep the page fast. All rows were used for everything else.`;
  }
  const repaint = () => {
    points.refresh();
    for (const panel of panels) panel.schedule();
  };

  const select = byId("colour");
  const groups = { label: "Labels", confidence: "Rows", feature: "Features" };
  const options = new Map([["dataset", null]]);
  select.append(el("option", { value: "dataset", text: "dataset" }));
  for (const [group, title] of Object.entries(groups)) {
    const members = given.columns.map((c, k) => [c, k]).filter(([c]) => c.group === group);
    if (!members.length) continue;
    const list = el("optgroup", { label: title });
    for (const [column, k] of members) {
      options.set(`column ${k}`, column);
      list.append(el("option", { value: `column ${k}`, text: limited(column.name, 60) }));
    }
    select.append(list);
  }
  const colour = (key) => {
    select.value = key;
    const column = options.get(key);
    points.colourBy(column);
    byId("on-plot").disabled = !column || column.kind !== "category";
    for (const panel of panels) {
      panel.withNames = byId("on-plot").checked && !byId("on-plot").disabled;
      panel.schedule();
    }
    buildLegends(points, repaint);
  };
  select.addEventListener("change", () => colour(select.value));

  const features = new Map(given.columns.flatMap((c, k) => (c.group === "feature" ? [[c.feature, `column ${k}`]] : [])));
  const finder = byId("colour-feature");
  if (features.size > 12) {
    const byName = new Map(given.columns.flatMap((c, k) => (c.group === "feature" ? [[c.name, `column ${k}`]] : [])));
    byId("feature-list").append(...[...byName.keys()].map((value) => el("option", { value })));
    finder.addEventListener("input", () => byName.has(finder.value) && colour(byName.get(finder.value)));
  } else {
    finder.closest("label").hidden = true;
  }

  const layouts = [...new Set(given.panels.flatMap((p) => p.layouts.map((l) => l.name)))];
  byId("layout").append(...layouts.map((name) => el("option", { value: name, text: name })));
  byId("layout").closest("label").hidden = layouts.length < 2;
  byId("layout").addEventListener("change", () => panels.forEach((p) => p.useLayout(byId("layout").value)));
  byId("size").addEventListener("input", () => {
    for (const panel of panels) {
      panel.sizeFactor = Number(byId("size").value);
      panel.schedule();
    }
  });
  byId("on-plot").addEventListener("change", () => colour(select.value));
  byId("layout-help").textContent =
    "In the layout of neighbours (t-SNE) similar rows are close to each other; distances between distant groups and sizes of groups mean little. " +
    "In the layout of components (the first two principal components) distances are preserved within the plane, but other dimensions are not visible. " +
    "Aligned datasets overlap where they share structure. Datasets have different markers, visible when points are large enough.";

  // Whether the datasets meet is the first question; where there is only one, its labels are.
  const label = given.columns.findIndex((c) => c.group === "label" && c.kind === "category" && c.names.length <= 30);
  byId("on-plot").checked = label >= 0;
  colour(facts.datasets.length === 1 && label >= 0 ? `column ${label}` : "dataset");
  redraws.push(() => {
    repaint();
    buildLegends(points, repaint);
  });
  return {
    has: (f) => features.has(f),
    show: (f) => {
      colour(features.get(f));
      byId("picture").scrollIntoView();
      byId("colour").focus({ preventScroll: true });
    },
  };
}

// Buttons that show and hide; pointing at one, or reaching it by keyboard, brings its group to the front.
function legendButtons(names, counts, on, sign, spotlight, points, repaint) {
  const light = (value) => {
    points.spotlight = value;
    repaint();
  };
  return names.map((name, i) => {
    const button = el(
      "button",
      { type: "button", "aria-pressed": String(on[i]), title: name },
      sign(i),
      el("span", { text: limited(name) }),
      counts ? el("span", { class: "muted", text: whole(counts[i]) }) : null,
    );
    button.addEventListener("click", () => {
      on[i] = !on[i];
      button.setAttribute("aria-pressed", String(on[i]));
      points.spotlight = null;
      repaint();
    });
    for (const name of ["pointerenter", "focus"]) button.addEventListener(name, (e) => (name === "focus" ? button.matches(":focus-visible") : e.pointerType === "mouse") && on[i] && light({ ...spotlight, index: i }));
    for (const name of ["pointerleave", "blur"]) button.addEventListener(name, () => points.spotlight && light(null));
    return button;
  });
}

function allOrNone(on, buttons, points, repaint) {
  if (buttons.length < 3) return [];
  const set = (value) => {
    on.fill(value);
    for (const b of buttons) b.setAttribute("aria-pressed", String(value));
    points.spotlight = null;
    repaint();
  };
  return [
    el("button", { type: "button", class: "plain", text: "all", "aria-label": "Show all", onclick: () => set(true) }),
    el("button", { type: "button", class: "plain", text: "none", "aria-label": "Hide all", onclick: () => set(false) }),
  ];
}

function buildLegends(points, repaint) {
  const { column } = points;
  const names = facts.datasets.map((d) => d.name);
  const sign = (i) => swatch(column ? "var(--muted)" : css(nameColour(i)), i);
  const sets = legendButtons(names, facts.points.counts, points.shown, sign, { kind: "dataset" }, points, repaint);
  byId("dataset-legend").replaceChildren(el("span", { class: "lead", text: "Datasets" }), ...sets, ...allOrNone(points.shown, sets, points, repaint));
  const legend = byId("colour-legend");
  legend.replaceChildren();
  if (!column) return;
  legend.append(el("span", { class: "lead", text: limited(column.name, 60) }));
  if (column.kind === "category") {
    const counts = new Array(column.names.length).fill(0);
    for (const code of codes(column)) if (code < counts.length) counts[code]++;
    const buttons = legendButtons(column.names, counts, points.categoryShown, (i) => swatch(css(nameColour(i))), { kind: "category" }, points, repaint);
    legend.append(...buttons, ...allOrNone(points.categoryShown, buttons, points, repaint));
    if (codes(column).includes(missingCode(column))) legend.append(el("span", { class: "ramp" }, swatch("var(--missing)"), "missing"));
  } else {
    const ramp = el("canvas", { width: 256, height: 1, "aria-hidden": "true" });
    const image = new ImageData(256, 1);
    const pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < 256; i++) pixels[i] = packed(rampColour(i / 255));
    ramp.getContext("2d").putImageData(image, 0, 0);
    const low = `${column.clipped[0] ? "≤ " : ""}${short(column.low)}`;
    const high = `${column.clipped[1] ? "≥ " : ""}${short(column.high)}`;
    legend.append(el("span", { class: "ramp" }, low, ramp, high));
    if (codes(column).includes(missingCode(column))) legend.append(el("span", { class: "ramp" }, swatch("var(--missing)"), "missing"));
  }
}

const withNote = (text, note) => el("span", {}, text, note ? el("span", { class: "note", text: note }) : null);
const pairName = (pair) => `${facts.datasets[pair.one].name} – ${facts.datasets[pair.other].name}`;

function choosePair(id, box, pairs, chosen) {
  byId(box).hidden = pairs.length < 2;
  byId(id).append(...pairs.map((pair, k) => el("option", { value: String(k), text: pairName(pair) })));
  byId(id).addEventListener("change", () => chosen(pairs[Number(byId(id).value)]));
}

function buildEvidence() {
  const pairs = facts.pairs.list;
  const { list, rows } = facts.measures;
  if (!pairs.length && !list.length) return;
  show("evidence");
  const style = (m, v) => (v === null ? "–" : m.kind === "label" ? percent(v) : signed(v));
  const total = facts.datasets.reduce((sum, d) => sum + d.rows, 0);
  byId("measures").append(
    plainTable(
      "Measures before and after alignment",
      [
        { title: "Measure", cell: (m) => withNote(m.name, m.note) },
        { title: "Before", number: true, value: (m) => m.before, cell: (m) => style(m, m.before) },
        { title: "After", number: true, value: (m) => m.after, cell: (m) => style(m, m.after) },
      ],
      list,
    ),
  );
  if (rows < total) byId("measures").append(el("p", { class: "small muted", text: `Counted on a sample of ${whole(rows)} rows.` }));
  const tested = pairs.filter((p) => p.null && p.null.length);
  const charted = byId("null").closest(".two");
  charted.hidden = !tested.length;
  if (!tested.length) return;
  let current = tested.reduce((worst, p) => (p.p > worst.p ? p : worst));
  const redraw = drawNull(byId("null"), () => current);
  choosePair("null-pair", "null-choice", tested, (pair) => {
    current = pair;
    redraw();
  });
  byId("null-pair").value = String(tested.indexOf(current));
  const columns = [
    { title: "Pair", cell: (p) => withNote(pairName(p), p.explanation) },
    { title: "z", number: true, value: (p) => p.z ?? null, cell: (p) => (p.z === undefined ? "–" : signed(p.z, 1)) },
    { title: "p", number: true, value: (p) => p.p ?? null, cell: (p) => p.readable || "–" },
  ];
  if (pairs.some((p) => p.support !== undefined)) {
    columns.push({ title: "Support", number: true, value: (p) => p.support ?? null, cell: (p) => p.support.toFixed(2) });
  }
  byId("tests").append(el("h3", { text: "Pairs that were aligned" }), plainTable("Tests of the pairs of datasets", columns, pairs));
  if (facts.pairs.total > pairs.length) byId("tests").append(el("p", { class: "small muted", text: `The first ${pairs.length} of ${facts.pairs.total} pairs.` }));
}

function buildFeatures(colourBy) {
  const given = facts.features;
  if (!given) return;
  show("features");
  const features = {
    names: given.names,
    scores: decode(given.scores, Float32Array),
    p: decode(given.p, Float32Array),
    selected: decode(given.selected, Uint8Array),
    weights: given.weights ? decode(given.weights, Float32Array) : null,
  };
  drawFeatures(byId("feature-chart"), features);
  new FeatureTable(features, colourBy);
}

function buildHarmonics() {
  show("harmonics");
  byId("spectra-help").textContent =
    `Every curve shows the harmonics of one dataset, low frequencies on the right. Harmonics are compared with those of other datasets in the same bands (shaded, ${facts.spectra.bands} in all)` +
    (facts.spectra.calibrated ? ". Frequencies were calibrated first." : ".");
  drawSpectra(byId("spectra"));
  const pairs = facts.pairs.list.filter((p) => p.matrices);
  if (!pairs.length) return;
  byId("matrix-part").hidden = false;
  let current = pairs[0];
  const redraw = () => drawMatrices(byId("matrices"), current);
  choosePair("matrix-pair", "matrix-choice", pairs, (pair) => {
    current = pair;
    redraw();
  });
  redraw();
  redraws.push(redraw);
}

// What `compare` found, or how to run it.
function buildOthers() {
  const { command, columns, rows } = facts.comparison;
  show("others");
  byId("others-help").append(
    rows.length ? "Every method at its default settings; made by " : "To see how other methods do on these data, run ",
    el("code", { text: command }),
    rows.length ? "." : " and pass its table on: harmonicalign report MODEL DATA --comparison methods.csv.",
  );
  if (!rows.length) return;
  const numeric = (name) => rows.some((row) => typeof row[name] === "number");
  byId("others-table").append(
    plainTable(
      "Other methods",
      columns.map((name) => ({
        title: name.replaceAll("_", " "),
        number: numeric(name),
        wide: name === "note",
        value: (row) => row[name],
        cell: (row) => (row[name] === null ? "–" : typeof row[name] === "number" ? short(row[name]) : row[name]),
      })),
      rows,
    ),
  );
}

function buildRun() {
  show("run");
  byId("parameters").append(
    plainTable(
      "Parameters",
      [
        { title: "Parameter", cell: (p) => el("code", { text: p.name }) },
        { title: "Given", cell: (p) => p.given },
        { title: "Used", wide: true, cell: (p) => withNote(p.used || p.given, p.why) },
      ],
      facts.parameters,
    ),
  );
  const longest = Math.max(...facts.timings.map((t) => t.seconds), 1e-9);
  const sum = facts.timings.reduce((a, t) => a + t.seconds, 0);
  byId("timings").append(
    plainTable(
      "Time per stage",
      [
        { title: "Stage", cell: (t) => t.stage },
        { title: "Seconds", number: true, value: (t) => t.seconds, cell: (t) => t.seconds.toFixed(2) },
        { title: "", wide: true, cell: (t) => (t.bar === false ? "" : el("span", { class: "bar", style: { width: `${(100 * t.seconds) / longest}%` } })) },
      ],
      [...facts.timings, { stage: "all", seconds: sum, bar: false }],
    ),
  );
  byId("versions").append(
    plainTable(
      "Versions",
      [
        { title: "Package", cell: (v) => v.name },
        { title: "Version", cell: (v) => v.version },
      ],
      facts.versions,
    ),
  );
}

// Paper is light, and everything on it is drawn before the printer looks.
let inked = null;
addEventListener("beforeprint", () => {
  inked = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  for (const redraw of redraws) redraw();
  for (const panel of allPanels) {
    if (!panel.image) panel.resize();
    // The canvas of names must not be touched now: Chromium would print it opaque.
    panel.paint();
  }
});
addEventListener("afterprint", () => {
  document.documentElement.dataset.theme = inked;
  for (const redraw of redraws) redraw();
});

buildHeader();
buildVerdict();
const colourBy = buildPicture();
buildEvidence();
if (facts.datasets[0].histogram) {
  show("confidence");
  drawConfidence(byId("confidence-chart"));
}
buildFeatures(colourBy);
buildHarmonics();
buildOthers();
buildRun();
document.documentElement.dataset.ready = "true";
