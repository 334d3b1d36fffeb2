// The same nodes as rows: for reading rather than looking, and for screen readers.

import { byId, el, replaceContent } from "./dom.js";
import { cardStrip, chip, nodeLink, nodeTroubles } from "./parts.js";
import { amount, count, t } from "./text.js";

const FIRST_ROWS = 100;

export class NodeTable {
  constructor(go) {
    this.go = go;
    this.table = byId("table");
    this.rows = FIRST_ROWS;
  }

  /** Show nodes in this order. */
  show(nodes) {
    const names = ["node", "model", "granted", "largest", "pods", "state"];
    const head = names.map((name) => el("th", { scope: "col", class: name === "largest" || name === "pods" ? "number" : "" }, t(`column-${name}`)));
    const rows = nodes.slice(0, this.rows).map((node) => this.#row(node));
    const more = nodes.length > this.rows
      ? el("button", { class: "quiet", type: "button", data: { id: "more-rows" }, on: { click: () => { this.rows += FIRST_ROWS; this.show(nodes); } } },
        t("more", { n: count(Math.min(FIRST_ROWS, nodes.length - this.rows)) }))
      : null;
    replaceContent(this.table, el("table", { "aria-rowcount": nodes.length + 1 }, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows)), more);
  }

  #row(node) {
    return el("tr", {},
      el("th", { scope: "row" }, nodeLink(node.key, node.name, this.go)),
      el("td", {}, node.model),
      el("td", { class: "use" }, el("div", { class: "cells", "aria-hidden": "true" }, node.cards.map((card) => cardStrip(card))),
        el("span", { class: "subtext" }, t("card-granted", { used: amount(node.usedBytes), total: amount(node.totalBytes) }))),
      el("td", { class: "number" }, amount(node.largestBytes)),
      el("td", { class: "number" }, count(node.pods.length)),
      el("td", {}, el("div", { class: "chips" }, nodeTroubles(node).map(([words, kind]) => chip(words, kind)), node.problem ? chip(node.problem, "bad") : null)));
  }
}
