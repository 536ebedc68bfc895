// Facts, and small helpers to turn them into elements. All text enters the page as text, never as markup.

const facts = JSON.parse(document.getElementById("facts").textContent);
const byId = (id) => document.getElementById(id);

function decode(text, Type) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return Type === Uint8Array ? bytes : new Type(bytes.buffer);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") element.textContent = value;
    else if (name === "style") Object.assign(element.style, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const whole = (n) => n.toLocaleString("en");

function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 0.001 || size >= 1e6) ? value.toExponential(1) : String(Number(value.toPrecision(3)));
  return text.replace(/-/g, "−");
}

const signed = (value, digits = 2) => value.toFixed(digits).replace("-", "−");
const percent = (value) => `${Math.round(100 * value)}\u00a0%`;

function limited(text, most = 40) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

// Calls draw(width) now, and again whenever the container's width or the theme changes.
const redraws = [];
function responsive(container, draw) {
  let last = 0;
  const run = (force) => {
    const width = Math.floor(container.clientWidth);
    if (width > 0 && (force || width !== last)) {
      last = width;
      container.replaceChildren(draw(width));
    }
  };
  new ResizeObserver(() => run(false)).observe(container);
  redraws.push(() => run(true));
  run(true);
  return () => run(true);
}

// Values of a column, decoded when first asked for.
function codes(column) {
  column.codes ??= decode(column.data, column.bits === 16 ? Uint16Array : Uint8Array);
  return column.codes;
}
const missingCode = (column) => 2 ** column.bits - 1;

function valueText(column, i) {
  const code = codes(column)[i];
  if (code === missingCode(column)) return "missing";
  if (column.kind === "category") return column.names[code];
  const top = missingCode(column) - 1;
  const value = short(column.low + ((column.high - column.low) * code) / top);
  if (code === 0 && column.clipped[0]) return `≤ ${value}`;
  if (code === top && column.clipped[1]) return `≥ ${value}`;
  return value;
}
