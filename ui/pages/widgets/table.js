// Rows of text: a click on a row selects it. A click on a heading sorts by its column, a second one reverses the
// order, a third one restores it. All cells are set as text, so model output is shown and never run.

export default function ({ data, parentElement: root, setTriggerValue }) {
  const said = JSON.stringify([data.head, data.rows, data.choosing]);
  if (root.tableShown !== said) {
    const heads = JSON.stringify(data.head);
    if (root.tableHeads !== heads) root.tableSorted = null;
    Object.assign(root, { tableShown: said, tableHeads: heads });
    build(root, data);
  }
  root.tableChoose = (place) => setTriggerValue("chosen", [place, data.shown]);
  const table = root.querySelector(".table");
  table.classList.toggle("framed", data.framed);
  table.style.maxHeight = `${data.height}rem`;
  for (const row of root.querySelectorAll("tbody tr")) {
    const chosen = Number(row.dataset.place) === data.chosen;
    row.classList.toggle("chosen", chosen);
    if (data.choosing && data.toggles) row.querySelector("button").setAttribute("aria-pressed", chosen);
  }
  root.querySelector("p").textContent = data.words;
}

function build(root, { head, rows, choosing }) {
  const line = document.createElement("tr");
  line.append(...head.map((column, at) => heading(root, column, at)));
  root.querySelector("thead").replaceChildren(line);
  const body = root.querySelector("tbody");
  body.replaceChildren(...rows.map((cells, place) => row(root, head, cells, place, choosing)));
  body.classList.toggle("choosing", choosing);
  if (root.tableSorted) sort(root);
}

function heading(root, [name, look, hint, wide], at) {
  const made = cell("th", look, wide);
  made.scope = "col";
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  if (hint) button.title = hint;
  button.addEventListener("click", () => {
    const now = root.tableSorted;
    if (now?.at !== at) root.tableSorted = { at, down: look === "number" };
    else root.tableSorted = now.down === (look === "number") ? { at, down: !now.down } : null;
    sort(root);
  });
  made.append(button);
  return made;
}

function row(root, head, cells, place, choosing) {
  const line = document.createElement("tr");
  line.dataset.place = place;
  line.append(...cells.map((text, at) => {
    const made = cell("td", head[at][1], head[at][3]);
    if (choosing && at === 0) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      made.append(button);
    } else made.textContent = text;
    if (head[at][1] !== "number" && text.length > 12) made.title = text;
    return made;
  }));
  if (choosing) {
    line.addEventListener("click", (event) => {
      if (event.detail > 1) return; // the second click of a double click
      const marking = !event.target.closest("button") && getSelection().toString();
      if (!marking) root.tableChoose(place); // no selection: marked text is for copying
    });
  }
  return line;
}

function cell(kind, look, wide) {
  const made = document.createElement(kind);
  made.className = wide ? `${look} wide` : look;
  return made;
}

function sort(root) {
  const { at, down } = root.tableSorted ?? {};
  const body = root.querySelector("tbody");
  const lines = [...body.children].sort((a, b) => a.dataset.place - b.dataset.place);
  if (at !== undefined) {
    const look = root.querySelectorAll("th")[at].classList[0];
    const valued = lines.map((line) => [value(line.children[at].textContent, look), line]);
    valued.sort(([a], [b]) => compare(a, b, down));
    lines.splice(0, lines.length, ...valued.map(([, line]) => line));
  }
  body.append(...lines);
  root.querySelectorAll("th").forEach((one, place) => {
    if (place === at) one.setAttribute("aria-sort", down ? "descending" : "ascending");
    else one.removeAttribute("aria-sort");
  });
}

function value(text, look) {
  if (look === "yes") return text ? 1 : 0;
  const read = Number.parseFloat(text.replace(/^</, "").replaceAll("\u2212", "-").replaceAll(",", ""));
  if (!Number.isNaN(read)) return read;
  return look === "number" || ["", "-"].includes(text) ? null : text;
}

function compare(a, b, down) {
  if (a === null || b === null) return (a === null) - (b === null); // missing values come last
  const texts = (typeof a === "string") - (typeof b === "string");
  const order = texts || (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
  return down ? -order : order;
}
