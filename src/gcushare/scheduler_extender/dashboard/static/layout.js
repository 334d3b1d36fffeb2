// How large the tiles are, so that as many nodes as possible are in sight and few nodes fill the room that there is.

import { measureTile, readability, widestTile } from "./tiles.js";

export const NARROWEST = 22;
/** So many nodes are arranged rather than strung. */
export const FEW = 12;
/** How much wider a tile may become to fill its row. */
export const STRETCH = 1.3;

/** The gap between tiles of a width. */
export function gapOf(width) {
  return width < 60 ? 3 : width < 110 ? 6 : 10;
}

/** How many tiles stand abreast. */
export function columnsIn(width, wanted, count) {
  const gap = gapOf(wanted);
  return Math.max(1, Math.min(count, Math.floor((width + gap) / (wanted + gap))));
}

/** The widest tile with which all nodes are in sight; the narrowest where they never are. */
export function fit({ count, width, height, look }) {
  if (count <= FEW) {
    const wanted = fitFew({ count, width, height, look });
    if (wanted > 0) return wanted;
  }
  for (let wanted = widestTile(look); wanted > NARROWEST; wanted -= 2) {
    const gap = gapOf(wanted);
    const columns = columnsIn(width, wanted, count);
    const tile = Math.min(wanted * STRETCH, (width - gap * (columns - 1)) / columns);
    const rows = Math.ceil(count / columns);
    if (rows * (measureTile(tile, look).height + gap) <= height) return wanted;
  }
  return NARROWEST;
}

/** The tile of a few nodes whose words are read best and that covers most of the room with few gaps. */
function fitFew({ count, width, height, look }) {
  let best = { wanted: 0, worth: 0 };
  for (let columns = 1; columns <= count; columns += 1) {
    const gap = gapOf(width / columns);
    const wanted = Math.floor(Math.min(widestTile(look), (width - gap * (columns - 1)) / columns));
    const rows = Math.ceil(count / columns);
    const step = (height - gap) / rows - gap;
    const size = measureTile(wanted, { ...look, room: step - measureTile(wanted, look).height });
    const worth = size.width * size.height * Math.sqrt(count / (rows * columns)) * readability(size);
    if (size.height <= step && worth > best.worth) best = { wanted, worth };
  }
  return best.wanted;
}

/** The tile where the whole page scrolls, as on a phone: few nodes are large, many stand three abreast. */
export function share(count, width, look) {
  const abreast = count <= FEW ? 1 : count <= 2 * FEW ? 2 : 3;
  return Math.max(100, Math.min(widestTile(look), Math.floor((width - 20) / abreast)));
}
