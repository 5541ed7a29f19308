// A prompt's responses as a table; a click on a row asks to read it, a second one puts it away.
// All that stands in it is set as text, so whatever responses hold, it is shown and not run.

export default function ({ data, parentElement: root, setTriggerValue }) {
  const said = JSON.stringify([data.head, data.rows]);
  if (root.responsesShown !== said) {
    root.responsesShown = said;
    build(root, data);
  }
  root.responsesChoose = (place) => setTriggerValue("chosen", place);
  root.querySelectorAll("tbody tr").forEach((row, at) => {
    const chosen = at + 1 === data.chosen;
    row.classList.toggle("chosen", chosen);
    row.querySelector("button").setAttribute("aria-pressed", chosen);
  });
  root.querySelector("p").textContent = data.chosen ? "" : "Choose a response to read it.";
}

function build(root, { head, rows }) {
  const line = document.createElement("tr");
  line.append(...head.map(([name, hint]) => cell("th", name, hint)));
  root.querySelector("thead").replaceChildren(line);
  root.querySelector("tbody").replaceChildren(...rows.map((cells, at) => row(root, cells, at + 1)));
}

function row(root, [mark, ...others], place) {
  const line = document.createElement("tr");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = mark;
  const first = document.createElement("td");
  first.append(button);
  line.append(first, ...others.map((text) => cell("td", text)));
  line.addEventListener("click", () => {
    if (!getSelection().toString()) root.responsesChoose(place); // what is marked is to be copied
  });
  return line;
}

function cell(kind, text, hint = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  if (hint || kind === "td") made.title = hint || text;
  return made;
}
