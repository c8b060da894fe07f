// Server-sent events read with fetch: EventSource cannot send the Authorization header.

import { ask } from "./api.js";

const SILENCE = 45_000; // without even a keep-alive for so long, the connection is taken for dead
const LONGEST = 15_000; // between two tries

/** Call onEvent(kind, data) and onState("live" | "lost", seconds) until told to stop or refused. */
export async function listen(onEvent, onState, stopped) {
  for (let tries = 0; ; tries += 1) {
    const heard = { anything: false };
    try {
      await readStream(onEvent, () => {
        if (!heard.anything) onState("live", 0);
        heard.anything = true;
      }, stopped);
    } catch (error) {
      if (error.status === 401 || error.status === 403) return;
    }
    if (stopped.aborted) return;
    if (heard.anything) tries = 0;
    // A random share keeps many pages from coming back in the same moment.
    const wait = Math.min(LONGEST, 500 * 2 ** tries) * (0.75 + Math.random() / 2);
    onState("lost", Math.ceil(wait / 1000));
    await untilOnlineOr(wait);
  }
}

async function readStream(onEvent, onLife, stopped) {
  const stop = new AbortController();
  stopped.addEventListener("abort", () => stop.abort(), { signal: stop.signal });
  let watch = setTimeout(() => stop.abort(), SILENCE);
  try {
    const answer = await ask("events", { signal: stop.signal });
    onLife();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(watch);
      watch = setTimeout(() => stop.abort(), SILENCE);
      const blocks = (text + value).replaceAll("\r\n", "\n").split("\n\n");
      text = blocks.pop();
      for (const block of blocks) deliver(block, onEvent);
    }
  } finally {
    clearTimeout(watch);
  }
}

function deliver(block, onEvent) {
  let kind = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) kind = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5));
  }
  if (data.length) onEvent(kind, JSON.parse(data.join("\n")));
}

function untilOnlineOr(milliseconds) {
  return new Promise((done) => {
    const timer = setTimeout(finish, milliseconds);
    function finish() {
      clearTimeout(timer);
      removeEventListener("online", finish);
      done();
    }
    addEventListener("online", finish);
  });
}
