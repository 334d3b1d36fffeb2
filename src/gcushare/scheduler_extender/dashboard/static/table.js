// The same nodes as rows: for reading rather than looking, and for screen readers.

import { byId, el, replaceContent } from "./dom.js";
import { hueOf } from "./palette.js";
import { nodeLink } from "./parts.js";
import { amount, count, t } from "./text.js";
import { freeStep } from "./tiles.js";

const FIRST_ROWS = 100;

export class NodeTable {
  constructor(go) {
    this.go = go;
    this.table = byId("table");
    this.rows = FIRST_ROWS;
  }

  /** Show nodes in this order. */
  show(nodes, largestCard) {
    const names = ["node", "model", "granted", "largest", "pods", "state"];
    const head = names.map((name) => el("th", { scope: "col", class: name === "largest" || name === "pods" ? "number" : "" }, t(`column-${name}`)));
    const rows = nodes.slice(0, this.rows).map((node) => this.#row(node, largestCard));
    const more = nodes.length > this.rows
      ? el("button", { class: "quiet", type: "button", data: { id: "more-rows" }, on: { click: () => { this.rows += FIRST_ROWS; this.show(nodes, largestCard); } } },
        t("more", { n: count(Math.min(FIRST_ROWS, nodes.length - this.rows)) }))
      : null;
    replaceContent(this.table, el("table", { "aria-rowcount": nodes.length + 1 }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)), more);
  }

  #row(node, largestCard) {
    const states = [
      node.unready ? t("node-unready") : "", node.sick ? t("node-sick", { n: count(node.sick) }) : "",
      node.cordoned ? t("node-cordoned", { n: count(node.cordoned) }) : "", node.problem ?? "",
    ].filter(Boolean);
    return el("tr", {},
      el("th", { scope: "row" }, nodeLink(node.key, node.name, this.go)),
      el("td", {}, [...node.models].join(", ")),
      el("td", { class: "use" }, el("div", { class: "cells", "aria-hidden": "true" }, node.cards.map((card) => cell(card, largestCard))),
        el("span", { class: "subtext" }, t("card-granted", { used: amount(node.usedBytes), total: amount(node.totalBytes) }))),
      el("td", { class: "number" }, amount(node.largestBytes)),
      el("td", { class: "number" }, count(node.pods.length)),
      el("td", {}, states.join(" · ")));
  }
}

function cell(card, largestCard) {
  const box = el("span", { data: card.sick || card.missing ? { sick: "" } : {} });
  const scale = Math.max(card.totalBytes, card.usedBytes, 1);
  for (const held of card.held) {
    const part = el("b", { class: held.whole ? "whole" : "" });
    part.style.width = `${(100 * held.bytes) / scale}%`;
    part.style.background = `var(--soft-${hueOf(held.pod.ns)})`;
    box.append(part);
  }
  const free = el("b");
  free.style.width = `${(100 * card.openBytes) / scale}%`;
  free.style.background = `var(--free-${Math.max(0, freeStep(card.openBytes, largestCard, 0))})`;
  box.append(free);
  return box;
}
