// Listens for the keys of the review queue. It shows one of the items that the server has drawn and reports that
// item with each key. Keys are numbered and sent again until the server acknowledges them.

const AGAIN_MS = 3000;
const MORE_MS = 700;
const NAME_FIELD = ".st-key-bound-reviewer";
const SLOT = "st-key-review-slot-";

// Streamlit calls this at every change of the data, and cleans up after earlier calls at any time.
export default function (component) {
  const root = component.parentElement;
  const state = (root.reviewState ??= begin(root));
  const call = ++state.calls;
  state.send = (value) => component.setStateValue("keys", value);
  listen(state);
  take(state, component.data);
  return () => {
    if (call === state.calls) leave(state);
  };
}

function listen(state) {
  if (state.listening) return;
  state.listening = true;
  document.addEventListener("keydown", state.onKey, true);
  window.addEventListener("beforeunload", state.onUnload);
  document.head.append(state.style);
  document.documentElement.dataset.reviewReady = "1";
  const focused = document.activeElement;
  if (isName(focused)) focused.blur(); // the name is entered, so keys are decisions now
}

function isName(element) {
  return element?.tagName === "INPUT" && element.closest(NAME_FIELD) !== null;
}

function leave(state) {
  state.listening = false;
  document.removeEventListener("keydown", state.onKey, true);
  window.removeEventListener("beforeunload", state.onUnload);
  clearTimeout(state.timer);
  state.style.remove();
  delete document.documentElement.dataset.reviewReady;
}

function begin(root) {
  const state = {
    client: Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16)).join(""),
    pending: [], // pressed but not acknowledged
    seq: 0,
    sent: 0, // the highest number sent
    tries: 0,
    at: 0,
    marks: {}, // keys pressed here, by item
    note: "",
    style: document.createElement("style"),
    root,
    buttons: null,
    calls: 0,
    listening: false,
  };
  state.onKey = (event) => (root.isConnected ? heard(state, event) : leave(state));
  state.onUnload = (event) => state.pending.length && event.preventDefault();
  const form = root.querySelector("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    finishWords(state);
  });
  form.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") closeWords(state);
  });
  form.querySelector(".cancel").addEventListener("click", () => closeWords(state));
  return state;
}

// The server's state is the truth; keys that it has not handled yet are applied on top.
function take(state, data) {
  const handled = data.heard[state.client] ?? 0;
  state.pending = state.pending.filter((event) => event.seq > handled);
  if (state.data && data.refused > state.data.refused) {
    state.note = "A key was not taken: another item was on the screen.";
  }
  state.data = data;
  state.at = state.pending.reduce((at, event) => moved(state, at, event.letter), data.at);
  if (handled >= state.sent) state.sent = 0;
  buildButtons(state);
  draw(state);
  clearTimeout(state.timer);
  if (state.sent) wait(state);
  else if (state.pending.length) send(state);
  else if (data.more) state.timer = setTimeout(() => send(state, true), MORE_MS);
}

function moved(state, at, letter) {
  const undoes = state.data.keys.find((key) => key.letter === letter)?.act === "undo";
  return undoes ? Math.max(0, at - 1) : at + 1;
}

// One message at a time: a second one would end the script run that answers the first. The first items are sent
// alone, so that they arrive soon; a message without keys requests the next ones.
function send(state, more = false) {
  if (state.sent || !(more || state.pending.length)) return;
  state.sent = state.pending.at(-1)?.seq ?? 0;
  state.tries += 1;
  state.send({ client: state.client, tries: state.tries, events: [...state.pending] });
  if (state.sent) wait(state);
}

function wait(state) {
  clearTimeout(state.timer);
  state.timer = setTimeout(() => {
    state.sent = 0;
    send(state);
  }, AGAIN_MS);
}

function heard(state, event) {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const target = event.composedPath()[0];
  if (event.key === "Enter" && isName(target)) setTimeout(() => target.blur());
  if (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return;
  if (!state.root.querySelector("form").hidden) return;
  const latin = /^[a-z]$/i.test(event.key);
  const letter = latin ? event.key.toUpperCase() : event.key > "\x7f" ? event.code.replace("Key", "") : "";
  if (state.data.keys.some((key) => key.letter === letter)) {
    event.preventDefault();
    press(state, letter);
  }
}

// The item on the screen: undefined until it is fully drawn, "" after the last one.
function shown(state) {
  if (state.at >= state.data.total) return "";
  const item = state.data.items[state.at - state.data.first];
  const slot = item && document.querySelector(`.${SLOT}${item}`);
  return slot && slot.textContent.includes(item) ? item : undefined;
}

function press(state, letter) {
  const key = state.data.keys.find((one) => one.letter === letter);
  const item = shown(state);
  state.note = "";
  if (item === undefined) {
    state.note = "The next item is still loading; the key was ignored.";
  } else if (key.act === "undo" ? state.at === 0 : item === "") {
    state.note = key.act === "undo" ? "This is the first item." : "";
  } else if (key.act.endsWith("in words")) {
    openWords(state, item, key);
  } else {
    push(state, item, letter, "");
  }
  draw(state);
}

function push(state, item, letter, words) {
  const act = state.data.keys.find((key) => key.letter === letter).act;
  state.seq += 1;
  state.pending.push({ seq: state.seq, item, letter, words });
  if (act.startsWith("accept")) state.marks[item] = "accepted";
  else if (act.startsWith("reject")) state.marks[item] = "rejected";
  state.at = moved(state, state.at, letter);
  if (act === "undo" && state.data.writes) takeBack(state);
  draw(state);
  send(state);
}

// The server withdraws the decision on the item that is shown again.
function takeBack(state) {
  const item = state.data.items[state.at - state.data.first];
  const mark = state.marks[item] ?? state.data.marks[item];
  if (mark === "accepted" || mark === "rejected") state.note = `Undone: you had ${mark} this one.`;
  delete state.marks[item];
  delete state.data.marks[item];
}

function openWords(state, item, key) {
  const form = state.root.querySelector("form");
  const accepts = key.act.startsWith("accept");
  state.saying = { item, letter: key.letter };
  form.elements.words.placeholder = `${accepts ? "Comment" : "Reason"}, then Enter`;
  form.elements.words.setAttribute("aria-label", accepts ? "Comment on accepting" : "Reason for the rejection");
  form.querySelector("[type=submit]").textContent = accepts ? "Accept" : "Reject";
  form.hidden = false;
  form.elements.words.value = "";
  form.elements.words.focus();
}

function closeWords(state) {
  state.root.querySelector("form").hidden = true;
  state.root.querySelector("input").blur();
}

function finishWords(state) {
  const words = state.root.querySelector("input").value.trim();
  if (!words) return;
  closeWords(state);
  push(state, state.saying.item, state.saying.letter, words);
}

function buildButtons(state) {
  if (state.buttons) return;
  const bar = state.root.querySelector(".keys");
  state.buttons = state.data.keys.map((key) => {
    const button = document.createElement("button");
    const letter = document.createElement("kbd");
    button.type = "button";
    button.className = key.act.split(" ")[0];
    button.title = key.reason || key.label;
    const label = document.createElement("span");
    letter.textContent = key.letter;
    label.textContent = key.label;
    button.append(letter, label);
    button.addEventListener("click", (event) => {
      if (event.detail) button.blur(); // otherwise the space bar would press it again
      press(state, key.letter);
    });
    bar.append(button);
    return button;
  });
}

function draw(state) {
  const { data, at } = state;
  const item = at < data.total ? (data.items[at - data.first] ?? "none") : "end";
  state.style.textContent = `[class*="${SLOT}"]:not(.${SLOT}${item}) { display: none !important; }`;
  state.root.querySelector(".done").style.width = `${data.total ? (100 * at) / data.total : 0}%`;
  state.root.querySelector(".place").textContent =
    at < data.total ? `${(at + 1).toLocaleString("en")} of ${data.total.toLocaleString("en")}` : "end of the queue";
  state.root.querySelector(".bar").dataset.at = at;
  state.root.querySelector(".bar").dataset.waiting = state.pending.length;
  const says = state.root.querySelector(".says");
  says.textContent = said(state, item);
  says.classList.toggle("bad", Boolean(data.error));
}

function said(state, item) {
  if (state.data.error) return `Not stored, retrying: ${state.data.error}`;
  if (state.note) return state.note;
  if (!state.data.writes) return "";
  const waiting = state.pending.length;
  const mark = state.marks[item] ?? state.data.marks[item];
  if (mark && mark !== "skipped") return `You ${mark} this one.`;
  return waiting > 2 ? `${waiting} keys on their way` : "";
}
