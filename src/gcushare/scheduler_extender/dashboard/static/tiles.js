// One node as a tile: a column per card, filled from below by the pods that hold it, coloured by namespace.
// Colour is what pods hold. What is free is as pale as the ground, the paler the larger the piece, and green only where a
// reader asks which pieces a request could use.
// Where a column is wide enough, what holds it is written into it.

import { hueOf } from "./palette.js";
import { amount, t } from "./text.js";

const SMALLEST_SHARE = 0.3;
const STEPS = [0.15, 0.35, 0.6, 0.9];
const LABELLED = 46;
const NAMED = 84;
const ROOMY = 120;
const WIDEST_COLUMN = 320;
const WIDEST_CARD = 760;
const SHRINK = 0.4;
const PALE = 0.38;
const HOLLOW = 0.3;

/**
 * The sizes of a tile of a given width. `slots`: for how many cards there is room side by side; `em`: the size of the
 * page's text, 1 on a laptop; `room`: height that the columns may grow into, below 0 what they have to give up.
 */
export function measureTile(width, { slots = 8, em = 1, room = 0 } = {}) {
  const pad = Math.round(width < 60 ? 2 : width < 110 ? 6 : 10 * em);
  const title = Math.round(width < 84 * em ? 0 : width < 150 * em ? 17 * em : 22 * em);
  const gap = width < 34 ? 0 : width < 60 ? 1 : width < 130 ? 2 : width < 300 ? 3 : 5;
  const column = (width - 2 * pad - gap * (slots - 1)) / slots;
  const foot = column >= LABELLED * em ? Math.round((column >= ROOMY * em ? 23 : 19) * em) : 0;
  const plain = Math.round(Math.min(230 * em, Math.max(16, width * (width < 84 ? 0.6 : 0.5))));
  // Columns that are wide may be tall as well: a few nodes fill the screen that they have.
  const growth = Math.max(plain * 1.1, column * 5 - plain);
  const bars = plain + Math.floor(Math.max(-SHRINK * plain, Math.min(room, growth)));
  const letters = em * Math.max(1, Math.min(1.3, column / (ROOMY * em)));
  return { width, em, letters, slots, pad, title, foot, bars, gap, height: pad * 2 + title + bars + foot };
}

/** The widest tile that still looks like cards rather than like walls. */
export function widestTile({ slots = 8, em = 1 }) {
  return Math.round(Math.max(WIDEST_CARD, slots * WIDEST_COLUMN) * em);
}

/** Where the columns of a node's cards stand inside its tile: as wide on each node, so that two cards look like two. */
function columnsOf(node, size) {
  const count = Math.max(1, node.cards.length, size.slots);
  const room = size.width - 2 * size.pad;
  const widest = size.width < 110 ? size.width * 0.45 : room;
  const width = Math.max(1, Math.min(widest, (room - size.gap * (count - 1)) / count));
  return { width, step: width + size.gap };
}

/** How one card is stacked: segments from below as shares of the column's height, and the height's share of the bars. */
function stackOf(card, largestCard) {
  const scale = Math.max(card.totalBytes, card.usedBytes, 1);
  let at = 0;
  const segments = card.held.map((held) => {
    const from = at;
    at = Math.min(1, at + held.bytes / scale);
    return { ...held, from, to: at };
  });
  const tall = largestCard > 0 ? Math.max(SMALLEST_SHARE, Math.min(1, card.totalBytes / largestCard)) : 1;
  return { segments, filled: at, tall };
}

/** The colour of a free piece: by its share of the largest card, or by whether a request of `probe` fits. */
function freeColour(colours, bytes, { largestCard, probe }) {
  if (probe > 0) return bytes >= probe ? colours.fits : colours.freeSteps[0];
  const step = STEPS.findIndex((edge) => bytes / Math.max(1, largestCard) < edge);
  return colours.freeSteps.at(step);
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
    const { context, colours } = this;
    context.font = `600 ${12 * em}px ${FONT}`;
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillStyle = colours.dim;
    context.fillText(words, x, y);
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
    const columns = columnsOf(node, size);
    const top = y + size.pad + size.title;
    const standsOut = scene.standsOut(node);
    node.cards.forEach((card, number) => {
      const left = x + size.pad + number * columns.step;
      this.#card(card, { left, top, width: columns.width, bars: size.bars, isPale: Boolean(node.unready) }, scene, standsOut);
    });
  }

  #card(card, place, scene, standsOut) {
    const { context, colours } = this;
    const { em, letters } = scene.size;
    const { isPale } = place;
    const { segments, tall } = stackOf(card, scene.largestCard);
    const height = Math.round(place.bars * tall);
    const left = Math.round(place.left * 2) / 2;
    const bottom = place.top + place.bars;
    context.fillStyle = colours.well;
    context.fillRect(left, bottom - height, place.width, height);
    let reached = bottom;
    for (const segment of segments) {
      const upper = Math.round(bottom - segment.to * height);
      const lower = reached;
      reached = Math.min(upper, lower - 1);
      // Where a reader asks which pieces fit, what is held steps back.
      this.#segment(segment, { left, upper: reached, lower, width: place.width, em, letters, isPale: isPale || scene.probe > 0 }, standsOut);
    }
    this.#free(card, { left, width: place.width, upper: bottom - height, lower: reached, em, letters, isPale }, scene);
    this.#frame(card, { left, width: place.width, upper: bottom - height, bottom });
    if (scene.size.foot > 0) this.#foot(card, { left, bottom, width: place.width, letters });
    if (card.usedBytes > card.totalBytes) {
      context.fillStyle = colours.over;
      context.fillRect(left, bottom - height - 2, place.width, 2);
    }
  }

  #segment(segment, place, standsOut) {
    const { left, upper, lower, width, em, isPale } = place;
    const { context, colours } = this;
    const { pod } = segment;
    const stands = standsOut === null || standsOut(pod);
    const tall = lower - upper;
    const seam = tall >= 4 && width >= 3 ? 1 : 0;
    const box = { left, top: upper + seam, width, height: tall - seam };
    const hue = stands ? colours.hues[hueOf(pod.ns)] : colours.faded;
    const isHollow = stands && !pod.assigned;
    context.globalAlpha = isHollow ? HOLLOW : isPale ? PALE : 1;
    context.fillStyle = hue;
    context.fillRect(box.left, box.top, box.width, box.height);
    context.globalAlpha = 1;
    if (isHollow && !segment.whole) this.#dashes(box, colours.hues[hueOf(pod.ns)]);
    if (width >= LABELLED * em && stands) {
      // What is hollow or pale shows the theme's ground, on which the theme's ink is read best.
      this.#label(this.#podLines(segment, place), place, isHollow || isPale ? colours.ink : colours.onColour);
    }
    if (segment.whole && stands && width >= 5 && tall >= 8) {
      context.strokeStyle = colours.mark;
      context.lineWidth = width < LABELLED ? 1 : 2;
      context.strokeRect(left + 1.5, upper + seam + 1.5, width - 3, tall - seam - 3);
    }
    if (pod.overUse && tall >= 4 && width >= 3) {
      // A bar across the top: what it takes beyond its grant has no place of its own on the map.
      context.fillStyle = colours.sick;
      context.fillRect(left, upper + seam, width, Math.min(3, tall - seam));
    }
    if (pod.corrected && tall >= 4 && width >= 3) {
      const dot = Math.min(4, width - 1);
      context.fillStyle = colours.mark;
      context.fillRect(left + width - dot, upper + seam, dot, Math.min(dot, tall - seam));
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

  /** Write lines into a piece of a column, as many as it has room for. */
  #label(lines, { left, upper, lower, width, letters }, colour) {
    const { context } = this;
    const line = 14 * letters;
    const fitting = Math.min(lines.length, Math.floor((lower - upper - 4 * letters) / line));
    if (fitting < 1) return;
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillStyle = colour;
    for (let number = 0; number < fitting; number += 1) {
      context.font = number === 0 ? `550 ${11 * letters}px ${FONT}` : `400 ${10.5 * letters}px ${FONT}`;
      const text = this.#fitted(lines[number], width - 12 * letters, { keepsEnd: false });
      context.fillText(text, left + 6 * letters, upper + 1 + line * (number + 0.92));
    }
  }

  /** What a card is called, below its column. */
  #foot(card, { left, bottom, width, letters }) {
    const { context, colours } = this;
    const title = t("card-title", { n: card.index });
    const state = card.sick || card.missing ? t("key-sick") : card.cordoned ? t("key-cordoned") : "";
    context.font = `400 ${11 * letters}px ${FONT}`;
    context.fillStyle = card.sick || card.missing ? colours.sick : colours.dim;
    context.textAlign = "left";
    const words = [state && `${title} · ${state}`, state, title].find((each) => each && context.measureText(each).width <= width);
    context.fillText(words ?? String(card.index), left, bottom + 15 * letters);
  }

  #free(card, place, scene) {
    const { left, width, upper, lower } = place;
    const { context, colours } = this;
    const tall = lower - upper;
    const colour = this.#troubleColour(card);
    const bytes = scene.probe > 0 ? card.freeBytes : card.openBytes;
    if (tall <= 0 || (colour === null && bytes === 0 && scene.probe === 0)) return;
    context.globalAlpha = place.isPale ? PALE : 1;
    context.fillStyle = colour === null ? freeColour(colours, bytes, scene) : this.#hatch(colour);
    context.fillRect(left, upper, width, tall);
    context.globalAlpha = 1;
    if (colour !== null || width < LABELLED * place.em) return;
    this.#label(this.#freeLines(card, place), place, scene.probe > 0 && bytes >= scene.probe && !place.isPale ? colours.onColour : colours.ink);
  }

  /** What is written on a pod's part: its name unless little of it would be seen, its memory, its namespace if there is room. */
  #podLines({ pod, bytes }, { width, em, letters }) {
    const { context } = this;
    context.font = `550 ${11 * letters}px ${FONT}`;
    const named = width >= NAMED * em || context.measureText(pod.name).width <= width - 12 * letters;
    return [...(named ? [pod.name] : []), this.#amountWithin(bytes, width - 12 * letters), ...(width >= ROOMY * em ? [pod.ns] : [])];
  }

  /** What is free, in one line, or its figure alone where a line has no room for more. */
  #freeLines(card, { width, letters }) {
    const { context } = this;
    context.font = `550 ${11 * letters}px ${FONT}`;
    const words = freeWords(card);
    return [context.measureText(words).width <= width - 12 * letters || card.freeBytes === 0 ? words : this.#amountWithin(card.freeBytes, width - 12 * letters)];
  }

  /** An amount, or its figure alone where a wide font leaves no room for the unit: a cut figure would be a wrong one. */
  #amountWithin(bytes, room) {
    const words = amount(bytes);
    return this.context.measureText(words).width <= room ? words : words.split(/\s/u)[0];
  }

  #troubleColour(card) {
    return card.sick || card.missing ? this.colours.sick : card.cordoned ? this.colours.cordoned : null;
  }

  /** The frame around a sick or cordoned card, which a card without free memory shows as well; a line above a narrow one. */
  #frame(card, { left, width, upper, bottom }) {
    const { context } = this;
    const colour = this.#troubleColour(card);
    if (colour === null) return;
    context.fillStyle = colour;
    context.fillRect(left, upper - 2, width, 2);
    if (width < 5) return;
    context.strokeStyle = colour;
    context.lineWidth = Math.min(3, 1 + width / 16);
    context.strokeRect(left - 0.25, upper - 0.75, width + 0.5, bottom - upper + 1.25);
  }

  #title(node, x, y, size) {
    const { context, colours } = this;
    const { em, letters } = size;
    const large = size.width >= 150 * em;
    const line = y + size.pad + (large ? 11 : 9) * em;
    const room = size.width - 2 * size.pad;
    context.textBaseline = "alphabetic";
    let reserved = 0;
    if (large) {
      context.font = `400 ${11 * letters}px ${FONT}`;
      const words = node.largestBytes > 0 ? t("fits-short", { amount: amount(node.largestBytes) }) : "";
      reserved = context.measureText(words).width + 10 * em;
      context.textAlign = "right";
      context.fillStyle = colours.dim;
      if (words) context.fillText(words, x + size.width - size.pad, line);
    }
    context.font = large ? `600 ${12 * letters}px ${FONT}` : `500 ${10.5 * em}px ${FONT}`;
    context.textAlign = "left";
    context.fillStyle = node.trouble > 0 ? colours.sick : colours.ink;
    context.fillText(this.#fitted(node.name, room - reserved), x + size.pad, line);
  }

  /** Cut a name to the room there is; nodes lose their beginning, because their ends are what distinguishes them. */
  #fitted(name, room, { keepsEnd = true } = {}) {
    const { context } = this;
    const key = `${context.font}\n${Math.round(room)}\n${keepsEnd}${name}`;
    let text = this.texts.get(key);
    if (text === undefined) {
      text = name;
      for (let cut = 1; cut < name.length && context.measureText(text).width > room; cut += 1) {
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

/** What is left of a card, in words. */
export function freeWords(card) {
  return card.freeBytes > 0 ? t("card-free", { free: amount(card.freeBytes) }) : t("card-whole-free");
}

/** What stands at a place inside a tile: {card, held} with nulls where there is nothing. */
export function hitTile(node, x, y, size, largestCard) {
  const columns = columnsOf(node, size);
  const number = Math.floor((x - size.pad) / columns.step);
  const card = x >= size.pad ? node.cards[number] : undefined;
  if (card === undefined || y < size.pad + size.title) return { card: null, held: null };
  const { segments, tall } = stackOf(card, largestCard);
  const bottom = size.pad + size.title + size.bars;
  const at = (bottom - y) / Math.max(1, Math.round(size.bars * tall));
  return { card, held: segments.find((each) => at >= each.from && at < each.to) ?? null };
}
