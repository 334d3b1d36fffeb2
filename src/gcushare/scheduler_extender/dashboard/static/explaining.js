// Why a pod waits: the extender's own explanation, requested for one pod at a time, in the reader's language.

import { el } from "./dom.js";
import { explain } from "./feed.js";
import { nodeLink, podLink } from "./parts.js";
import { keyOf } from "./store.js";
import { amount, count, exact, knows, t } from "./text.js";

const FRESH_MS = 10_000;
const AT_ONCE = 2;
const ASKED_IN_LISTS = 30;
const MOST_KEPT = 100;

/** Explanations by pod, asked for at most two at once and again after a while; `changed` is called when one arrives. */
export class Explanations {
  constructor(changed) {
    this.changed = changed;
    this.known = new Map();
    this.queue = [];
    this.busy = 0;
  }

  /** Something else is shown now: drop what is old, and what was still to be asked, which else would never be. */
  forget() {
    for (const pod of this.queue) this.known.delete(pod.uid);
    this.queue = [];
    for (const [uid, entry] of this.known) if (Date.now() - entry.at > FRESH_MS) this.known.delete(uid);
  }

  /** What is known of a pod now: {document} or {error} or {} while it is being asked. */
  get(pod) {
    const entry = this.known.get(pod.uid);
    if (entry === undefined || (!entry.asking && Date.now() - entry.at > FRESH_MS)) {
      const next = { ...entry, asking: true, at: Date.now() };
      this.queue.push(pod);
      this.#keep(pod, next);
      this.#work();
      return next;
    }
    return entry;
  }

  /** One sentence for a list; only the first entries of a list are asked about. */
  summary(pod, place, bytesOf) {
    const entry = place < ASKED_IN_LISTS ? this.get(pod) : (this.known.get(pod.uid) ?? {});
    if (entry.document !== undefined) return { summary: verdictOf(entry.document, bytesOf), bad: neverFits(entry.document) };
    return { summary: entry.error ? t("why-failed", { error: entry.error }) : "", bad: false };
  }

  /** Through a list that is open for days thousands of pods pass: those asked about longest ago are dropped. */
  #keep(pod, entry) {
    this.known.delete(pod.uid);
    this.known.set(pod.uid, entry);
    if (this.known.size <= MOST_KEPT) return;
    const [oldest] = this.known.keys();
    this.known.delete(oldest);
    this.queue = this.queue.filter((each) => each.uid !== oldest);
  }

  #work() {
    while (this.busy < AT_ONCE && this.queue.length > 0) {
      const pod = this.queue.shift();
      this.busy += 1;
      this.#ask(pod).finally(() => {
        this.busy -= 1;
        this.#work();
        this.changed();
      });
    }
  }

  async #ask(pod) {
    try {
      this.#keep(pod, { document: await explain(pod.vendor, pod.ns, pod.name), at: Date.now() });
    } catch (error) {
      this.#keep(pod, { error: String(error.message ?? error), at: Date.now() });
    }
  }
}

/** Whether a pod can never fit as it is. */
export function neverFits(document) {
  return document?.canEverFit === false && document.state !== "bound";
}

/** The sentence that matters most of an explain document; `bytesOf(units, node)` turns units of a node into bytes. */
function verdictOf(document, bytesOf) {
  const { state, canEverFit, largestThatFitsNow = 0, request, classes = [] } = document;
  if (state === "refused") return t("explain-refused", { problem: document.summary });
  if (state === "bound") return document.summary;
  if (state === "gated") return t("explain-gated", { gates: document.gates.join(", ") });
  if (state === "fits") {
    const fitting = classes.filter((each) => each.reason === "room").reduce((sum, each) => sum + each.nodes, 0);
    return t("explain-fits", { n: count(fitting) });
  }
  if (canEverFit === false) return neverWords(document, bytesOf);
  if (canEverFit !== true) return t("explain-awaited");
  const from = classes.find((each) => each.bestCards.some((card) => card.free === largestThatFitsNow));
  return t("explain-largest", { largest: sizeWords({ ...request, units: largestThatFitsNow }, request.whole ? largestThatFitsNow : request.cards, (units) => bytesOf(units, from?.examples[0])) });
}

/** A request of so many units on each of `cards`, or of so many whole cards. */
function sizeWords({ units, whole }, cards, bytesOf) {
  if (whole) return t("asks-whole", { n: count(cards) });
  return cards > 1 ? t("asks-many", { amount: exact(bytesOf(units)), n: count(cards) }) : exact(bytesOf(units));
}

/** The most that there is of what the pod asks for; where there would be enough, something else is in the way, and the classes say what. */
function neverWords(document, bytesOf) {
  const { request, largestThatEverFits: most = 0 } = document;
  if (!request || most === 0 || most >= (request.whole ? request.cards : request.units)) return t("explain-never-other");
  if (request.whole) return t("explain-never-whole", { n: count(most) });
  const largest = exact(bytesOf(most, largestNode(document)));
  return request.cards > 1 ? t("explain-never-many", { amount: largest, n: count(request.cards) }) : t("explain-never", { amount: largest });
}

/** A node whose cards are as large as any: nodes may count in different units, and a figure is in those of the nodes that it comes from. */
function largestNode({ classes = [], largestThatEverFits }) {
  return classes.find((each) => each.cards.includes(largestThatEverFits))?.examples[0];
}

/** An explanation laid out: the verdict, what would help, and each kind of node with its reason. */
export function explanationBlock({ document, error }, { go, vendor, bytesOf }) {
  if (document === undefined) {
    return el("div", { class: "why" }, el("p", {}, error ? t("why-failed", { error }) : t("why-loading")));
  }
  const { remedy, rules, asked, classes = [], ways = [], unreadableNodes = {} } = document;
  const isNever = neverFits(document);
  const unitsOn = (units) => bytesOf(units, largestNode(document));
  return el("div", { class: "why" },
    el("p", { class: isNever ? "verdict bad" : "verdict" }, verdictOf(document, bytesOf)),
    ways.length > 0 ? el("div", { class: "ways" }, el("h4", {}, t("ways")), el("ul", {}, ways.map((way) => el("li", {}, wayWords(way, unitsOn))))) : null,
    rules ? el("p", {}, t("explain-rules", { n: count(rules.left ?? 0), known: count(rules.known) }), elsewhereWords((n) => t("explain-excluded", { n }), rules, { go, vendor })) : null,
    asked ? el("p", {}, t("explain-asked", { n: count(asked.nodes), known: count(asked.known) }), elsewhereWords((n) => t("explain-elsewhere", { n }), asked, { go, vendor })) : null,
    remedy && document.state === "waits" ? el("p", {}, t("explain-remedy", { node: remedy.node }), " ", remedyPods(remedy, { go, vendor }), remedy.preemption === false ? [" ", t("explain-by-hand")] : "") : null,
    el("ol", {}, classes.map((each) => classRow(each, { go, vendor, bytesOf, asked: isNever ? null : document.request })),
      Object.entries(unreadableNodes).map(([name, problem]) => el("li", {}, el("p", {}, nodeLink(keyOf(vendor, name), name, go)), el("p", {}, problem)))));
}

/** A change that would let the pod fit, in words. */
function wayWords({ change, units, cards = 1, whole = false, limit = 0, nodes = [], obstacle = "" }, bytesOf) {
  const n = count(cards);
  const each = exact(bytesOf(units));
  if (change === "amount") return whole ? t("way-amount-whole", { n }) : cards > 1 ? t("way-amount-many", { amount: each, n }) : t("way-amount", { amount: each });
  if (change === "cards") return t("way-cards", { key: "gcushare.io/cards", n, amount: each });
  if (change === "limit") return t("way-limit", { key: "gcushare.io/memory-limit", amount: exact(bytesOf(limit * cards)) });
  if (change === "selection") return t("way-selection", { key: "gcushare.io/use-cards, gcushare.io/avoid-cards" });
  if (change === "rules") return t("way-rules", { nodes: nodes.join(", "), obstacle });
  return whole ? t("way-node-whole", { n }) : t("way-node", { n, amount: exact(bytesOf(Math.max(units, limit))) });
}

function elsewhereWords(words, { fitElsewhere = 0, examples = [] }, { go, vendor }) {
  if (fitElsewhere === 0) return "";
  const names = examples.map((name, place) => [place > 0 ? ", " : "", nodeLink(keyOf(vendor, name), name, go)]);
  return [" ", words(count(fitElsewhere)), " ", names, fitElsewhere > examples.length ? " …" : ""];
}

function remedyPods(remedy, { go, vendor }) {
  return remedy.pods.map((address, place) => {
    const at = address.indexOf("/");
    return [place > 0 ? ", " : "", podLink({ vendor, ns: address.slice(0, at), name: address.slice(at + 1) }, go)];
  });
}

function classRow(each, { go, vendor, bytesOf: bytesOn, asked }) {
  const bytesOf = (units) => bytesOn(units, each.examples[0]);
  const key = `reason-${each.reason}`;
  const best = each.bestCards?.[0];
  return el("li", {},
    el("p", {}, el("b", {}, knows(key) ? t(key) : each.reason), each.obstacle ? ` (${each.obstacle})` : ""),
    el("p", {}, each.cards?.length ? nodesWords(each, bytesOf) : t("class-none", { n: count(each.nodes) })),
    best && asked && !asked.whole ? meter(bytesOf(best.free), bytesOf(asked.units)) : null,
    best ? el("p", {}, t("class-best", { free: amount(bytesOf(best.free)), card: best.card, node: best.node })) : null,
    el("p", {}, t("class-free", { free: amount(bytesOf(each.free)), total: amount(bytesOf(each.total)) })),
    el("p", {}, each.examples.map((name, place) => [place > 0 ? ", " : "", nodeLink(keyOf(vendor, name), name, go)]), each.nodes > each.examples.length ? " …" : ""));
}

function nodesWords(each, bytesOf) {
  const sizes = new Map();
  for (const units of each.cards) sizes.set(units, (sizes.get(units) ?? 0) + 1);
  const words = [...sizes].map(([units, n]) => `${count(n)} × ${amount(bytesOf(units))}`).join(", ");
  return t("class-nodes", { n: count(each.nodes), cards: words });
}

/** How near the best card is to what is asked. */
function meter(free, asked) {
  const bar = el("i");
  bar.style.width = `${Math.min(100, (100 * free) / Math.max(1, asked))}%`;
  return el("div", { class: "meter", role: "img", "aria-label": `${amount(free)} / ${amount(asked)}` }, bar);
}
