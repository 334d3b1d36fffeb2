// Pieces that several views of the panel are made of.

import { el } from "./dom.js";
import { colourOf } from "./palette.js";
import { amount, count, exact, t } from "./text.js";
import { freeWords } from "./tiles.js";

/** The address of a pod, as the route spells it. */
export function podAddress(pod) {
  return `${pod.vendor}/${pod.ns}/${pod.name}`;
}

/** A pod's colour on the map. */
export function swatch(pod) {
  const colour = el("i", { class: "swatch", "aria-hidden": "true" });
  colour.style.background = colourOf(pod);
  return colour;
}

/** A button that leads to a node. */
export function nodeLink(key, words, go) {
  return el("button", { class: "link", type: "button", data: { id: `node-${key}` }, on: { click: () => go({ node: key, pod: "", list: "" }) } }, words);
}

/** A button that leads to a pod. */
export function podLink(pod, go, words = `${pod.ns}/${pod.name}`) {
  const address = podAddress(pod);
  return el("button", { class: "link", type: "button", data: { id: `pod-${address}` }, on: { click: () => go({ pod: address, node: "", list: "" }) } }, words);
}

/** Labels as chips that filter by themselves. */
export function labelChips(labels, go) {
  const pairs = Object.entries(labels ?? {});
  if (pairs.length === 0) return el("p", { class: "subtext" }, t("no-labels"));
  return el("div", { class: "chips" }, pairs.map(([key, value]) => {
    const words = value ? `${key}=${value}` : key;
    return el("button", { class: "chip", type: "button", data: { id: `label-${words}` }, on: { click: () => go({ label: words }) } }, words);
  }));
}

/** A heading with what belongs below it. */
export function section(title, ...children) {
  return el("section", {}, el("h3", {}, title), ...children);
}

/** Terms and what is said of them; entries without a value are left out. */
export function facts(pairs) {
  const kept = pairs.filter(([, value]) => value !== null && value !== "" && value !== undefined);
  return el("dl", { class: "facts" }, kept.flatMap(([term, value]) => [el("dt", {}, term), el("dd", {}, value)]));
}

export function chip(words, kind = "") {
  return el("span", { class: "chip", data: { kind } }, words);
}

/**
 * A card as a strip: its pods and what is free, with a frame where it is sick or cordoned. With `go` the pods are
 * buttons with their names. `chosen`: the pod that stands out, null for all.
 */
export function cardStrip(card, { go = null, chosen = null } = {}) {
  const scale = Math.max(card.totalBytes, card.usedBytes, 1);
  const sized = (part, bytes) => {
    part.style.width = `${(100 * bytes) / scale}%`;
    return part;
  };
  const state = card.sick || card.missing ? "sick" : card.cordoned ? "cordoned" : "";
  const strip = el("div", { class: "strip", data: { state } });
  for (const held of card.held) {
    const part = sized(go === null ? el("span") : podButton(card, held, go), held.bytes);
    part.style.setProperty("--hue", colourOf(held.pod));
    const isDimmed = chosen !== null && held.pod.uid !== chosen.uid;
    part.toggleAttribute("data-dimmed", isDimmed);
    part.toggleAttribute("data-pending", !held.pod.assigned && !isDimmed);
    part.toggleAttribute("data-whole", held.whole);
    part.toggleAttribute("data-over", Boolean(held.pod.overUse));
    strip.append(part);
  }
  const rest = Math.max(0, card.totalBytes - card.usedBytes);
  if (rest > 0 && (card.openBytes > 0 || state)) strip.append(sized(el("i", { title: t("card-free", { free: amount(rest) }) }), rest));
  return strip;
}

function podButton(card, { pod, bytes, inUse }, go) {
  const held = inUse > 0 ? t("held-used", { held: amount(bytes), used: amount(inUse) }) : amount(bytes);
  const words = [`${pod.ns}/${pod.name}: ${held}`, pod.assigned ? "" : t("key-pending")].filter(Boolean).join(" · ");
  const press = () => go({ pod: podAddress(pod), node: "", list: "" });
  return el("button", { type: "button", title: words, "aria-label": words, data: { id: `strip-${card.index}-${pod.uid}` }, on: { click: press } }, pod.name);
}

/** A card with its figures, its strip, and what is wrong with it. */
export function cardBlock(card, node, { go, chosen = null }) {
  const usable = card.openBytes > 0;
  const right = card.mode === "whole" ? t("card-mode-whole") : card.used >= card.total ? t("card-full") : freeWords(card);
  return el("div", { class: "card" },
    el("div", { class: "card-head" },
      el("h4", {}, t("card-title", { n: card.index })),
      el("span", {}, t("card-granted", { used: amount(card.usedBytes), total: amount(card.totalBytes) })),
      el("span", { class: "right", data: usable ? {} : { none: "" } }, right)),
    card.held.length > 0 || card.openBytes < card.totalBytes ? cardStrip(card, { go, chosen }) : null,
    cardTroubles(card),
    card.uuid || card.model ? el("p", { class: "uuid" }, [card.reserved ? t("card-reserved", { amount: amount(card.reserved * node.unitBytes) }) : "", card.minor == null ? "" : t("card-minor", { n: card.minor }), card.model, card.uuid].filter(Boolean).join(" · ")) : null);
}

/** What is wrong with a node, [words, kind of chip] each, the worst first. */
export function nodeTroubles(node) {
  const found = { unready: node.unready, sick: node.sick + node.missing, uncounted: node.uncounted, cordoned: node.cordoned };
  return Object.entries(found).filter((each) => each[1]).map(([key, n]) => [t(`node-${key}`, { n: count(Number(n)) }), key === "cordoned" ? "warn" : "bad"]);
}

export function cardTroubles(card) {
  const found = [];
  if (card.missing) found.push(el("p", { class: "card-note bad" }, t("card-missing")));
  if (card.sick) found.push(el("p", { class: "card-note bad" }, card.reason ? t("sick-words", { reason: card.reason }) : t("sick-plain")));
  if (card.cordoned) found.push(el("p", { class: "card-note" }, t("cordoned-words")));
  for (const { use, pod, until } of card.closed ?? []) {
    const words = use === "whole" ? t("closed-whole", { pod }) : t("closed-memory", { pod });
    const end = until ? t("closed-until", { time: new Date(1000 * until).toLocaleString(document.documentElement.lang) }) : "";
    found.push(el("p", { class: "card-note" }, [words, end].filter(Boolean).join(" ")));
  }
  return found;
}

/** What a waiting pod asks for, in words; `bytesOf` turns its units into bytes where the unit is known. */
export function askWords(pod, bytesOf) {
  if (pod.problem && !pod.units && !pod.whole) return "";
  const cards = pod.cards ?? 1;
  if (pod.whole) return t("asks-whole", { n: count(cards) });
  const each = exact(bytesOf(pod.units ?? 0));
  return cards === 1 ? t("asks-one", { amount: each }) : t("asks-many", { amount: each, n: count(cards) });
}
