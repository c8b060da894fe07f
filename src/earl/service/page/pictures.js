// Images of taught samples. They are fetched with the token, which an <img> cannot send.

import { getImage } from "./api.js";
import { make } from "./dom.js";

const MOST = 400; // kept; the one not used for longest goes first

const known = new Map(); // id -> promise of an object URL

function addressOf(id) {
  const found = known.get(id) ?? getImage(id).then((blob) => URL.createObjectURL(blob));
  known.delete(id);
  known.set(id, found); // now the youngest
  found.catch(() => known.delete(id)); // may be tried again
  if (known.size > MOST) {
    const [oldest, address] = known.entries().next().value;
    known.delete(oldest);
    address.then(URL.revokeObjectURL, () => {});
  }
  return found;
}

/** Return an image of a sample that appears as soon as it has been fetched. */
export function picture(id, alt) {
  const image = make("img", { alt, class: "picture", draggable: "false" });
  addressOf(id).then((address) => { image.src = address; }, () => image.classList.add("missing"));
  return image;
}
