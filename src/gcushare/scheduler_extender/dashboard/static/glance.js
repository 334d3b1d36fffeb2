// The band at the top: how much is granted, the largest request that fits, the pieces of free memory, what needs a look.

import { byId, el, icon, replaceContent, setText } from "./dom.js";
import { hueOf } from "./palette.js";
import { probe } from "./store.js";
import { amount, count, counted, share, t } from "./text.js";

const BUCKETS = 16;
const LEGEND_NAMESPACES = 8;
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
  part.style.background = `var(--ns-${hueOf(ns)})`;
  return part;
}

function showLargest(sum) {
  const { largest } = sum;
  setText(byId("largest"), largest === null ? "—" : amount(largest.bytes));
  setText(byId("largest-where"), largest === null ? t("largest-none") : t("largest-where", { card: largest.card.index, node: largest.node.name }));
  setText(byId("whole-free"), [sum.untouched > 0 ? counted("untouched", sum.untouched) : t("untouched-none"), sum.servesWhole > 0 ? counted("whole-free", sum.emptyCards) : ""].filter(Boolean).join(" · "));
  byId("room").replaceChildren(...roomFor(sum).map(([size, places]) => el("li", {}, el("b", {}, count(places)), ` × ${amount(size)}`)));
}

/** How many more pods of an eighth, a quarter, half and a whole card there is room for: each piece holds what fits into it. */
function roomFor(sum) {
  const sizes = [sum.largestCard / 8, sum.largestCard / 4, sum.largestCard / 2, sum.largestCard].filter((size) => size > 0);
  return sizes.map((size) => [size, sum.pieces.reduce((places, piece) => places + Math.floor(piece / size + 1e-9), 0)]);
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

/** The histogram with its slider. `step` is what one move of the slider means, in bytes. */
export class Pieces {
  constructor(onProbe) {
    this.slider = byId("probe");
    this.histogram = byId("histogram");
    this.step = GIB;
    this.bars = Array.from({ length: BUCKETS }, () => el("div"));
    this.histogram.replaceChildren(...this.bars);
    this.slider.addEventListener("input", () => onProbe(Number(this.slider.value) * this.step));
  }

  /** Show the pieces of these nodes, with those that a request of `size` bytes can use. */
  show(nodes, sum, size) {
    const most = Math.max(sum.largestCard, GIB);
    this.step = most / GIB >= 8 ? GIB : most / 16;
    const steps = Math.ceil(most / this.step);
    if (Number(this.slider.max) !== steps) this.slider.max = String(steps);
    if (document.activeElement !== this.slider || Number(this.slider.value) * this.step !== size) this.slider.value = String(Math.round(size / this.step));
    const width = most / BUCKETS;
    const sums = new Array(BUCKETS).fill(0);
    const counts = new Array(BUCKETS).fill(0);
    for (const bytes of sum.pieces) {
      const bucket = Math.min(BUCKETS - 1, Math.max(0, Math.ceil(bytes / width) - 1));
      sums[bucket] += bytes;
      counts[bucket] += 1;
    }
    const tallest = Math.max(...sums, 1);
    this.bars.forEach((bar, bucket) => this.#bar(bar, { bucket, width, bytes: sums[bucket], pieces: counts[bucket], tallest, size }));
    byId("axis").replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((part) => el("span", {}, part === 0 ? "0" : amount(most * part))));
    this.#words(nodes, size);
  }

  #bar(bar, { bucket, width, bytes, pieces, tallest, size }) {
    bar.style.height = bytes === 0 ? "0" : `${Math.max(4, (100 * bytes) / tallest)}%`;
    bar.toggleAttribute("data-empty", bytes === 0);
    bar.dataset.use = size === 0 ? "" : (bucket + 1) * width < size ? "lost" : "usable";
    bar.title = pieces === 0 ? "" : t("piece-bar", { n: count(pieces), from: amount(bucket * width), to: amount((bucket + 1) * width), sum: amount(bytes) });
  }

  #words(nodes, size) {
    setText(byId("probe-size"), size > 0 ? amount(size) : t("probe-any"));
    this.slider.setAttribute("aria-valuetext", size > 0 ? amount(size) : t("probe-any"));
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
    colour.style.background = `var(--ns-${hueOf(ns)})`;
    return el("li", {}, el("button", {
      class: "quiet", type: "button", "aria-pressed": ns === chosen, data: { id: `space-${ns}` }, on: { click: () => on.namespace(ns === chosen ? "" : ns) },
    }, colour, ns, el("b", {}, amount(bytes))));
  });
  const others = order.length - named.length;
  if (others > 0) rows.push(el("li", {}, el("span", { class: "key" }, t("others", { n: count(others) }))));
  replaceContent(byId("spaces"), rows);
}

/** The key to the marks of the map. */
export function showLegend(sum) {
  const keys = [...(sum.nodes > 0 ? ["free", "sliver"] : []), ...["whole", "pending", "corrected", "overuse", "sick", "cordoned"].filter((key) => sum[key] > 0)];
  byId("legend").replaceChildren(...keys.map((key) => el("li", {}, el("span", { class: "key" }, el("i", { data: { key } }), t(`key-${key}`)))));
}
