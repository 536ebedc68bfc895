// Drawings with few marks, as SVG: spectra, test, confidence, features. And matrices, as small images.

// A frame with axes; x and y map values to pixels.
function frame(width, height, { left = 46, right = 12, top = 10, bottom = 40, xRange, yRange, xTicks, yTicks, xTitle, yTitle, label }) {
  const x = (v) => left + ((v - xRange[0]) / (xRange[1] - xRange[0] || 1)) * (width - left - right);
  const y = (v) => height - bottom - ((v - yRange[0]) / (yRange[1] - yRange[0] || 1)) * (height - top - bottom);
  const root = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": label });
  for (const [v, text] of yTicks) {
    root.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
    root.append(svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end", text }));
  }
  for (const [v, text] of xTicks) root.append(svg("text", { x: x(v), y: height - bottom + 16, "text-anchor": "middle", text }));
  root.append(svg("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  root.append(svg("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle", text: xTitle }));
  if (yTitle) {
    const middle = (top + height - bottom) / 2;
    root.append(svg("text", { x: 12, y: middle, transform: `rotate(-90 12 ${middle})`, "text-anchor": "middle", text: yTitle }));
  }
  return { root, x, y };
}

// About `count` round numbers from low to high.
function ticks(low, high, count = 5) {
  if (!(high > low)) return [[low, short(low)]];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push([k * step, short(k * step)]);
  return found;
}

const line = (points) => points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];

function legendRow(names, withDash = true) {
  const row = el("div", { class: "legend" });
  names.slice(0, 30).forEach((name, i) => {
    const sign = svg(
      "svg",
      { width: 26, height: 12, "aria-hidden": "true" },
      svg("line", { x1: 1, x2: 25, y1: 6, y2: 6, "stroke-dasharray": withDash ? DASHES[i % DASHES.length] : "", style: { stroke: css(nameColour(i)), strokeWidth: "3" } }),
    );
    row.append(el("span", { class: "small" }, sign, ` ${limited(name)}  `));
  });
  return row;
}

function drawSpectra(container) {
  const { datasets, windows, bands } = facts.spectra;
  responsive(container, (width) => {
    const height = 280;
    const most = Math.max(...datasets.map((d) => d.length));
    const { root, x, y } = frame(width, height, {
      xRange: [0, 1],
      yRange: [0, most],
      xTicks: ticks(0, 1, width < 500 ? 4 : 8),
      yTicks: ticks(0, most, 5),
      xTitle: "frequency λ (1 is smoothest)",
      yTitle: "harmonic",
      label: `Frequencies of the harmonics of ${datasets.length} dataset(s) over ${bands} bands`,
    });
    windows.forEach((window, band) => {
      const curve = window.map((v, i) => [x(i / (window.length - 1)), y(0) - v * (y(0) - y(most))]);
      const path = svg("path", { d: `M${x(0)} ${y(0)}${line(curve).replace("M", "L")}L${x(1)} ${y(0)}Z` });
      Object.assign(path.style, { fill: band % 2 ? "var(--accent)" : "var(--muted)", opacity: "0.09" });
      root.append(path);
    });
    datasets.forEach((values, i) => {
      const curve = values.map((v, rank) => [x(v), y(rank + 1)]);
      root.append(svg("path", { d: line(curve), fill: "none", "stroke-dasharray": DASHES[i % DASHES.length], style: { stroke: css(nameColour(i)), strokeWidth: "2" } }));
      if (values.length <= 120) for (const [a, b] of curve) root.append(svg("circle", { cx: a, cy: b, r: 2, style: { fill: css(nameColour(i)) } }));
    });
    return el("div", {}, root, legendRow(facts.datasets.map((d) => d.name)));
  });
}

function drawNull(container, chosen) {
  return responsive(container, (width) => {
    const pair = chosen();
    const values = pair.null;
    const low = Math.min(...values, pair.observed);
    const high = Math.max(...values, pair.observed);
    const margin = 0.08 * (high - low || 1);
    const bins = 14;
    const from = Math.min(...values);
    const size = (Math.max(...values) - from) / bins || 1e-9;
    const counts = new Array(bins).fill(0);
    for (const v of values) counts[Math.min(bins - 1, Math.floor((v - from) / size))]++;
    const most = Math.max(...counts);
    const height = 200;
    const { root, x, y } = frame(width, height, {
      top: 26,
      xRange: [low - margin, high + margin],
      yRange: [0, most],
      xTicks: ticks(low - margin, high + margin, width < 420 ? 3 : 6),
      yTicks: ticks(0, most, 3).filter(([v]) => Number.isInteger(v)),
      xTitle: "agreement of the features",
      yTitle: "permutations",
      label: `Agreement ${short(pair.observed)} against ${values.length} permutations from ${short(from)} to ${short(Math.max(...values))}; z is ${short(pair.z)}`,
    });
    counts.forEach((count, b) => {
      if (!count) return;
      const a = x(from + b * size);
      root.append(svg("rect", { x: a, y: y(count), width: Math.max(1.5, x(from + (b + 1) * size) - a - 1), height: y(0) - y(count), style: { fill: "var(--missing)" } }));
    });
    const at = x(pair.observed);
    root.append(svg("line", { x1: at, x2: at, y1: 24, y2: y(0), style: { stroke: "var(--accent)", strokeWidth: "3" } }));
    const end = at > width / 2;
    root.append(svg("text", { class: "strong", x: at + (end ? 4 : -4), y: 16, "text-anchor": end ? "end" : "start", text: `observed, z = ${short(pair.z)}` }));
    return root;
  });
}

// One small histogram per dataset, all on one scale.
function drawConfidence(container) {
  const { datasets, lowConfidence } = facts;
  responsive(container, (width) => {
    const grid = el("div", { class: "two" });
    const most = Math.max(...datasets.flatMap((d) => d.histogram));
    const columns = width > 820 && datasets.length > 1 ? 2 : 1;
    const wide = columns === 2 ? Math.floor((width - 28) / 2) : width;
    datasets.forEach((data, i) => {
      const height = 150;
      const { root, x, y } = frame(wide, height, {
        top: 24,
        xRange: [0, 1],
        yRange: [0, most],
        xTicks: ticks(0, 1, 5),
        yTicks: ticks(0, most, 3).map(([v]) => [v, percent(v)]),
        xTitle: "confidence",
        label: `${data.name}: median confidence ${short(data.median)}, ${percent(data.low)} of rows below ${lowConfidence}`,
      });
      const step = 1 / data.histogram.length;
      data.histogram.forEach((share, b) => {
        if (share > 0) root.append(svg("rect", { x: x(b * step) + 0.5, y: y(share), width: x(step) - x(0) - 1, height: y(0) - y(share), style: { fill: css(nameColour(i)) } }));
      });
      root.append(svg("line", { x1: x(data.median), x2: x(data.median), y1: 20, y2: y(0), "stroke-dasharray": "4 3", style: { stroke: "var(--text)", strokeWidth: "1.5" } }));
      root.append(svg("text", { class: "strong", x: 46, y: 14, text: `${limited(data.name, wide < 420 ? 14 : 30)}: median ${short(data.median)}, ${percent(data.low)} below ${lowConfidence}` }));
      grid.append(el("div", {}, root));
    });
    return grid;
  });
}

// All features by rank; those that correspond stand out.
function drawFeatures(container, features) {
  responsive(container, (width) => {
    const order = [...features.scores.keys()].sort((a, b) => features.scores[b] - features.scores[a]);
    const low = Math.min(0, features.scores[order[order.length - 1]]);
    const height = 210;
    const { root, x, y } = frame(width, height, {
      xRange: [0.5, order.length + 0.5],
      yRange: [low, 1],
      xTicks: ticks(1, order.length, width < 500 ? 4 : 8).filter(([v]) => Number.isInteger(v)),
      yTicks: ticks(low, 1, 4),
      xTitle: "features by rank",
      yTitle: "agreement",
      label: `Agreement of ${order.length} features by rank, from ${short(features.scores[order[0]])} to ${short(features.scores[order[order.length - 1]])}`,
    });
    root.append(svg("line", { class: "axis", x1: x(0.5), x2: x(order.length + 0.5), y1: y(0), y2: y(0) }));
    const groups = [["", "var(--missing)"], ["", "var(--accent)"]];
    const thin = Math.max(1, ((width - 58) / order.length) * 0.8);
    // Very many features share pixels: draw at most one mark for each half pixel.
    const every = Math.max(1, Math.floor(order.length / (2 * width)));
    order.forEach((f, rank) => {
      if (rank % every) return;
      groups[features.selected[f] ? 1 : 0][0] += `M${x(rank + 1).toFixed(1)} ${y(0).toFixed(1)}V${y(features.scores[f]).toFixed(1)}`;
    });
    for (const [d, stroke] of groups) if (d) root.append(svg("path", { d, style: { stroke, strokeWidth: `${thin}` } }));
    const named = order.slice(0, width < 500 ? 3 : 8).map((f) => limited(features.names[f], 18)).join(", ");
    const caption = el("p", { class: "small muted" }, swatch("var(--accent)", 2), " corresponds  ", swatch("var(--missing)", 2), " not shown to correspond. ", `The first: ${named}.`);
    return el("div", {}, root, caption);
  });
}

function drawMatrices(container, pair) {
  container.replaceChildren(
    ...pair.matrices.map((matrix) => {
      const [rows, columns] = matrix.shape;
      const values = decode(matrix.data, Int8Array);
      const one = facts.datasets[pair.one].name;
      const other = facts.datasets[pair.other].name;
      const canvas = el("canvas", { class: "matrix", width: columns, height: rows, role: "img", "aria-label": `${matrix.title}, ${rows} by ${columns}: ${one} in rows, ${other} in columns` });
      const image = new ImageData(columns, rows);
      const pixels = new Uint32Array(image.data.buffer);
      for (let i = 0; i < values.length; i++) pixels[i] = packed(divergingColour(values[i] / 127));
      canvas.getContext("2d").putImageData(image, 0, 0);
      const tip = el("div", { class: "tip", hidden: true });
      canvas.addEventListener("pointermove", (event) => {
        const box = canvas.getBoundingClientRect();
        const j = Math.max(0, Math.min(columns - 1, Math.floor(((event.clientX - box.left) / box.width) * columns)));
        const i = Math.max(0, Math.min(rows - 1, Math.floor(((event.clientY - box.top) / box.height) * rows)));
        const value = values[i * columns + j] / 127;
        const sign = matrix.clipped && Math.abs(value) === 1 ? "beyond " : "";
        tip.replaceChildren(
          el("div", { text: `${sign}${short(value * matrix.limit)}` }),
          el("div", { text: `${limited(one, 24)}, harmonic ${i + 1}` }),
          el("div", { text: `${limited(other, 24)}, harmonic ${j + 1}` }),
        );
        tip.hidden = false;
        const right = event.clientX - box.left < box.width / 2;
        tip.style.left = right ? `${event.clientX - box.left + 14}px` : "auto";
        tip.style.right = right ? "auto" : `${box.right - event.clientX + 14}px`;
        tip.style.top = `${event.clientY - box.top + 10}px`;
      });
      canvas.addEventListener("pointerleave", () => (tip.hidden = true));
      const end = short(matrix.limit);
      return el(
        "figure",
        {},
        el("figcaption", { text: matrix.title }),
        el("div", { class: "field" }, canvas, tip),
        el("p", { class: "small muted" }, swatch(css(divergingColour(-1)), 2), ` ${matrix.clipped ? "≤ " : ""}−${end}  `, swatch(css(divergingColour(1)), 2), ` ${matrix.clipped ? "≥ " : ""}${end}`),
      );
    }),
  );
}
