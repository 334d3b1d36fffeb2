// The map: as many tiles as there are nodes, drawn only if they are in sight, and after a change only if they changed.

import { byId } from "./dom.js";
import { FEW, NARROWEST, STRETCH, columnsIn, fit, gapOf, share } from "./layout.js";
import { readColours } from "./palette.js";
import { TilePainter, hitTile, measureTile, widestTile } from "./tiles.js";

const MOST_SLOTS = 16;
const HEADING = 24;
/** A tile that has room for its node's name, as those in trouble always have. */
const NAMED_TILE = 124;
const MOST_PULSES = 12;

export class CardMap {
  /** `on`: open(hit), hover(hit or null, x, y), cursor(node). */
  constructor(on) {
    this.on = on;
    this.map = byId("map");
    this.extent = byId("extent");
    // The tiles stand in line with what stands above them.
    this.bar = byId("field-bar");
    this.margin = 0;
    this.canvas = byId("canvas");
    this.context = this.canvas.getContext("2d");
    this.painter = new TilePainter(this.context, readColours());
    this.nodes = [];
    this.places = new Map();
    this.scene = { largestCard: 0, probe: 0, standsOut: () => null };
    this.groups = [];
    this.sections = [];
    this.slots = 1;
    this.zoom = 0;
    this.cursor = -1;
    this.dirty = new Set();
    this.wantsAll = true;
    this.frame = 0;
    this.pulses = [];
    this.stats = { frames: 0, drawn: 0, most: 0 };
    this.#listen();
  }

  /** Show these groups of nodes in this order, {title, nodes, isNamed} each; `isNamed`: the tiles are large enough for names. */
  show(groups, { largestCard, probe, standsOut }) {
    const held = this.nodes[this.cursor]?.key;
    this.groups = groups;
    const nodes = groups.flatMap((group) => group.nodes);
    this.nodes = nodes;
    this.places = new Map(nodes.map((node, index) => [node.key, index]));
    this.scene = { largestCard, probe, standsOut };
    this.cursor = held === undefined ? -1 : (this.places.get(held) ?? -1);
    this.slots = Math.min(MOST_SLOTS, nodes.reduce((most, node) => Math.max(most, node.cards.length), 1));
    this.layOut();
  }

  /** Take a node's new state without a new order; drawn in the next frame if it is in sight. */
  replace(node) {
    const index = this.places.get(node.key);
    if (index === undefined) return;
    this.nodes[index] = node;
    this.dirty.add(index);
    this.#wantFrame();
  }

  /** Let a node be seen to have changed. */
  pulse(key) {
    const index = this.places.get(key);
    if (index === undefined || this.pulses.length >= MOST_PULSES || !this.#inSight(index)) return;
    const ring = document.createElement("div");
    ring.className = "ring pulse";
    byId("rings").append(ring);
    const entry = { ring, index };
    this.pulses.push(entry);
    this.#placeRing(ring, index);
    const end = () => {
      ring.remove();
      this.pulses = this.pulses.filter((each) => each !== entry);
    };
    ring.addEventListener("animationend", end);
    // Where motion is reduced there is no animation that could end.
    if (getComputedStyle(ring).animationName === "none") end();
  }

  /** Change the tiles' size: -1, +1, or 0 to fit. */
  zoomBy(step) {
    this.zoom = step === 0 ? 0 : Math.max(-6, Math.min(8, this.zoom + step));
    this.layOut();
    this.#bringIntoSight(this.cursor);
  }

  /** Ring the node that the panel shows; null for none. */
  markOpen(key) {
    this.openKey = key;
    this.#placeRings();
  }

  /** Take the colours of a new theme. */
  recolour() {
    this.painter = new TilePainter(this.context, readColours());
    this.#redrawAll();
  }

  /** Lay everything out again: other nodes, another size of the window or of the tiles. */
  layOut() {
    this.margin = parseFloat(getComputedStyle(this.bar).paddingLeft);
    const width = this.extent.clientWidth - 2 * this.margin;
    if (width <= 0) return;
    const seen = this.#sight().height;
    const em = parseFloat(getComputedStyle(document.documentElement).fontSize) / 14;
    const look = { slots: this.slots, em };
    const height = this.#scrolls() ? this.map.clientHeight - this.#spent(width, look) : Infinity;
    let top = 0;
    let first = 0;
    this.sections = this.groups.map(({ title, nodes, isNamed }) => {
      const section = { title, first, count: nodes.length, em, ...this.#choose(width, height, look, isNamed) };
      section.rows = Math.ceil(nodes.length / section.columns);
      section.step = section.size.height + section.gap;
      section.top = top + section.gap + (title ? HEADING * em : 0);
      section.end = section.top + section.rows * section.step;
      top = section.end;
      first += nodes.length;
      return section;
    });
    const whole = top + this.margin;
    this.extent.style.height = `${whole}px`;
    this.#sizeCanvas(Math.min(Math.max(seen, 1), Math.max(whole, 1)));
    this.#redrawAll();
  }

  /** The height that headings and tiles with names take from the others. */
  #spent(width, look) {
    const named = NAMED_TILE * look.em;
    const abreast = columnsIn(width, named, Math.max(1, this.nodes.length));
    const heightOf = ({ title, nodes, isNamed }) =>
      (title ? HEADING * look.em : 0) + (isNamed ? Math.ceil(nodes.length / abreast) * measureTile(named, look).height : 0);
    return this.groups.reduce((sum, group) => sum + heightOf(group), 0);
  }

  /** How wide the tiles of a group are and how many stand abreast; only tiles that are alone grow into the height that is left. */
  #choose(width, height, look, isNamed) {
    const count = Math.max(1, this.nodes.length);
    const fitted = this.#scrolls() ? fit({ count, width, height: height - 2 * this.margin, look }) : share(count, width, look);
    const zoomed = (isNamed ? Math.max(fitted, NAMED_TILE * look.em) : fitted) * 1.22 ** this.zoom;
    const wanted = Math.max(NARROWEST, Math.min(1.5 * widestTile(look), zoomed));
    const gap = gapOf(wanted);
    const columns = columnsIn(width, wanted, count);
    const tile = Math.min((width - gap * (columns - 1)) / columns, wanted * STRETCH);
    const rows = Math.ceil(count / columns);
    const plain = measureTile(tile, look);
    // Where the page scrolls rows are as tall as a finger needs them.
    const scrolled = plain.asRows ? 0.6 * plain.bars : 0;
    const left = !Number.isFinite(height) ? scrolled : this.groups.length === 1 ? (height - this.margin - gap) / rows - plain.height - gap : 0;
    const room = count <= FEW && this.zoom === 0 ? left : Math.max(0, left);
    const size = measureTile(tile, { ...look, room });
    return { gap, columns, size, scene: { ...this.scene, size } };
  }

  #scrolls() {
    return getComputedStyle(this.map).overflowY !== "visible";
  }

  /** The part of the extent that is in sight: where it begins and how tall it is. */
  #sight() {
    const extent = this.extent.getBoundingClientRect();
    const clip = this.#scrolls() ? this.map.getBoundingClientRect() : { top: 0, bottom: window.innerHeight };
    return { top: Math.max(0, clip.top - extent.top), height: clip.bottom - clip.top };
  }

  #sizeCanvas(height) {
    const scale = window.devicePixelRatio || 1;
    const width = this.extent.clientWidth;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.height = height;
    this.context.setTransform(scale, 0, 0, scale, 0, 0);
  }

  #redrawAll() {
    this.wantsAll = true;
    this.#wantFrame();
  }

  #wantFrame() {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.frame = 0;
    const { top } = this.#sight();
    this.top = top;
    let drawn = 0;
    const paint = (index, { size, scene }) => {
      const { x, y } = this.#place(index);
      this.context.clearRect(x - 1, y - top - 2, size.width + 2, size.height + 4);
      this.painter.paint(this.nodes[index], x, y - top, scene);
      drawn += 1;
    };
    if (this.wantsAll) this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    for (const section of this.sections) {
      const { first, count, columns, step } = section;
      const from = first + Math.max(0, Math.floor((top - section.top) / step)) * columns;
      const to = Math.min(first + count, first + (Math.ceil((top + this.height - section.top) / step) + 1) * columns);
      if (!this.wantsAll) {
        for (const index of this.dirty) if (index >= from && index < to) paint(index, section);
        continue;
      }
      if (section.title) this.painter.heading(section.title, this.margin, section.top - top - 8 * section.em, section.em);
      for (let index = from; index < to; index += 1) paint(index, section);
    }
    this.wantsAll = false;
    this.dirty.clear();
    this.#count(drawn);
    this.#placeRings();
  }

  #count(drawn) {
    this.stats.frames += 1;
    this.stats.drawn += drawn;
    this.stats.most = Math.max(this.stats.most, drawn);
    // For measurements: how much work drawing is.
    Object.assign(this.canvas.dataset, { frames: this.stats.frames, drawn: this.stats.drawn, last: drawn });
  }

  #sectionOf(index) {
    return this.sections.findLast((section) => section.first <= index);
  }

  #place(index) {
    const { first, columns, size, gap, step, top } = this.#sectionOf(index);
    const column = (index - first) % columns;
    const row = Math.floor((index - first) / columns);
    return { x: this.margin + column * (size.width + gap), y: top + row * step, size };
  }

  #inSight(index) {
    const { y, size } = this.#place(index);
    return y + size.height > (this.top ?? 0) && y < (this.top ?? 0) + this.height;
  }

  #placeRing(ring, index) {
    const { x, y, size } = this.#place(index);
    ring.style.transform = `translate(${x}px, ${y - (this.top ?? 0)}px)`;
    ring.style.width = `${size.width}px`;
    ring.style.height = `${size.height}px`;
    ring.style.borderRadius = size.width >= 60 ? "8px" : "3px";
    ring.hidden = false;
  }

  #placeRings() {
    const rings = [["hover-ring", this.hovered ?? -1], ["cursor-ring", this.cursor], ["open-ring", this.places.get(this.openKey) ?? -1]];
    for (const [id, index] of rings) {
      if (index >= 0 && index < this.nodes.length) this.#placeRing(byId(id), index);
      else byId(id).hidden = true;
    }
    for (const { ring, index } of this.pulses) this.#placeRing(ring, index);
  }

  /** What stands under a place of the window. */
  #hit(event) {
    const box = this.extent.getBoundingClientRect();
    const x = event.clientX - box.left - this.margin;
    const section = this.sections.findLast((each) => event.clientY - box.top >= each.top);
    if (x < 0 || section === undefined) return null;
    const { first, count, columns, size, gap, step, top } = section;
    const y = event.clientY - box.top - top;
    const column = Math.floor(x / (size.width + gap));
    const row = Math.floor(y / step);
    const place = row * columns + column;
    const inX = x - column * (size.width + gap);
    const inY = y - row * step;
    if (column >= columns || place >= count || inX >= size.width || inY >= size.height) return null;
    const node = this.nodes[first + place];
    return { node, index: first + place, ...hitTile(node, inX, inY, size, this.scene.largestCard) };
  }

  #listen() {
    new ResizeObserver(() => this.layOut()).observe(this.map);
    this.map.addEventListener("scroll", () => this.#redrawAll(), { passive: true });
    window.addEventListener("scroll", () => this.#redrawAll(), { passive: true });
    window.addEventListener("resize", () => this.layOut());
    this.extent.addEventListener("pointermove", (event) => {
      const hit = event.pointerType === "touch" ? null : this.#hit(event);
      this.hovered = hit?.index ?? -1;
      this.extent.style.cursor = hit ? "pointer" : "";
      this.#placeRings();
      this.on.hover(hit, event.clientX, event.clientY);
    });
    this.extent.addEventListener("pointerleave", () => {
      this.hovered = -1;
      this.#placeRings();
      this.on.hover(null, 0, 0);
    });
    this.extent.addEventListener("click", (event) => {
      const hit = this.#hit(event);
      if (hit === null) return;
      this.cursor = hit.index;
      this.on.cursor(hit.node);
      this.on.open(hit);
    });
    this.map.addEventListener("keydown", (event) => this.#key(event));
    this.map.addEventListener("focus", () => {
      if (this.cursor < 0 && this.nodes.length > 0) this.#moveTo(0);
      else this.#placeRings();
    });
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || this.nodes.length === 0) return;
    const at = Math.max(0, this.cursor);
    const { step, columns } = this.#sectionOf(at);
    const page = Math.max(1, Math.floor(this.height / step)) * columns;
    const last = this.nodes.length - 1;
    const targets = {
      ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: this.#below(at), ArrowUp: this.#above(at),
      PageDown: Math.min(last, at + page), PageUp: Math.max(0, at - page), Home: 0, End: last,
    };
    if (event.key in targets) {
      event.preventDefault();
      const target = targets[event.key];
      if (target >= 0 && target <= last) this.#moveTo(target);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.on.open({ node: this.nodes[at], index: at, card: null, held: null });
    }
  }

  /** The node a row below; the last row of a group is followed by the first of the next. */
  #below(at) {
    const { first, count, columns } = this.#sectionOf(at);
    const next = this.sections.find((section) => section.first > at);
    if (at + columns < first + count || next === undefined) return at + columns;
    return next.first + Math.min((at - first) % columns, next.count - 1);
  }

  #above(at) {
    const { first, columns } = this.#sectionOf(at);
    if (at - columns >= first || first === 0) return at - columns;
    const before = this.#sectionOf(first - 1);
    return Math.min(before.first + (before.rows - 1) * before.columns + ((at - first) % columns), first - 1);
  }

  #moveTo(index) {
    this.cursor = index;
    this.#bringIntoSight(index);
    this.#placeRings();
    this.on.cursor(this.nodes[index], index, this.nodes.length);
  }

  #bringIntoSight(index) {
    if (index < 0 || !this.#scrolls()) return;
    const { y, size } = this.#place(index);
    const { gap } = this.#sectionOf(index);
    const end = y + size.height + gap;
    if (y - gap < this.map.scrollTop) this.map.scrollTop = y - gap;
    else if (end > this.map.scrollTop + this.map.clientHeight) this.map.scrollTop = end - this.map.clientHeight;
  }
}
