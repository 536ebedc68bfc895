// Colours that colour-blind readers can tell apart: Okabe and Ito's for names, then Tol's; viridis for quantities.

const NAMED = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#4d4d4d", "#332288", "#999933", "#882255", "#ddcc77", "#117733", "#cc6677", "#aa4499"];
const VIRIDIS = ["#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70", "#7ad151", "#bddf26", "#fde725"];

const isDark = () => document.documentElement.dataset.theme === "dark";
const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function parts(hex) {
  const number = parseInt(hex.slice(1), 16);
  return [number >> 16, (number >> 8) & 255, number & 255];
}
const mix = (a, b, share) => a.map((v, i) => v + (b[i] - v) * share);
const css = (rgb) => `rgb(${rgb.map(Math.round).join(" ")})`;
// A pixel as one number; image data is red, green, blue, alpha in rising bytes.
const packed = (rgb) => (255 << 24 | Math.round(rgb[2]) << 16 | Math.round(rgb[1]) << 8 | Math.round(rgb[0])) >>> 0;

// The i-th colour for names: the palette, then lighter and darker forms of it. Dark ones are lifted off a dark page.
function nameColour(i) {
  let rgb = parts(NAMED[i % NAMED.length]);
  const white = [255, 255, 255];
  const light = (0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2]) / 255;
  if (isDark()) rgb = mix(rgb, white, light < 0.35 ? 0.45 : 0.1);
  const round = Math.floor(i / NAMED.length) % 3;
  if (round === 1) return mix(rgb, isDark() ? [0, 0, 0] : white, 0.4);
  if (round === 2) return mix(rgb, isDark() ? white : [0, 0, 0], 0.45);
  return rgb;
}

// Quantities: large ones stand out against the page, dark on light and light on dark.
function rampColour(share) {
  const reach = isDark() ? 0.14 + 0.86 * share : 0.93 * (1 - share);
  const place = reach * (VIRIDIS.length - 1);
  const low = Math.min(Math.floor(place), VIRIDIS.length - 2);
  return mix(parts(VIRIDIS[low]), parts(VIRIDIS[low + 1]), place - low);
}

// From blue through the colour of the page to orange, for values around zero.
function divergingColour(value) {
  const middle = parts(themed("surface"));
  const end = parts(value < 0 ? (isDark() ? "#5fb0f0" : "#0b5394") : isDark() ? "#ff9d4d" : "#b34700");
  return mix(middle, end, Math.min(1, Math.abs(value)) ** 0.7);
}

// One mark per dataset, so that colour is not all that tells them apart. Inside(x, y) for a unit radius.
const SHAPES = [
  { inside: (x, y) => x * x + y * y <= 1, path: "M7 1.6a5.4 5.4 0 1 0 .01 0z" },
  { inside: (x, y) => y <= 0.75 && y >= 1.75 * Math.abs(x) - 1.05, path: "M7 1.2 13 11.8H1z" },
  { inside: (x, y) => Math.abs(x) <= 0.85 && Math.abs(y) <= 0.85, path: "M2.3 2.3h9.4v9.4H2.3z" },
  { inside: (x, y) => Math.abs(x) + Math.abs(y) <= 1.15, path: "M7 .6 13.4 7 7 13.4.6 7z" },
  { inside: (x, y) => y >= -0.75 && y <= 1.05 - 1.75 * Math.abs(x), path: "M7 12.8 1 2.2h12z" },
  { inside: (x, y) => (Math.abs(x) <= 0.4 || Math.abs(y) <= 0.4) && Math.max(Math.abs(x), Math.abs(y)) <= 1.05, path: "M5 1h4v4h4v4H9v4H5V9H1V5h4z" },
];

function swatch(colour, shape = 0) {
  return svg(
    "svg",
    { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" },
    svg("path", { d: SHAPES[shape % SHAPES.length].path, style: { fill: colour } }),
  );
}
