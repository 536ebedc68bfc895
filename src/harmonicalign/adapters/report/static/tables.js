// Tables: plain ones, sorted by a press on a heading, and that of the features, which can be searched, too.

const collator = new Intl.Collator("en", { numeric: true });

// columns: [{ title, number, value(row) → what to sort by, cell(row) → text or element }]
function plainTable(caption, columns, rows) {
  const body = el("tbody");
  const line = (row) =>
    el(
      "tr",
      {},
      ...columns.map((c, k) => el(k ? "td" : "th", { scope: k ? null : "row", class: [c.number ? "number" : "", c.wide ? "wide" : ""].join(" ").trim() || null }, c.cell(row))),
    );
  const made = rows.map((row) => [row, line(row)]);
  body.append(...made.map(([, entry]) => entry));
  const head = el("tr", {});
  columns.forEach((c, k) => head.append(c.title ? sortable(c, k, made, body, head) : el("th", { scope: "col" })));
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "visually-hidden", text: caption }), el("thead", {}, head), body),
  );
}

// A heading that sorts: first as a reader expects (names up, numbers down), then the other way.
function sortable(column, k, made, body, head) {
  const button = el("button", { type: "button", text: column.title });
  const cell = el("th", { scope: "col", class: column.number ? "number" : null }, button);
  const key = ([row, entry]) => (column.value ? column.value(row) : entry.children[k].textContent);
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b)));
  button.addEventListener("click", () => {
    const before = cell.getAttribute("aria-sort");
    const falling = before ? before === "ascending" : Boolean(column.number);
    for (const other of head.children) {
      other.removeAttribute("aria-sort");
      const inside = other.querySelector("button");
      if (inside) inside.textContent = inside.textContent.replace(/ [▲▼]$/, "");
    }
    cell.setAttribute("aria-sort", falling ? "descending" : "ascending");
    button.textContent = `${column.title}${falling ? " ▼" : " ▲"}`;
    // What has no value stands at the end, whichever way it is sorted.
    const known = made.filter((m) => key(m) !== null);
    const rest = made.filter((m) => key(m) === null);
    known.sort((a, b) => (falling ? -1 : 1) * compare(key(a), key(b)));
    body.replaceChildren(...[...known, ...rest].map(([, entry]) => entry));
  });
  return cell;
}

class FeatureTable {
  constructor(features, colourBy) {
    this.features = features;
    this.colourBy = colourBy;
    this.page = 50;
    this.shown = this.page;
    this.columns = [
      { key: "name", title: "Feature", compare: (a, b) => this.names.compare(features.names[a], features.names[b]), cell: (f) => features.names[f] },
      { key: "score", title: "Agreement", number: true, falling: true, compare: (a, b) => features.scores[a] - features.scores[b], cell: (f) => signed(features.scores[f], 3) },
      { key: "p", title: "p", number: true, compare: (a, b) => features.p[a] - features.p[b], cell: (f) => short(features.p[f]) },
      { key: "selected", title: "Corresponds", falling: true, compare: (a, b) => features.selected[a] - features.selected[b], cell: (f) => (features.selected[f] ? "yes" : "no") },
    ];
    if (features.weights) {
      this.columns.splice(2, 0, { key: "weight", title: "Weight", number: true, falling: true, compare: (a, b) => features.weights[a] - features.weights[b], cell: (f) => features.weights[f].toFixed(3) });
    }
    this.names = collator;
    this.lower = features.names.map((name) => name.toLowerCase());
    this.sort = { column: this.columns[1], falling: true };
    this.body = el("tbody");
    this.head = el("tr", {}, ...this.columns.map((column) => this.header(column)));
    this.head.append(el("th", { scope: "col", class: "still", text: "Picture" }));
    byId("feature-table").append(el("caption", { class: "visually-hidden", text: "Agreement of the features" }), el("thead", {}, this.head), this.body);
    byId("feature-search").addEventListener("input", () => this.update(true));
    byId("feature-only").addEventListener("change", () => this.update(true));
    byId("feature-more").addEventListener("click", () => {
      this.shown += 4 * this.page;
      this.update(false);
    });
    this.update(true);
  }

  header(column) {
    const button = el("button", {
      type: "button",
      onclick: () => {
        const again = this.sort.column === column;
        this.sort = { column, falling: again ? !this.sort.falling : Boolean(column.falling) };
        this.update(true);
      },
    });
    const cell = el("th", { scope: "col", class: column.number ? "number" : null }, button);
    column.button = button;
    column.header = cell;
    return cell;
  }

  update(fromStart) {
    if (fromStart) this.shown = this.page;
    const wanted = byId("feature-search").value.trim().toLowerCase();
    const only = byId("feature-only").checked;
    const { names, selected } = this.features;
    const found = [];
    for (let f = 0; f < names.length; f++) if ((!only || selected[f]) && this.lower[f].includes(wanted)) found.push(f);
    const { column, falling } = this.sort;
    // Equal ones stay in the order of the data, whichever way it is sorted.
    found.sort((a, b) => (falling ? -1 : 1) * column.compare(a, b) || a - b);
    for (const c of this.columns) {
      const on = c === column;
      c.button.textContent = `${c.title}${on ? (falling ? " ▼" : " ▲") : ""}`;
      if (on) c.header.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else c.header.removeAttribute("aria-sort");
    }
    this.body.replaceChildren(...found.slice(0, this.shown).map((f) => this.row(f)));
    byId("feature-count").textContent = `${whole(found.length)} of ${whole(names.length)} features`;
    const more = byId("feature-more");
    more.hidden = found.length <= this.shown;
    more.textContent = `Show more (${whole(Math.max(0, found.length - this.shown))} left)`;
  }

  row(f) {
    const cells = this.columns.map((c, k) => el(k ? "td" : "th", { scope: k ? null : "row", class: c.number ? "number" : null, text: c.cell(f) }));
    const picture = el("td");
    if (this.colourBy.has(f)) picture.append(el("button", { type: "button", text: "colour", "aria-label": `Colour the picture by ${this.features.names[f]}`, onclick: () => this.colourBy.show(f) }));
    return el("tr", {}, ...cells, picture);
  }
}
