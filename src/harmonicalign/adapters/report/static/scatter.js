// One panel: a canvas that points are painted on pixel by pixel, and one above it for rings and names.

class Scatter {
  constructor(panel, points, events) {
    this.panel = panel;
    this.points = points;
    this.events = events;
    this.sizeFactor = 1;
    this.marked = -1;
    this.withNames = false;
    this.layouts = new Map();
    this.canvas = el("canvas", { class: "points", tabindex: "0", role: "application", "aria-label": `${panel.title}: picture of ${whole(points.n)} rows. Arrows move, plus and minus zoom, 0 shows everything.` });
    this.marks = el("canvas", { class: "marks", "aria-hidden": "true" });
    this.tip = el("div", { class: "tip", hidden: true });
    this.stage = el("div", { class: "stage" }, this.canvas, this.marks, this.tip);
    const button = (text, name, action) => el("button", { type: "button", text, "aria-label": `${name}: ${panel.title}`, title: name, onclick: action });
    this.figure = el(
      "figure",
      { class: "panel" },
      el(
        "figcaption",
        {},
        el("span", { text: panel.title }),
        el(
          "span",
          { class: "zoom" },
          button("+", "Zoom in", () => this.zoom(1.5)),
          button("−", "Zoom out", () => this.zoom(1 / 1.5)),
          button("⤢", "Show everything", () => this.reset()),
        ),
      ),
      this.stage,
    );
    this.useLayout(panel.layouts[0].name);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.stage);
  }

  useLayout(name) {
    const layout = this.panel.layouts.find((l) => l.name === name) || this.panel.layouts[0];
    if (!this.layouts.has(layout.name)) {
      const xy = decode(layout.data, Uint16Array);
      this.layouts.set(layout.name, { xy, grid: new Grid(xy), anchors: new Map() });
    }
    this.layout = this.layouts.get(layout.name);
    this.reset();
  }

  resize() {
    // On paper the picture is scaled, as nothing could be drawn anew there.
    if (this.image && matchMedia("print").matches) return;
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.round(this.stage.clientWidth * ratio);
    const height = Math.round(this.stage.clientHeight * ratio);
    if (!width || !height || (width === this.canvas.width && height === this.canvas.height)) return;
    const first = !this.image;
    for (const canvas of [this.canvas, this.marks]) {
      canvas.width = width;
      canvas.height = height;
    }
    this.ratio = ratio;
    // Every pixel is set by hand, so the picture had better lie in plain memory.
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    this.image = this.context.createImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    if (first || !this.moved) this.reset();
    this.schedule();
  }

  // Everything in view, with a margin, whatever the shape of the stage.
  reset() {
    this.moved = false;
    if (!this.image) return;
    const { width, height } = this.canvas;
    const { xy } = this.layout;
    let right = 1;
    let top = 1;
    for (let i = 0; i < xy.length; i += 2) {
      if (xy[i] > right) right = xy[i];
      if (xy[i + 1] > top) top = xy[i + 1];
    }
    this.scale = 0.92 * Math.min(width / right, height / top);
    this.fit = this.scale;
    this.left = (width - right * this.scale) / 2;
    this.bottom = (height + top * this.scale) / 2;
    this.schedule();
  }

  zoom(factor, x = this.canvas.width / 2, y = this.canvas.height / 2) {
    const next = Math.max(this.fit * 0.5, Math.min(this.fit * 200, this.scale * factor));
    const change = next / this.scale;
    this.left = x - (x - this.left) * change;
    this.bottom = y - (y - this.bottom) * change;
    this.scale = next;
    this.moved = true;
    this.schedule();
  }

  pan(dx, dy) {
    this.left += dx;
    this.bottom += dy;
    this.moved = true;
    this.schedule();
  }

  schedule() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      if (this.image) this.draw();
    });
  }

  radius() {
    const { width, height } = this.canvas;
    const room = Math.sqrt((width * height) / Math.max(1, this.points.n));
    const base = Math.max(0.95 * this.ratio, Math.min(4.2 * this.ratio, 0.24 * room));
    return base * this.sizeFactor * Math.min(3, Math.max(1, this.scale / this.fit) ** 0.35);
  }

  // Pixels of each mark around its middle, with how much of the pixel it covers.
  stamps(radius) {
    const key = `${radius.toFixed(2)} ${this.canvas.width}`;
    if (this.stampKey === key) return this.stampSet;
    const width = this.canvas.width;
    const reach = Math.ceil(radius * 1.15 + 0.5);
    // Below this size the forms cannot be told apart, and only a disc looks tidy.
    const shapes = radius >= 2.4 * this.ratio ? SHAPES : [SHAPES[0]];
    this.stampSet = shapes.map(({ inside }) => {
      const offsets = [];
      const cover = [];
      for (let y = -reach; y <= reach; y++) {
        for (let x = -reach; x <= reach; x++) {
          let hits = 0;
          for (let a = 0; a < 16; a++) {
            const px = (x + ((a & 3) - 1.5) / 4) / radius;
            const py = (y + ((a >> 2) - 1.5) / 4) / radius;
            if (inside(px, py)) hits++;
          }
          if (hits) {
            offsets.push(y * width + x);
            cover.push(hits * 16);
          }
        }
      }
      return { offsets: Int32Array.from(offsets), cover: Uint16Array.from(cover) };
    });
    this.stampSet.reach = reach;
    this.stampKey = key;
    return this.stampSet;
  }

  draw() {
    const begun = performance.now();
    const drawn = this.paint();
    this.drawMarks();
    this.canvas.dataset.points = drawn;
    this.canvas.dataset.milliseconds = (performance.now() - begun).toFixed(1);
  }

  // The points alone; says how many are in sight.
  paint() {
    const { pixels, points, scale, left, bottom } = this;
    const { width, height } = this.canvas;
    const { order, visible, colours, dataset } = points;
    const { xy } = this.layout;
    pixels.fill(packed(parts(themed("surface"))));
    const stamps = this.stamps(this.radius());
    const reach = stamps.reach;
    let drawn = 0;
    for (let k = 0; k < order.length; k++) {
      const i = order[k];
      if (!visible[i]) continue;
      drawn++;
      const x = (left + xy[2 * i] * scale + 0.5) | 0;
      const y = (bottom - xy[2 * i + 1] * scale + 0.5) | 0;
      if (x < reach || y < reach || x >= width - reach || y >= height - reach) continue;
      const { offsets, cover } = stamps[dataset[i] % stamps.length];
      const colour = colours[i];
      const middle = y * width + x;
      for (let s = 0; s < offsets.length; s++) {
        const at = middle + offsets[s];
        const part = cover[s];
        if (part === 256) {
          pixels[at] = colour;
        } else {
          // Red and blue together, then green: two products blend all three.
          const old = pixels[at];
          const rb = (((colour & 0xff00ff) * part + (old & 0xff00ff) * (256 - part)) >>> 8) & 0xff00ff;
          const g = (((colour & 0xff00) * part + (old & 0xff00) * (256 - part)) >>> 8) & 0xff00;
          pixels[at] = 0xff000000 | rb | g;
        }
      }
    }
    this.context.putImageData(this.image, 0, 0);
    return drawn;
  }

  place(i) {
    const { xy } = this.layout;
    return [this.left + xy[2 * i] * this.scale, this.bottom - xy[2 * i + 1] * this.scale];
  }

  drawMarks() {
    const pen = this.marks.getContext("2d");
    pen.clearRect(0, 0, this.marks.width, this.marks.height);
    if (this.withNames) this.drawNames(pen);
    if (this.marked < 0) return;
    const [x, y] = this.place(this.marked);
    const radius = this.radius() + 5 * this.ratio;
    for (const [colour, thick] of [["surface", 5], ["text", 2]]) {
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.lineWidth = thick * this.ratio;
      pen.strokeStyle = themed(colour);
      pen.stroke();
    }
  }

  drawNames(pen) {
    const { column, categoryShown: on } = this.points;
    const { names } = column;
    pen.font = `600 ${13 * this.ratio}px system-ui, sans-serif`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    this.anchors(column, names.length).forEach((anchor, c) => {
      if (!anchor || !on[c]) return;
      const text = limited(names[c], 24);
      const half = pen.measureText(text).width / 2 + 4 * this.ratio;
      const x = this.left + anchor[0] * this.scale;
      const y = this.bottom - anchor[1] * this.scale;
      if (x < 0 || y < 0 || x > this.marks.width || y > this.marks.height) return;
      const inside = Math.max(half, Math.min(this.marks.width - half, x));
      pen.lineWidth = 4 * this.ratio;
      pen.strokeStyle = themed("surface");
      pen.strokeText(text, inside, y);
      pen.fillStyle = themed("text");
      pen.fillText(text, inside, y);
    });
  }

  // Where the name of each group stands: the middle of its densest part, so that it always lies on the group.
  anchors(column, size) {
    if (this.layout.anchors.has(column)) return this.layout.anchors.get(column);
    const values = codes(column);
    const { xy } = this.layout;
    const side = 20;
    const tally = new Float64Array(size * side * side * 3);
    for (let i = 0; i < values.length; i++) {
      if (values[i] >= size) continue;
      const cell = Math.floor((xy[2 * i + 1] / 65536) * side) * side + Math.floor((xy[2 * i] / 65536) * side);
      const at = (values[i] * side * side + cell) * 3;
      tally[at]++;
      tally[at + 1] += xy[2 * i];
      tally[at + 2] += xy[2 * i + 1];
    }
    const found = [];
    for (let c = 0; c < size; c++) {
      let best = -1;
      for (let cell = 0; cell < side * side; cell++) {
        const at = (c * side * side + cell) * 3;
        if (tally[at] > 0 && (best < 0 || tally[at] > tally[best])) best = at;
      }
      found.push(best < 0 ? null : [tally[best + 1] / tally[best], tally[best + 2] / tally[best]]);
    }
    this.layout.anchors.set(column, found);
    return found;
  }

  // The point near a place of the canvas (in canvas pixels), or −1.
  pick(x, y, within) {
    return this.layout.grid.nearest((x - this.left) / this.scale, (this.bottom - y) / this.scale, within / this.scale, this.points.visible);
  }

  mark(i, withTip) {
    this.marked = i;
    if (this.image) this.drawMarks();
    this.tip.hidden = i < 0 || !withTip;
    if (this.tip.hidden) return;
    this.tip.replaceChildren(...this.points.describe(i).map((line) => el("div", { text: line })));
    const [x, y] = this.place(i).map((v) => v / this.ratio);
    const { offsetWidth: wide, offsetHeight: high } = this.tip;
    const { clientWidth, clientHeight } = this.stage;
    const gap = 14;
    const besides = x + gap + wide > clientWidth ? x - gap - wide : x + gap;
    this.tip.style.left = `${Math.max(2, Math.min(clientWidth - wide - 2, besides))}px`;
    this.tip.style.top = `${Math.max(2, Math.min(clientHeight - high - 2, y - high / 2))}px`;
  }

  listen() {
    const { canvas } = this;
    const touches = new Map();
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [(event.clientX - box.left) * this.ratio, (event.clientY - box.top) * this.ratio];
    };
    canvas.addEventListener("pointerdown", (event) => {
      touches.set(event.pointerId, at(event));
      canvas.setPointerCapture(event.pointerId);
      if (event.pointerType !== "mouse") this.events.hover(this, this.pick(...at(event), 22 * this.ratio));
    });
    canvas.addEventListener("pointermove", (event) => {
      const here = at(event);
      const before = touches.get(event.pointerId);
      if (!before) {
        if (event.pointerType === "mouse") this.events.hover(this, this.pick(...here, 12 * this.ratio));
        return;
      }
      if (touches.size === 1) {
        this.pan(here[0] - before[0], here[1] - before[1]);
      } else {
        const other = [...touches].find(([id]) => id !== event.pointerId)[1];
        const middle = [(here[0] + other[0]) / 2, (here[1] + other[1]) / 2];
        const spread = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
        this.pan((here[0] - before[0]) / 2, (here[1] - before[1]) / 2);
        this.zoom(spread(here) / spread(before), ...middle);
      }
      this.events.hover(this, -1);
      touches.set(event.pointerId, here);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => touches.delete(event.pointerId));
    canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") this.events.hover(this, -1);
    });
    // The wheel scrolls the page until someone has clicked into the picture.
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (document.activeElement !== canvas && !event.ctrlKey) return;
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), ...at(event));
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.events.hover(this, -1));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = 0.12 * Math.min(this.canvas.width, this.canvas.height);
    const actions = {
      ArrowLeft: () => this.pan(step, 0),
      ArrowRight: () => this.pan(-step, 0),
      ArrowUp: () => this.pan(0, step),
      ArrowDown: () => this.pan(0, -step),
      "+": () => this.zoom(1.4),
      "=": () => this.zoom(1.4),
      "-": () => this.zoom(1 / 1.4),
      0: () => this.reset(),
      Home: () => this.reset(),
    };
    if (event.key === "Escape") {
      this.events.hover(this, -1);
      return;
    }
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
    const { width, height } = this.canvas;
    const found = this.pick(width / 2, height / 2, Math.max(width, height));
    this.events.hover(this, found);
    this.events.say(found);
  }
}
