// The band at the top: how much is granted, the largest request that fits, the pieces of free memory, what needs a look.

import { byId, el, icon, replaceContent, setText } from "./dom.js";
import { areByPod, colourOfSpace } from "./palette.js";
import { probe } from "./store.js";
import { amount, count, counted, exact, share, t } from "./text.js";

const MOST_BARS = 16;
const LEGEND_NAMESPACES = 5;
const GIB = 2 ** 30;

/** Show the sums of the nodes chosen; `on` has list(kind) and namespace(name). */
export function showGlance(sum, waiting, on) {
  // Without nodes there are no figures, only what waits for them.
  byId("glance").hidden = sum.nodes === 0 && waiting === 0;
  byId("glance").toggleAttribute("data-none", sum.nodes === 0);
  showGranted(sum);
  showLargest(sum);
  showAttention(sum, waiting, on);
}

function showGranted(sum) {
  setText(byId("granted-share"), share(sum.usedBytes, sum.totalBytes));
  const words = [t("of-total", { used: amount(sum.usedBytes), total: amount(sum.totalBytes) }), t("free-now", { free: amount(sum.freeBytes) })];
  setText(byId("granted-words"), words.join("\n"));
  const ribbon = byId("ribbon");
  const order = ranked(sum);
  ribbon.replaceChildren(...order.map(([ns, bytes]) => piece(ns, bytes, sum.totalBytes)));
  ribbon.setAttribute("aria-label", order.slice(0, LEGEND_NAMESPACES).map(([ns, bytes]) => `${ns} ${amount(bytes)}`).join(", ") || t("granted"));
}

function ranked(sum) {
  return [...sum.byNamespace].filter((each) => each[1] > 0).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

function piece(ns, bytes, total) {
  const part = el("span", { title: `${ns}: ${amount(bytes)}` });
  part.style.width = `${(100 * bytes) / total}%`;
  part.style.background = colourOfSpace(ns);
  return part;
}

function showLargest(sum) {
  const { largest } = sum;
  setText(byId("largest"), largest === null ? "—" : exact(largest.bytes));
  setText(byId("largest-where"), largest === null ? t("largest-none") : t("largest-where", { card: largest.card.index, node: largest.node.name }));
  setText(byId("whole-free"), [sum.untouched > 0 ? counted("untouched", sum.untouched) : t("untouched-none"), sum.servesWhole > 0 ? counted("whole-free", sum.emptyCards) : ""].filter(Boolean).join(" · "));
  byId("room").replaceChildren(...roomFor(sum).map(([size, places]) => el("li", {}, el("b", {}, count(places)), ` × ${exact(size)}`)));
}

/** How many more pods of an eighth, a quarter, half and a whole card there is room for, in whole units: each piece holds what fits into it. */
function roomFor({ largestCard, unitBytes, pieces }) {
  const sizes = [8, 4, 2, 1].map((part) => wholeUnits(largestCard / part, unitBytes)).filter((size) => size > 0);
  return [...new Set(sizes)].map((size) => [size, pieces.reduce((places, piece) => places + Math.floor(piece / size + 1e-9), 0)]);
}

/** The most whole units in these bytes: people can ask for nothing else. */
function wholeUnits(bytes, unitBytes) {
  return Math.floor(bytes / unitBytes + 1e-9) * unitBytes;
}

function showAttention(sum, waiting, on) {
  const found = [
    ["waiting", waiting], ["sick", sum.sick], ["overuse", sum.overuse], ["unready", sum.unready], ["uncounted", sum.uncounted], ["unreadable", sum.unreadable],
    ["cordoned", sum.cordoned], ["corrected", sum.corrected],
  ].filter((each) => each[1] > 0);
  const rows = found.map(([kind, n]) =>
    el("li", {}, el("button", { class: "quiet", type: "button", data: { kind, id: `attention-${kind}` }, on: { click: () => on.list(kind) } },
      icon(kind), el("b", {}, count(n)), " ", el("span", {}, counted(kind, n)))));
  replaceContent(byId("attention"), rows.length > 0 ? rows : el("li", { class: "well" }, icon("fits"), t("all-well")));
}

/** The histogram with its slider. `step` is what one move of the slider means, in bytes: whole units, as people ask for. */
export class Pieces {
  constructor(onProbe) {
    this.slider = byId("probe");
    this.histogram = byId("histogram");
    this.step = GIB;
    this.slider.addEventListener("input", () => onProbe(Number(this.slider.value) * this.step));
  }

  /** Show the pieces of these nodes, with those that a request of `size` bytes can use. */
  show(nodes, sum, size) {
    const unit = sum.unitBytes || GIB;
    const most = Math.max(sum.largestCard, unit);
    this.step = most / GIB >= 8 && GIB >= unit ? GIB : Math.max(unit, wholeUnits(most / MOST_BARS, unit));
    const steps = Math.floor(most / this.step + 1e-9);
    if (Number(this.slider.max) !== steps) this.slider.max = String(steps);
    if (document.activeElement !== this.slider || Number(this.slider.value) * this.step !== size) this.slider.value = String(Math.round(size / this.step));
    const width = Math.ceil(most / MOST_BARS / this.step - 1e-9) * this.step;
    const found = Array.from({ length: Math.ceil(most / width - 1e-9) }, () => ({ bytes: 0, pieces: 0 }));
    for (const bytes of sum.pieces) {
      const bar = found[Math.min(found.length - 1, Math.max(0, Math.ceil(bytes / width - 1e-9) - 1))];
      bar.bytes += bytes;
      bar.pieces += 1;
    }
    const tallest = Math.max(...found.map((each) => each.bytes), 1);
    while (this.histogram.children.length < found.length) this.histogram.append(el("div"));
    while (this.histogram.children.length > found.length) this.histogram.lastChild.remove();
    found.forEach((each, place) => this.#bar(this.histogram.children[place], { ...each, from: place * width, to: (place + 1) * width, tallest, size }));
    const middle = Math.round(found.length / 2) * width;
    byId("axis").replaceChildren(...[0, middle, found.length * width].map((bytes) => el("span", {}, exact(bytes))));
    this.#words(nodes, size);
  }

  #bar(bar, { from, to, bytes, pieces, tallest, size }) {
    bar.style.height = bytes === 0 ? "0" : `${Math.max(4, (100 * bytes) / tallest)}%`;
    bar.toggleAttribute("data-empty", bytes === 0);
    bar.dataset.use = size === 0 ? "" : to < size ? "lost" : "usable";
    bar.title = pieces === 0 ? "" : t("piece-bar", { n: count(pieces), from: exact(from), to: exact(to), sum: amount(bytes) });
  }

  #words(nodes, size) {
    setText(byId("probe-size"), size > 0 ? exact(size) : t("probe-any"));
    this.slider.setAttribute("aria-valuetext", size > 0 ? exact(size) : t("probe-any"));
    let words = t("probe-off");
    if (size > 0) {
      const found = probe(nodes, size);
      const fits = found.cards > 0 ? t("probe-fits", { cards: counted("cards", found.cards), nodes: counted("nodes", found.nodes) }) : t("probe-none");
      words = found.free > 0 ? `${fits} · ${t("probe-lost", { share: share(found.free - found.usable, found.free) })}` : fits;
    }
    setText(byId("probe-words"), words);
    this.histogram.setAttribute("aria-label", t("pieces-label", { text: words }));
  }
}

/** The namespaces that hold most, which filter when pressed, with what they hold. */
export function showNamespaces(sum, chosen, on) {
  const order = ranked(sum);
  const named = order.slice(0, LEGEND_NAMESPACES);
  if (chosen && !named.some(([ns]) => ns === chosen)) named.push([chosen, sum.byNamespace.get(chosen) ?? 0]);
  const rows = named.map(([ns, bytes]) => {
    const colour = el("i");
    colour.style.background = colourOfSpace(ns);
    return el("li", {}, el("button", {
      class: "quiet", type: "button", "aria-pressed": ns === chosen, data: { id: `space-${ns}` }, on: { click: () => on.namespace(ns === chosen ? "" : ns) },
    }, colour, ns, el("b", {}, amount(bytes))));
  });
  const others = order.length - named.length;
  if (others > 0) rows.push(el("li", {}, el("span", { class: "key" }, t("others", { n: count(others) }))));
  replaceContent(byId("spaces"), rows);
}

/** The key to the marks of the map, where a request of `size` bytes is tried: with what it can use. */
export function showLegend(sum, size) {
  const free = size > 0 ? ["fits", "lost"] : ["free", "sliver"];
  const keys = [...(sum.nodes > 0 ? free : []), ...(areByPod() && sum.pods > 1 ? ["pods"] : []), ...["whole", "pending", "corrected", "overuse", "sick", "cordoned", "closed"].filter((key) => sum[key] > 0)];
  byId("legend").replaceChildren(...keys.map((key) => el("li", {}, el("span", { class: "key" }, el("i", { data: { key } }), t(`key-${key}`)))));
}
