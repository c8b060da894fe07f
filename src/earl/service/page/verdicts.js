// Has a class been taught enough? One rule in numbers, and the same rule in words.

import { counted, percent } from "./dom.js";
import { store } from "./store.js";

export const RULE = {
  few: 5, // fewer samples than this say nothing yet
  enough: 10,
  doubtful: 0.5, // recent accuracy and cosine below which more is needed
  right: 0.8, // recent accuracy
  near: 0.7, // cosine of a class to its vector
};

export const RULE_IN_WORDS = [
  ["needs more", `Fewer than ${RULE.few} images, or fewer than half of its last 32 were answered right before they were `
    + `taught, or its images lie at a cosine below ${RULE.doubtful} to its vector `
    + "(which does not count for images that are seen through a frozen network)."],
  ["learned", `At least ${RULE.enough} images, at least ${percent(RULE.right)} of the last 32 answered right beforehand, and a `
    + `cosine of at least ${RULE.near} (1 is perfect).`],
  ["getting there", "Everything in between: a few more images, best of the kind that it gets wrong."],
];

/** Return {word, kind, reason} about one class of /classes. */
export function verdict({ samples, recent, learned }) {
  // Features of a network that does not learn stay where they are: there the cosine says little.
  const cosine = store.status?.frozen ? null : learned ?? null;
  if (samples < RULE.few) {
    return needs(`${counted(samples, "image")} so far; show it at least ${RULE.few}`);
  }
  if (recent === 0) return needs("none of its last images was answered right beforehand");
  if (recent < RULE.doubtful) return needs(`only ${percent(recent)} of its last images were answered right beforehand`);
  if (cosine !== null && cosine < RULE.doubtful) return needs(`its images do not lie close together yet (${cosine.toFixed(2)})`);
  if (samples < RULE.enough) return almost(`${counted(RULE.enough - samples, "image")} more would settle it`);
  if (recent < RULE.right) return almost(`${percent(recent)} of its last images were answered right beforehand`);
  if (cosine !== null && cosine < RULE.near) return almost(`its images are still moving together (${cosine.toFixed(2)})`);
  return { word: "learned", kind: "good", reason: "" };
}

const needs = (reason) => ({ word: "needs more", kind: "bad", reason });
const almost = (reason) => ({ word: "getting there", kind: "middle", reason });

/** Return one sentence about all classes. */
export function summary(classes) {
  if (classes.length === 0) return "Nothing has been taught yet. Show it an image and give it a label.";
  if (classes.length === 1) return "One class is known, so there is nothing to choose between. Teach a second one.";
  const open = classes.filter((one) => verdict(one).kind === "bad").map((one) => one.label);
  const learned = classes.filter((one) => verdict(one).kind === "good").length;
  const begin = learned === 0 ? `None of the ${classes.length} classes is learned yet.`
    : `${learned} of ${classes.length} classes ${learned === 1 ? "is" : "are"} learned.`;
  if (open.length === 0) return learned === classes.length ? "Yes: every class is learned." : `${begin} The others are getting there.`;
  const named = open.slice(0, 3).join(", ") + (open.length > 3 ? ` and ${counted(open.length - 3, "other")}` : "");
  return `${begin} More images are needed of: ${named}.`;
}
