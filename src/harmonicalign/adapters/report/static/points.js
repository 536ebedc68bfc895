// What is drawn: every point's dataset, colour, order and whether it shows. The panels draw from here.

class Points {
  constructor(given) {
    this.n = given.n;
    this.columns = given.columns;
    this.dataset = new (given.counts.length > 255 ? Uint16Array : Uint8Array)(this.n);
    this.first = [];
    let start = 0;
    given.counts.forEach((count, i) => {
      this.first.push(start);
      this.dataset.fill(i, start, start + count);
      start += count;
    });
    this.rows = given.rows ? decode(given.rows, Uint32Array) : null;
    this.shown = given.counts.map(() => true);
    this.column = null;
    this.categoryShown = [];
    this.spotlight = null;
    this.colours = new Uint32Array(this.n);
    this.visible = new Uint8Array(this.n).fill(1);
    // A fixed shuffle: no dataset is drawn on top of another, and the picture is always the same.
    this.shuffled = new Uint32Array(this.n);
    let seed = 12345;
    for (let i = 0; i < this.n; i++) {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      const j = Math.floor((seed / 4294967296) * (i + 1));
      this.shuffled[i] = this.shuffled[j];
      this.shuffled[j] = i;
    }
    this.order = this.shuffled;
  }

  row(i) {
    return this.rows ? this.rows[i] : i - this.first[this.dataset[i]];
  }

  colourBy(column) {
    this.column = column;
    this.categoryShown = column && column.kind === "category" ? column.names.map(() => true) : [];
    this.spotlight = null;
    this.refresh();
  }

  // Colours, visibility and order after anything changed.
  refresh() {
    const { n, column, dataset, colours, visible } = this;
    const missing = packed(parts(themed("missing")));
    const dim = packed(parts(themed("dim")));
    if (!column) {
      const palette = this.shown.map((_, d) => packed(nameColour(d)));
      for (let i = 0; i < n; i++) colours[i] = palette[dataset[i]];
    } else {
      const values = codes(column);
      const last = missingCode(column);
      const size = column.kind === "category" ? column.names.length : last;
      const palette = new Uint32Array(last + 1).fill(missing);
      for (let c = 0; c < size; c++) palette[c] = packed(column.kind === "category" ? nameColour(c) : rampColour(c / (last - 1)));
      for (let i = 0; i < n; i++) colours[i] = palette[values[i]];
    }
    const inGroup = this.groupTest();
    const values = column && column.kind === "category" ? codes(column) : null;
    for (let i = 0; i < n; i++) {
      visible[i] = this.shown[dataset[i]] && (!values || this.categoryShown[values[i]] !== false) ? 1 : 0;
      if (inGroup && !inGroup(i)) colours[i] = dim;
    }
    this.order = this.drawingOrder(inGroup);
  }

  groupTest() {
    if (!this.spotlight) return null;
    const { kind, index } = this.spotlight;
    if (kind === "dataset") return (i) => this.dataset[i] === index;
    const values = codes(this.column);
    return (i) => values[i] === index;
  }

  // Later is on top: the spotlit group, large quantities, rows of low confidence.
  drawingOrder(inGroup) {
    const { n, column, shuffled } = this;
    if (inGroup) return this.sortedBy((i) => (inGroup(i) ? 1 : 0), 2);
    if (!column) return shuffled;
    const values = codes(column);
    const last = missingCode(column);
    if (column.kind === "category") return this.sortedBy((i) => (values[i] === last ? 0 : 1), 2);
    const turned = column.group === "confidence";
    return this.sortedBy((i) => (values[i] === last ? 0 : 1 + (turned ? last - 1 - values[i] : values[i])), last + 1);
  }

  // Counting sort of the shuffled points.
  sortedBy(key, size) {
    const starts = new Uint32Array(size + 1);
    for (let i = 0; i < this.n; i++) starts[key(i) + 1]++;
    for (let k = 0; k < size; k++) starts[k + 1] += starts[k];
    const out = new Uint32Array(this.n);
    for (let k = 0; k < this.n; k++) {
      const i = this.shuffled[k];
      out[starts[key(i)]++] = i;
    }
    return out;
  }

  describe(i) {
    const lines = [`${facts.datasets[this.dataset[i]].name}, row ${whole(this.row(i))}`];
    for (const column of this.columns) {
      if (column.group !== "feature" || column === this.column) lines.push(`${column.name}: ${valueText(column, i)}`);
    }
    return lines;
  }
}

// Points of one layout in cells, to find the nearest quickly.
class Grid {
  constructor(xy, side = 128) {
    this.xy = xy;
    this.side = side;
    this.cell = 65536 / side;
    const n = xy.length / 2;
    this.starts = new Uint32Array(side * side + 1);
    const cellOf = new Uint32Array(n);
    for (let i = 0; i < n; i++) {
      cellOf[i] = Math.floor(xy[2 * i + 1] / this.cell) * side + Math.floor(xy[2 * i] / this.cell);
      this.starts[cellOf[i] + 1]++;
    }
    for (let c = 0; c < side * side; c++) this.starts[c + 1] += this.starts[c];
    this.items = new Uint32Array(n);
    const next = this.starts.slice();
    for (let i = 0; i < n; i++) this.items[next[cellOf[i]]++] = i;
  }

  // The nearest visible point within a radius, or −1.
  nearest(x, y, radius, visible) {
    const { side, cell, xy } = this;
    const clamp = (v) => Math.max(0, Math.min(side - 1, Math.floor(v / cell)));
    let best = -1;
    let least = radius * radius;
    for (let row = clamp(y - radius); row <= clamp(y + radius); row++) {
      for (let c = row * side + clamp(x - radius); c <= row * side + clamp(x + radius); c++) {
        for (let k = this.starts[c]; k < this.starts[c + 1]; k++) {
          const i = this.items[k];
          if (!visible[i]) continue;
          const d = (xy[2 * i] - x) ** 2 + (xy[2 * i + 1] - y) ** 2;
          if (d <= least) {
            least = d;
            best = i;
          }
        }
      }
    }
    return best;
  }
}
