// Many images are sent in several requests, since the service bounds the size of one.

/** Divide items with a blob into parts of at most so many, and at most so many bytes if they can. */
export function parts(items, most, bytes) {
  const found = [];
  let size = Infinity; // of the part that is being filled; there is none yet
  for (const item of items) {
    if (size + item.blob.size > bytes || found.at(-1).length === most) {
      found.push([]);
      size = 0;
    }
    found.at(-1).push(item);
    size += item.blob.size;
  }
  return found;
}
