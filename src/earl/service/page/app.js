// Joins the parts: the token, what the service tells, and the keys of the whole page.

import { findToken, getClasses, getSamples, getStatus, keepToken, whenSignedOut } from "./api.js";
import { refreshAnswers } from "./asking.js";
import { openClasses } from "./classes.js";
import { byId, say } from "./dom.js";
import { listen } from "./events.js";
import { openDoors } from "./intake.js";
import { openProgress } from "./progress.js";
import { changed, store, watch } from "./store.js";
import { FIRST, openTaught } from "./taught.js";
import { undo, undoable } from "./teaching.js";
import { onTrayKey, openTray } from "./tray.js";
import { openViewer, teachByNumber } from "./viewer.js";

// Classes seen through a network that does not learn lie closer together: nearness is smaller there.
const DOUBT = { learning: 0.3, frozen: 0.1 };
const PAUSE = 800; // milliseconds between two looks at the whole state
const REST = 2500; // between two rounds of questions while it learns, which needs the same processor

let looking = false;
let lookAgain = false;
let seen = -1; // the model that the last look was at
let asked = 0; // when the last round of questions began
let signedIn = false;
let ending = new AbortController(); // of the connection that is open

/** Fetch the whole state, at most once in PAUSE; events only say that there is something new. */
async function look() {
  lookAgain = true;
  if (looking || !signedIn) return;
  looking = true;
  while (lookAgain && signedIn) {
    lookAgain = false;
    try {
      const status = await getStatus(); // first: the others must not be of an older model
      const [classes, samples] = await Promise.all([getClasses(), listed()]);
      seen = status.model_seq;
      Object.assign(store, { status, classes, samples, newest: Math.max(store.newest, seen) });
      adopt(samples);
      changed("status", "classes", "samples", "items");
      if (!status.waiting || Date.now() > asked + REST) {
        asked = Date.now();
        refreshAnswers();
      }
    } catch (error) {
      if (error.status !== 401) connection("lost", error.message);
    }
    await new Promise((done) => setTimeout(done, PAUSE));
  }
  looking = false;
}

/** The samples of the list; a replica has none, since it only answers. */
async function listed() {
  try {
    return await getSamples({ label: store.filter, limit: store.listed });
  } catch (error) {
    if (error.status === 403) return [];
    throw error;
  }
}

/** Bring the images shown up to what is known of their samples, also what others did to them. */
function adopt(samples) {
  const known = new Map(samples.map((sample) => [sample.id, sample]));
  for (const item of store.items) {
    const sample = item.sample && known.get(item.sample.id);
    if (!sample) continue;
    if (sample.state === "forgotten") Object.assign(item, { sample: null, attempt: null });
    else Object.assign(item.sample, { label: sample.label, right: sample.right, predicted: sample.predicted?.label ?? sample.predicted });
  }
}

function onEvent(kind, data) {
  if (kind === "status") {
    // The curve comes only with the whole state.
    const news = data.model_seq !== seen; // a model is published a moment after what it learned
    store.status = { ...data, curve: store.status?.curve };
    changed("status");
    if (news) look();
    return;
  }
  if (kind === "learned") {
    for (const item of store.items) {
      if (item.sample?.id === data.id) Object.assign(item.sample, { right: data.right, predicted: data.predicted?.label ?? data.predicted });
    }
  }
  look();
}

function connection(state, words) {
  const pill = byId("connection");
  if (pill.dataset.state !== state && state === "lost") say("Connection lost.");
  pill.dataset.state = state;
  pill.textContent = words;
}

/** Show what belongs to somebody who has signed in, or the field for the token. */
function showParts() {
  for (const id of ["work", "help", "undo", "sign-out"]) byId(id).hidden = !signedIn;
  byId("sign-in").hidden = signedIn;
}

function showSignIn(message = "") {
  signedIn = false;
  ending.abort();
  keepToken("");
  showParts();
  byId("token-error").textContent = message;
  connection("waiting", "signed out");
  byId("token").focus();
}

async function begin() {
  signedIn = true;
  ending = new AbortController();
  showParts();
  connection("waiting", "connecting");
  look();
  await listen(onEvent, (state, seconds) => {
    connection(state, state === "live" ? "live" : `connection lost, next try in ${seconds} s`);
    if (state === "live") look(); // whatever happened in between
  }, ending.signal);
}

function onKey(event) {
  const typing = event.target.matches("input, select, textarea");
  const command = event.ctrlKey || event.metaKey;
  if (command && !event.shiftKey && event.key.toLowerCase() === "z" && !(typing && event.target.value)) {
    event.preventDefault();
    takeBack();
  } else if (!typing && !command && !event.altKey && /^[1-6]$/.test(event.key)) {
    const here = event.target === document.body || event.target.closest("#teach");
    if (here && teachByNumber(Number(event.key))) event.preventDefault();
  } else if (event.target === document.body && store.items.length > 1 && (command || !/^Arrow(Up|Down)$|^ $/.test(event.key))) {
    onTrayKey(event); // as if one of the images had the focus; scrolling stays scrolling
  }
}

async function takeBack() {
  try {
    await undo();
  } catch (error) {
    byId("intake-error").textContent = `Not undone: ${error.message}`;
    say(`Not undone: ${error.message}`);
  }
}

/** Take over the nearness below which an image is unknown: as chosen in this browser, or the usual one. */
function showDoubt() {
  const usual = store.status?.frozen ? DOUBT.frozen : DOUBT.learning;
  const doubt = Number(localStorage.getItem("earl-doubt") ?? usual);
  if (doubt === store.doubt) return;
  store.doubt = doubt;
  byId("doubt").value = doubt;
  byId("doubt-shown").textContent = doubt.toFixed(2);
  changed("items");
}

function openDoubt() {
  byId("doubt").addEventListener("input", (event) => {
    localStorage.setItem("earl-doubt", event.target.value);
    showDoubt();
  });
  watch(["status"], showDoubt);
  showDoubt();
}

function showUndo() {
  const words = undoable();
  byId("undo").disabled = words === null;
  byId("undo").title = words === null ? "There is nothing to undo" : `Undo (Ctrl-Z): ${words}`;
}

/** List samples of one label, or of all if it is null; and how many. */
function list(label, most) {
  if (label !== store.filter) byId("taught").scrollIntoView({ block: "nearest" });
  Object.assign(store, { filter: label, listed: most });
  look();
}

openTray();
openViewer();
openProgress();
openClasses((label) => list(label, FIRST));
openTaught(list);
openDoors();
openDoubt();
watch(["undo"], showUndo);
addEventListener("keydown", onKey);
byId("undo").addEventListener("click", takeBack);
byId("sign-out").addEventListener("click", () => {
  keepToken("");
  location.reload(); // leaves no images behind for whoever comes next
});
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(byId("token").value);
  byId("token").value = "";
  byId("token-error").textContent = "";
  begin();
});
whenSignedOut((message) => signedIn && showSignIn(message)); // said once, though several requests fail
if (findToken()) begin();
else getStatus().then(begin, (error) => showSignIn(error.status === 401 ? "" : error.message)); // or is none asked for?
