// A tip next to the pointer says what is under it.

import { byId, el } from "./dom.js";
import { cardTroubles, swatch } from "./parts.js";
import { amount, counted, t } from "./text.js";
import { freeWords } from "./tiles.js";

const FAR = 16;

export class Tip {
  constructor() {
    this.tip = byId("tip");
    this.field = this.tip.parentElement;
  }

  /** Show what was hit; null hides. */
  show(hit, x, y) {
    if (hit === null) {
      this.hide();
      return;
    }
    const { node, card, held } = hit;
    this.tip.replaceChildren(
      el("h3", {}, card === null ? node.name : `${node.name} · ${t("card-title", { n: card.index })}`),
      card === null ? nodeLine(node) : cardLine(card),
      ...(card === null ? [] : cardTroubles(card)),
      ...(held === null ? [] : podLines(held)));
    this.tip.hidden = false;
    this.#place(x, y);
  }

  hide() {
    this.tip.hidden = true;
  }

  #place(x, y) {
    const field = this.field.getBoundingClientRect();
    const box = this.tip.getBoundingClientRect();
    const left = x + FAR + box.width > field.right ? x - FAR - box.width : x + FAR;
    const top = Math.min(y + FAR, field.bottom - box.height - 4);
    this.tip.style.left = `${Math.max(4, left - field.left)}px`;
    this.tip.style.top = `${Math.max(4, top - field.top)}px`;
  }
}

function nodeLine(node) {
  const words = [t("card-granted", { used: amount(node.usedBytes), total: amount(node.totalBytes) }), counted("pods", node.pods.length)];
  return el("p", {}, words.join(" · "));
}

function cardLine(card) {
  return el("p", {}, [t("card-granted", { used: amount(card.usedBytes), total: amount(card.totalBytes) }), card.openBytes > 0 ? freeWords(card) : ""].filter(Boolean).join(" · "));
}

function podLines({ pod, bytes, inUse, whole }) {
  return [
    el("p", { class: "pod" }, swatch(pod), el("span", {}, `${pod.ns}/${pod.name}`)),
    el("p", {}, [inUse > 0 ? t("held-used", { held: amount(bytes), used: amount(inUse) }) : amount(bytes), pod.limitBytes ? t("limit-words", { amount: amount(pod.limitBytes) }) : "", whole ? t("card-mode-whole") : "", pod.assigned ? "" : t("key-pending"), pod.overUse ? t("key-overuse") : "", pod.corrected ? t("key-corrected") : ""].filter(Boolean).join(" · ")),
  ];
}
