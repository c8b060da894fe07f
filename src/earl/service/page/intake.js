// Images come in: dropped, pasted, chosen or taken with the camera.

import { byId, counted, make, say } from "./dom.js";
import { askAbout, refreshAnswers } from "./asking.js";
import { changed, select, store } from "./store.js";

const SENT_AS_IS = new Set(["image/jpeg", "image/png"]);
const BYTES = 700_000; // larger files, and larger pictures, are made smaller before they are sent
const SIDE = 1024;
const LARGEST_SIDE = 2048;

/** Return what is sent of a file: itself, or a smaller or converted picture of it. */
async function prepare(file) {
  const picture = await createImageBitmap(file); // turned as the camera was held
  const { width, height } = picture;
  const small = file.size <= BYTES && Math.max(width, height) <= LARGEST_SIDE;
  if (small && SENT_AS_IS.has(file.type)) return { blob: file, width, height };
  const scale = Math.min(1, SIDE / Math.max(width, height));
  const canvas = make("canvas", { width: Math.max(1, Math.round(width * scale)), height: Math.max(1, Math.round(height * scale)) });
  const pen = canvas.getContext("2d");
  pen.fillStyle = "#fff"; // JPEG has no transparency
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
  const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.9));
  return { blob, width: canvas.width, height: canvas.height };
}

/** Show files as images and ask about them. */
export async function take(files) {
  const given = [...files];
  const problem = byId("intake-error");
  problem.textContent = "";
  const items = [];
  const unread = [];
  for (const file of given) {
    try {
      const { blob, width, height } = await prepare(file);
      items.push({
        name: file.name || "pasted image", blob, width, height, url: URL.createObjectURL(blob),
        answer: null, asked: 0, explained: false, sample: null, attempt: null, state: "asking", teaching: false, error: "", silence: "",
      });
    } catch {
      unread.push(file.name || "the pasted file");
    }
  }
  if (unread.length) {
    const named = unread.slice(0, 3).join(", ") + (unread.length > 3 ? ` and ${unread.length - 3} more` : "");
    problem.textContent = `Not readable as an image by this browser: ${named}.`;
  }
  if (items.length === 0) return;
  store.items.push(...items);
  select([items[0]]);
  changed("items");
  say(`${counted(items.length, "image")} shown.`);
  await askAbout(items);
  await refreshAnswers();
}

/** Let images in through every door the page has. */
export function openDoors() {
  const drop = byId("drop");
  const files = byId("files");
  byId("choose").addEventListener("click", () => files.click());
  files.addEventListener("change", async () => {
    const given = [...files.files];
    files.value = ""; // the same file may be chosen twice
    await take(given);
  });
  let inside = 0; // dragenter and dragleave come for every child
  addEventListener("dragenter", (event) => { event.preventDefault(); inside += 1; drop.classList.add("over"); });
  addEventListener("dragleave", () => { inside -= 1; if (inside === 0) drop.classList.remove("over"); });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault(); // else the browser leaves the page to show the file
    inside = 0;
    drop.classList.remove("over");
    if (!byId("work").hidden) take(event.dataTransfer.files);
  });
  addEventListener("paste", (event) => {
    const pasted = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
    if (pasted.length && !byId("work").hidden) {
      event.preventDefault();
      take(pasted);
    }
  });
  openCamera();
}

function openCamera() {
  const video = byId("video");
  const box = byId("camera-box");
  let stream = null;
  const off = () => {
    for (const track of stream?.getTracks() ?? []) track.stop();
    stream = null;
    box.hidden = true;
    byId("camera").hidden = false;
    byId("camera").focus();
  };
  byId("camera").addEventListener("click", async () => {
    byId("intake-error").textContent = "";
    if (!navigator.mediaDevices) return byCameraApp();
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    } catch {
      byId("intake-error").textContent = "The camera could not be used: there is none, it is in use, or this page was not allowed to.";
      return;
    }
    video.srcObject = stream;
    await video.play();
    box.hidden = false;
    byId("camera").hidden = true;
    byId("shoot").focus();
  });
  byId("camera-off").addEventListener("click", off);
  byId("shoot").addEventListener("click", async () => {
    const canvas = make("canvas", { width: video.videoWidth, height: video.videoHeight });
    canvas.getContext("2d").drawImage(video, 0, 0);
    const blob = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92));
    const time = new Date().toLocaleTimeString();
    await take([new File([blob], `picture taken at ${time}`, { type: "image/jpeg" })]);
  });
}

/** Without TLS browsers give no video; a phone's own camera application still hands over a picture. */
function byCameraApp() {
  const input = make("input", { type: "file", accept: "image/*", capture: "environment" });
  input.addEventListener("change", () => take(input.files));
  input.click();
}
