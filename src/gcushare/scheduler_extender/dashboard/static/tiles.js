// One node as a tile. Where there is room for words a card is a row, filled from the left by the pods that hold it, with
// their names; of many nodes it is a column without words, filled from below.
// Colour is what pods hold. What is free has none, but green where a reader asks which pieces a request could use.

import { areByPod, hueOf } from "./palette.js";
import { amount, exact, t } from "./text.js";

const SMALLEST_SHARE = 0.3;
/** A free piece that is smaller than this share of the largest card is of little use. */
const SLIVER = 0.15;
/** The height of a row that has room for one line, and of the tallest. */
const ROW = 17;
const TALLEST_ROW = 150;
/** A card without pods has little to tell. */
const EMPTY_ROW = 0.6;
/** How much taller the rows of a node with few or empty cards may be. */
const STRETCHED_ROW = 1.5;
const TWO_LINES = 31;
const MOST_COLUMNS = 8;
const WIDEST = 2600;
const SHRINK = 0.4;
const PALE = 0.38;
const HOLLOW = 0.3;

/**
 * The sizes of a tile of a given width. `slots`: for how many cards there is room; `em`: the size of the page's text, 1
 * on a laptop; `room`: height that the cards may grow into, below 0 what they have to give up.
 */
export function measureTile(width, { slots = 8, em = 1, room = 0 } = {}) {
  const pad = Math.round(width < 60 ? 2 : width < 110 ? 6 : 10 * em);
  const title = Math.round(width < 84 * em ? 0 : width < 150 * em ? 17 * em : 22 * em);
  const asRows = width >= (120 + 10 * slots) * em;
  const gap = asRows ? Math.round(2 * em) : width < 34 ? 0 : width < 60 ? 1 : width < 130 ? 2 : 3;
  const plain = asRows ? Math.round(slots * ROW * em) : Math.round(Math.max(16, width * (width < 84 ? 0.6 : 0.5)));
  const growth = asRows ? slots * (TALLEST_ROW - ROW) * em : plain * 1.1;
  const bars = plain + Math.floor(Math.max(-SHRINK * plain, Math.min(room, growth)));
  const letters = em * Math.max(1, Math.min(1.3, bars / slots / (44 * em)));
  const label = asRows ? Math.round((width >= 300 * em ? 58 : 20) * letters) : 0;
  return { width, em, letters, slots, pad, title, asRows, label, bars, gap, height: pad * 2 + title + bars };
}

/** How well the words of a tile's rows can be read, 1 at best: an eighth of a card has room for a pod's name, a row for a line. */
export function readability({ width, pad, label, letters, asRows, bars, slots, em }) {
  if (!asRows) return 0.1;
  return Math.min(1, (width - 2 * pad - label) / (800 * letters)) * Math.min(1, bars / slots / (ROW * em)) ** 2;
}

/** The widest tile: rows are as long as the window is wide. */
export function widestTile({ em = 1 }) {
  return Math.round(WIDEST * em);
}

/** Where the cards of a node are inside its tile. A smaller card is shorter than the `largestCard`. */
function placesOf(node, size, largestCard) {
  const { pad, label, bars, gap } = size;
  const top = pad + size.title;
  const room = size.width - 2 * pad;
  const lengthOf = (card) => (largestCard > 0 ? Math.max(SMALLEST_SHARE, Math.min(1, card.totalBytes / largestCard)) : 1);
  if (size.asRows) {
    const shares = node.cards.map((card) => (card.held.length > 0 ? 1 : EMPTY_ROW));
    const step = Math.min(bars / shares.reduce((sum, share) => sum + share, 0), (STRETCHED_ROW * bars) / size.slots);
    let at = top;
    return node.cards.map((card, number) => {
      const begin = Math.round(at);
      at += shares[number] * step;
      return { left: pad + label, top: begin, width: Math.round((room - label) * lengthOf(card)), height: Math.max(1, Math.round(at) - begin - gap) };
    });
  }
  // Columns are as wide on each node, so that two cards look like two.
  const count = Math.max(1, node.cards.length, Math.min(MOST_COLUMNS, size.slots));
  const widest = size.width < 110 ? size.width * 0.45 : room;
  const width = Math.max(1, Math.min(widest, (room - gap * (count - 1)) / count));
  return node.cards.map((card, number) => {
    const height = Math.round(bars * lengthOf(card));
    return { left: Math.round((pad + number * (width + gap)) * 2) / 2, top: top + bars - height, width, height };
  });
}

/** The parts of a card that pods hold, as shares of its length: {…held, from, to}. */
function stackOf(card) {
  const scale = Math.max(card.totalBytes, card.usedBytes, 1);
  let at = 0;
  return card.held.map((held) => {
    const from = at;
    at = Math.min(1, at + held.bytes / scale);
    return { ...held, from, to: at };
  });
}

/** Draws tiles into a canvas context with one theme's colours. */
export class TilePainter {
  constructor(context, colours) {
    this.context = context;
    this.colours = colours;
    this.texts = new Map();
    this.hatches = new Map();
  }

  /** Write the heading of a group of tiles. */
  heading(words, x, y, em) {
    this.#write(words, x, y, 600, 12 * em, this.colours.dim);
  }

  /** Draw a node at (x, y). `scene`: {size, largestCard, probe, standsOut(node) -> predicate or null}. */
  paint(node, x, y, scene) {
    const { context, colours } = this;
    const { size } = scene;
    if (size.width >= 60) {
      context.fillStyle = colours.tile;
      roundRect(context, x, y, size.width, size.height, 8);
      context.fill();
    }
    if (node.trouble || node.cordoned) this.#outline(x, y, size, node.trouble ? colours.sick : colours.cordoned);
    if (size.title > 0) this.#title(node, x, y, size);
    const look = { ...scene, standsOut: scene.standsOut(node), isPale: Boolean(node.unready) };
    placesOf(node, size, scene.largestCard).forEach((place, number) => {
      place.left += x;
      place.top += y;
      this.#card(node.cards[number], place, look);
    });
  }

  #card(card, place, scene) {
    const { context, colours } = this;
    const { asRows } = scene.size;
    context.fillStyle = colours.well;
    context.fillRect(place.left, place.top, place.width, place.height);
    const length = asRows ? place.width : place.height;
    const part = (from, to) => (asRows
      ? { left: place.left + from, top: place.top, width: to - from, height: place.height }
      : { left: place.left, top: place.top + length - to, width: place.width, height: to - from });
    let reached = 0;
    for (const segment of stackOf(card)) {
      const end = Math.max(reached + 1, Math.round(segment.to * length));
      this.#segment(segment, part(reached, end), scene);
      reached = end;
    }
    if (reached < length) this.#free(card, part(reached, length), scene);
    this.#frame(card, place);
    if (asRows) this.#number(card, place, scene.size);
    if (card.usedBytes > card.totalBytes) {
      context.fillStyle = colours.over;
      if (asRows) context.fillRect(place.left + length, place.top, 2, place.height);
      else context.fillRect(place.left, place.top - 2, place.width, 2);
    }
  }

  #segment(segment, { left, top, width, height }, { size, standsOut, isPale, probe }) {
    const { context, colours } = this;
    const { pod } = segment;
    const stands = standsOut === null || standsOut(pod);
    const seam = height >= 4 && width >= 3 ? 1 : 0;
    const box = size.asRows ? { left, top, width: width - seam, height } : { left, top: top + seam, width, height: height - seam };
    const hue = stands ? colours.hues[hueOf(pod)] : colours.faded;
    const isHollow = stands && !pod.assigned;
    // Where a reader asks which pieces fit, what is held steps back.
    const isFaint = isHollow || isPale || probe > 0;
    context.globalAlpha = isHollow ? HOLLOW : isFaint ? PALE : 1;
    context.fillStyle = hue;
    context.fillRect(box.left, box.top, box.width, box.height);
    context.globalAlpha = 1;
    if (isHollow && !segment.whole) this.#dashes(box, hue);
    // What is hollow or pale shows the theme's ground, on which the theme's ink is read best.
    if (size.asRows && stands) this.#podWords(segment, box, size, isFaint ? colours.ink : colours.onColour);
    if (segment.whole && stands && width >= 5 && height >= 8) {
      context.strokeStyle = colours.mark;
      context.lineWidth = width < 46 || height < 20 ? 1 : 2;
      context.strokeRect(box.left + 1.5, box.top + 1.5, box.width - 3, box.height - 3);
    }
    if (height < 4 || width < 3) return;
    if (pod.overUse) {
      // A bar across the top: what it takes beyond its grant has no place of its own on the map.
      context.fillStyle = colours.sick;
      context.fillRect(box.left, box.top, box.width, Math.min(3, box.height));
    }
    if (pod.corrected) {
      const dot = Math.min(4, width - 1);
      context.fillStyle = colours.mark;
      context.fillRect(box.left + box.width - dot, box.top, dot, Math.min(dot, box.height));
    }
  }

  /** The frame of what is granted and not handed out yet: it will be filled. */
  #dashes({ left, top, width, height }, colour) {
    if (width < 8 || height < 8) return;
    const { context } = this;
    context.strokeStyle = colour;
    context.lineWidth = width < 24 ? 1 : 1.5;
    context.setLineDash([4, 3]);
    context.strokeRect(left + 0.75, top + 0.75, width - 1.5, height - 1.5);
    context.setLineDash([]);
  }

  #free(card, place, { size, largestCard, probe, isPale }) {
    const { context, colours } = this;
    const trouble = this.#troubleColour(card);
    const bytes = probe > 0 ? card.freeBytes : card.openBytes;
    if (trouble === null && bytes === 0) {
      // It takes no new pods: it is no free space, and not held.
      context.fillStyle = this.#hatch(colours.faded);
      context.fillRect(place.left, place.top, place.width, place.height);
      return;
    }
    const fits = probe > 0 && bytes >= probe;
    const free = probe > 0 || bytes < SLIVER * largestCard ? colours.sliver : colours.free;
    context.globalAlpha = isPale ? PALE : 1;
    context.fillStyle = trouble !== null ? this.#hatch(trouble) : fits ? colours.fits : free;
    context.fillRect(place.left, place.top, place.width, place.height);
    context.globalAlpha = 1;
    if (trouble === null && size.asRows) this.#line([freeWords(card), figureOf(card.freeBytes)], place, size, 400, fits && !isPale ? colours.onColour : colours.ink);
  }

  /** Who holds a part of a row, and how much: one below the other, or in one line, or as much of it as there is room for. */
  #podWords({ pod, bytes, inUse }, box, size, colour) {
    const held = inUse > 0 ? t("held-used", { held: amount(bytes), used: amount(inUse) }) : amount(bytes);
    const amounts = [held, amount(bytes), figureOf(bytes)];
    const { letters } = size;
    const room = box.width - 10 * letters;
    const line = 14 * letters;
    if (box.height >= TWO_LINES * letters) {
      const isNamed = room >= 36 * letters;
      const hasSpace = isNamed && !areByPod() && box.height >= 3 * line + 4;
      const lines = (isNamed ? 2 : 1) + (hasSpace ? 1 : 0);
      const at = (row) => ({ ...box, top: box.top + (box.height - lines * line) / 2 + row * line, height: line });
      if (isNamed) this.#write(this.#fitted(pod.name, room, 550, 11 * letters), box.left + 6 * letters, baseline(at(0), 11 * letters), 550, 11 * letters, colour);
      this.#line(amounts, at(isNamed ? 1 : 0), size, 400, colour);
      if (hasSpace) this.#line([pod.ns, this.#fitted(pod.ns, room, 400, 11 * letters)], at(2), size, 400, colour);
      return;
    }
    const font = Math.min(11 * letters, box.height - 2);
    if (font < 8) return;
    const name = this.#width(pod.name, 550, font);
    const both = amounts.slice(0, 2).find((words) => name + 7 * letters + this.#width(words, 400, font) <= room);
    const left = box.left + 6 * letters;
    if (name <= room || room >= 60 * letters) this.#write(this.#fitted(pod.name, room, 550, font), left, baseline(box, font), 550, font, colour);
    else this.#line(amounts, box, size, 400, colour);
    if (both) this.#write(both, left + name + 7 * letters, baseline(box, font), 400, font, colour);
  }

  /** Write the first of some words for which a part of a row has room, or none. */
  #line(choices, box, { letters }, weight, colour) {
    const font = Math.min(11 * letters, box.height - 2);
    const words = font < 8 ? "" : choices.find((each) => each && this.#width(each, weight, font) <= box.width - 8 * letters);
    if (words) this.#write(words, box.left + Math.min(6 * letters, (box.width - this.#width(words, weight, font)) / 2), baseline(box, font), weight, font, colour);
  }

  /** What a card is called, before its row, with its size or what is wrong with it. */
  #number(card, { left, top, height }, { letters, label }) {
    const { colours } = this;
    const isSick = card.sick || card.missing;
    const state = isSick ? t("key-sick") : card.cordoned ? t("key-cordoned") : "";
    const box = { left: left - label - 6 * letters, top, width: label + 2 * letters, height };
    const title = [t("card-title", { n: card.index }), String(card.index)];
    const colour = isSick ? colours.sick : colours.dim;
    const size = { letters };
    if (height < TWO_LINES * letters || label < 40) {
      this.#line(state ? [`${title[0]} · ${state}`, ...title] : title, box, size, 400, colour);
      return;
    }
    const line = 14 * letters;
    const at = (row) => ({ ...box, top: top + height / 2 + (row - 1) * line, height: line });
    this.#line(title, at(0), size, 550, isSick ? colours.sick : colours.ink);
    this.#line([state || amount(card.totalBytes)], at(1), size, 400, colour);
  }

  #troubleColour(card) {
    return card.sick || card.missing ? this.colours.sick : card.cordoned ? this.colours.cordoned : null;
  }

  /** The frame around a sick or cordoned card, which a card without free memory shows as well; a line above a narrow one. */
  #frame(card, { left, top, width, height }) {
    const { context } = this;
    const colour = this.#troubleColour(card);
    if (colour === null) return;
    context.fillStyle = colour;
    context.fillRect(left, top - 2, width, 2);
    if (width < 5) return;
    context.strokeStyle = colour;
    context.lineWidth = Math.min(3, 1 + width / 16);
    context.strokeRect(left - 0.25, top - 0.75, width + 0.5, height + 1.25);
  }

  #title(node, x, y, { width, em, letters, pad }) {
    const { colours } = this;
    const isLarge = width >= 150 * em;
    const line = y + pad + (isLarge ? 11 : 9) * em;
    const right = x + width - pad;
    const fits = isLarge && node.largestBytes > 0 ? t("fits-short", { amount: exact(node.largestBytes) }) : "";
    const choices = isLarge ? [[sizesOf(node), fits].filter(Boolean).join(" · "), fits] : [];
    const words = choices.find((each) => this.#width(each, 400, 11 * letters) <= 0.7 * (width - 2 * pad)) ?? "";
    const taken = words ? this.#width(words, 400, 11 * letters) : 0;
    if (words) this.#write(words, right - taken, line, 400, 11 * letters, colours.dim);
    const [weight, font] = isLarge ? [600, 12 * letters] : [500, 10.5 * em];
    const name = this.#fitted(node.name, width - 2 * pad - taken - (taken ? 10 * em : 0), weight, font, { keepsEnd: true });
    this.#write(name, x + pad, line, weight, font, node.trouble > 0 ? colours.sick : colours.ink);
  }

  #write(words, x, y, weight, font, colour) {
    const { context } = this;
    context.font = `${weight} ${font}px ${FONT}`;
    context.fillStyle = colour;
    context.fillText(words, x, y);
  }

  #width(words, weight, font) {
    this.context.font = `${weight} ${font}px ${FONT}`;
    return this.context.measureText(words).width;
  }

  /** Cut a name to the room there is; nodes lose their beginning, because their ends are what distinguishes them. */
  #fitted(name, room, weight, font, { keepsEnd = false } = {}) {
    const key = `${weight} ${font} ${Math.round(room)} ${keepsEnd}${name}`;
    let text = this.texts.get(key);
    if (text === undefined) {
      text = name;
      for (let cut = 1; cut < name.length && this.#width(text, weight, font) > room; cut += 1) {
        text = keepsEnd ? `…${name.slice(cut)}` : `${name.slice(0, name.length - cut)}…`;
      }
      if (this.texts.size > 5000) this.texts.clear();
      this.texts.set(key, text);
    }
    return text;
  }

  #outline(x, y, size, colour) {
    const { context } = this;
    context.strokeStyle = colour;
    context.lineWidth = 1;
    roundRect(context, x + 0.5, y + 0.5, size.width - 1, size.height - 1, size.width >= 60 ? 7.5 : 2);
    context.stroke();
  }

  #hatch(colour) {
    let pattern = this.hatches.get(colour);
    if (pattern === undefined) {
      const cell = new OffscreenCanvas(6, 6);
      const pen = cell.getContext("2d");
      pen.strokeStyle = colour;
      pen.lineWidth = 1.4;
      for (const shift of [-6, 0, 6]) {
        pen.moveTo(shift - 1, 7);
        pen.lineTo(shift + 7, -1);
      }
      pen.stroke();
      pattern = this.context.createPattern(cell, "repeat");
      this.hatches.set(colour, pattern);
    }
    return pattern;
  }
}

const FONT = 'Inter, system-ui, -apple-system, "Segoe UI", Roboto, "PingFang SC", "Microsoft YaHei", sans-serif';

function roundRect(context, x, y, width, height, radius) {
  context.beginPath();
  context.roundRect(x, y, width, height, radius);
}

/** The line on which words of a size stand in the middle of a box. */
function baseline({ top, height }, font) {
  return top + height / 2 + 0.36 * font;
}

/** An amount without its unit, for where there is no room for that: a cut figure would be a wrong one. */
function figureOf(bytes) {
  return amount(bytes).split(/\s/u)[0];
}

/** How many cards a node has, and their size, where they are of one size. */
function sizesOf({ cards }) {
  const [first] = cards;
  const areAlike = cards.length > 0 && cards.every((card) => card.totalBytes === first.totalBytes);
  return areAlike ? `${cards.length} × ${amount(first.totalBytes)}` : "";
}

/** What is left of a card, in words. */
export function freeWords(card) {
  return card.freeBytes > 0 ? t("card-free", { free: amount(card.freeBytes) }) : t("card-whole-free");
}

/** What is at a place inside a tile: {card, held} with nulls where there is nothing. */
export function hitTile(node, x, y, size, largestCard) {
  const number = placesOf(node, size, largestCard).findLastIndex((place) => (size.asRows ? y >= place.top : x >= place.left));
  const card = y < size.pad + size.title ? undefined : node.cards[number];
  if (card === undefined) return { card: null, held: null };
  const { left, top, width, height } = placesOf(node, size, largestCard)[number];
  const at = size.asRows ? (x - left) / width : (top + height - y) / height;
  return { card, held: stackOf(card).find((each) => at >= each.from && at < each.to) ?? null };
}
