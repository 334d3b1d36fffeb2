// The panel at the side: one node, one pod, or a list of what needs a look. It is drawn again when what it shows changes.

import { whenCalm } from "./calm.js";
import { byId, el, replaceContent, setText } from "./dom.js";
import { choose, showsWaiting } from "./filter.js";
import { Explanations, explanationBlock, neverFits } from "./explaining.js";
import { askWords, cardBlock, cardTroubles, chip, facts, labelChips, nodeLink, podLink, section, swatch } from "./parts.js";
import { keyOf } from "./store.js";
import { age, amount, count, knows, t } from "./text.js";

const FIRST_ROWS = 100;

export class Panel {
  /** `go(changes)` changes the address; `close()` closes the panel. */
  constructor(cluster, go) {
    this.cluster = cluster;
    this.go = go;
    this.shown = "";
    this.rows = FIRST_ROWS;
    const refresh = () => this.refresh();
    this.explanations = new Explanations(() => whenCalm(refresh));
    this.panel = byId("panel");
    this.body = byId("panel-body");
  }

  /** Show what the route names; returns whether the panel is open. */
  show(route) {
    const wanted = route.pod ? `pod ${route.pod}` : route.node ? `node ${route.node}` : route.list ? `list ${route.list}` : "";
    this.route = route;
    if (wanted !== this.shown) {
      this.rows = FIRST_ROWS;
      this.explanations.forget();
      if (!this.shown) this.opener = document.activeElement;
      this.shown = wanted;
      this.body.scrollTop = 0;
      this.panel.hidden = wanted === "";
      this.refresh();
      if (wanted) byId("panel-title").focus({ preventScroll: true });
      else if (this.opener instanceof HTMLElement && this.opener.isConnected) this.opener.focus({ preventScroll: true });
    } else {
      this.refresh();
    }
    return wanted !== "";
  }

  /** The keys of the nodes that are shown, so that a change elsewhere costs nothing. */
  concerns(keys, waiting) {
    if (!this.shown) return false;
    if (this.route.list || (this.route.pod && waiting)) return true;
    const key = this.route.node || this.homeOf;
    return key === undefined || keys.has(key);
  }

  /** Draw it again as things are now. */
  refresh() {
    if (!this.shown) return;
    const { route } = this;
    this.homeOf = undefined;
    if (route.pod) this.#pod(...splitPod(route.pod));
    else if (route.node) this.#node(route.node);
    else if (route.list === "waiting") this.#waiting();
    else this.#trouble(route.list);
  }

  #fill(kind, title, ...content) {
    setText(byId("panel-kind"), kind);
    setText(byId("panel-title"), title);
    replaceContent(this.body, ...content);
  }

  #node(key) {
    const node = this.cluster.nodes.get(key);
    if (node === undefined) {
      this.#fill(t("node"), key.slice(key.indexOf("/") + 1), el("p", {}, t("node-gone")));
      return;
    }
    const { go } = this;
    const cards = node.cards.map((card) => cardBlock(card, node, { go }));
    this.#fill(`${t("node")} · ${this.cluster.vendors.get(node.vendor)?.word ?? node.vendor}`, node.name,
      el("div", { class: "chips" },
        node.unready ? chip(t("not-ready"), "bad") : chip(t("ready"), "good"),
        node.unschedulable ? chip(t("unschedulable"), "warn") : null,
        (node.taints ?? []).map((taint) => chip(t("taint", { taint }), "warn")),
        node.settling ? chip(t("settling"), "warn") : null,
        chip(t("card-granted", { used: amount(node.usedBytes), total: amount(node.totalBytes) })),
        chip(`${t("largest")}: ${amount(node.largestBytes)}`)),
      node.problem ? el("p", { class: "problem" }, node.problem) : null,
      node.uncounted ? el("p", { class: "problem" }, t("uncounted-words")) : null,
      el("section", { "aria-label": t("column-cards") }, cards),
      this.#podsOf(node),
      section(t("labels"), labelChips(node.labels, go)),
      facts([[t("use"), this.#useCommand(node)], [t("serves"), knows(`serves-${node.serves}`) ? t(`serves-${node.serves}`) : node.serves], [t("address"), node.address], [t("unit"), node.assumedUnit ? `${node.unit} (${t("assumed-unit")})` : node.unit]]));
  }

  #podsOf(node) {
    if (node.pods.length === 0) return section(t("pods-here"), el("p", { class: "subtext" }, t("no-pods")));
    const rows = node.pods.slice(0, this.rows).map((pod) =>
      el("li", {}, swatch(pod), podLink(pod, this.go), el("span", { class: "amount" }, pod.grants.length ? amount(pod.bytes) : t("without-card")),
        pod.problem ? el("p", { class: "reason bad" }, pod.problem) : null,
        pod.overUse ? el("p", { class: "reason bad" }, t("overuse-words", { use: pod.overUse })) : null,
        pod.corrected ? el("p", { class: "reason" }, t("corrected-words", { change: pod.corrected })) : null));
    return section(`${t("pods-here")} · ${count(node.pods.length)}`, el("ul", { class: "rows" }, rows), this.#more(node.pods.length));
  }

  #more(total) {
    if (total <= this.rows) return null;
    const next = Math.min(FIRST_ROWS, total - this.rows);
    return el("button", { class: "quiet", type: "button", data: { id: "more" }, on: { click: () => { this.rows += next; this.refresh(); } } }, t("more", { n: count(next) }));
  }

  #pod(vendor, ns, name) {
    const found = this.cluster.findPod(vendor, ns, name);
    const title = `${ns}/${name}`;
    if (found === null) {
      this.#fill(t("pod"), title, el("p", {}, t("state-gone")));
      return;
    }
    const { node, pod } = found;
    this.homeOf = node?.key;
    this.#fill(t("pod"), title, node === null ? this.#waitingPod(pod) : this.#boundPod(pod, node), section(t("labels"), labelChips(pod.labels, this.go)));
  }

  #boundPod(pod, node) {
    const [words, kind] = stateOf(pod);
    const cards = node.cards.filter((card) => card.held.some((held) => held.pod.uid === pod.uid));
    const held = pod.grants.map(([index, units, whole]) =>
      el("p", {}, whole ? t("on-whole", { card: index }) : t("on-card", { card: index, amount: amount(units * node.unitBytes) })));
    return [
      el("div", { class: "chips" }, chip(words, kind), pod.ending ? chip(t("state-ending"), "warn") : null),
      pod.problem ? el("p", { class: "problem" }, pod.problem) : null,
      pod.overUse ? el("p", { class: "problem" }, t("overuse-words", { use: pod.overUse })) : null,
      pod.corrected ? el("p", { class: "quote" }, t("corrected-words", { change: pod.corrected })) : null,
      facts([
        [t("node"), nodeLink(node.key, node.name, this.go)],
        [t("holds"), held.length ? held : t("without-card")],
        [t("limit"), pod.limitBytes ? t("limit-words", { amount: amount(pod.limitBytes) }) : ""],
        [t("use"), this.#useOf(pod, node)],
        [t("age"), pod.created ? age(this.cluster.ageOf(pod.created)) : ""],
        [t("owner"), pod.owner], [t("priority"), pod.priority ? count(pod.priority) : ""], ["UID", pod.uid],
      ]),
      el("section", { "aria-label": t("column-cards") }, cards.map((card) => cardBlock(card, node, { go: this.go, chosen: pod }))),
    ];
  }

  #useOf(pod, node) {
    if (pod.uses.length > 0) return pod.uses.map(([card, bytes]) => el("p", {}, t("use-words", { card, amount: amount(bytes) })));
    return pod.idleSince ? t("use-idle", { age: age(this.cluster.ageOf(pod.idleSince)) }) : this.#useCommand(node);
  }

  /** What a node's pods really use is known there, not to the extender: how to ask. */
  #useCommand(node) {
    const inspect = this.cluster.vendors.get(node.vendor)?.inspect ?? node.vendor;
    return [el("p", {}, t("use-elsewhere")), el("code", {}, `kubectl inspect ${inspect} top ${node.name}`)];
  }

  #waitingPod(pod) {
    const isNever = Boolean(pod.problem) || neverFits(this.explanations.get(pod).document);
    return [
      el("div", { class: "chips" }, isNever ? chip(t("state-never"), "bad") : chip(t("state-waiting"), "warn"), pod.choosy ? chip(t("asks-choosy")) : null),
      facts([
        [t("asks"), askWords(pod, (units) => this.#bytesOf(pod, units))],
        [t("age"), pod.created ? age(this.cluster.ageOf(pod.created)) : ""],
        [t("owner"), pod.owner], [t("priority"), pod.priority ? count(pod.priority) : ""], ["UID", pod.uid],
      ]),
      section(t("why"), explanationBlock(this.explanations.get(pod), { go: this.go, vendor: pod.vendor, bytesOf: (units, node) => this.#bytesOf(pod, units, node) })),
      pod.scheduler ? section(t("scheduler-says"), el("p", { class: "quote" }, pod.scheduler)) : null,
    ];
  }

  #waiting() {
    const pods = [...this.cluster.waiting.values()]
      .filter((pod) => showsWaiting(pod, this.route))
      .sort((a, b) => (b.priority ?? 0) - (a.priority ?? 0) || ((a.created ?? "") < (b.created ?? "") ? -1 : 1));
    const rows = pods.slice(0, this.rows).map((pod, place) => {
      const shown = pod.problem ? { summary: t("explain-refused", { problem: pod.problem }), bad: true }
        : this.explanations.summary(pod, place, (units, node) => this.#bytesOf(pod, units, node));
      return el("li", {}, swatch(pod), podLink(pod, this.go), el("span", { class: "amount" }, pod.created ? age(this.cluster.ageOf(pod.created)) : ""),
        el("p", { class: shown.bad ? "reason bad" : "reason" }, askWords(pod, (units) => this.#bytesOf(pod, units))),
        shown.summary ? el("p", { class: shown.bad ? "reason bad" : "reason" }, shown.summary) : null);
    });
    this.#fill(count(pods.length), t("waiting-title"), rows.length ? el("ul", { class: "rows" }, rows) : el("p", {}, t("no-waiting")), this.#more(pods.length));
  }

  /** Units of the node that is named; without a name those that the pod's author names, else those of its vendor's first node. */
  #bytesOf({ vendor, perGib }, units, name = "") {
    const named = this.cluster.nodes.get(keyOf(vendor, name));
    if (named !== undefined) return units * named.unitBytes;
    if (perGib) return units * 2 ** 30 / perGib;
    for (const node of this.cluster.nodes.values()) if (node.vendor === vendor) return units * node.unitBytes;
    return units * 2 ** 30;
  }

  #trouble(first) {
    const groups = { sick: [], overuse: [], unready: [], uncounted: [], unreadable: [], cordoned: [], corrected: [] };
    for (const node of choose(this.cluster.nodes.values(), this.route)) this.#gather(groups, node);
    const order = Object.keys(groups).sort((a, b) => (b === first) - (a === first));
    const shown = order.filter((kind) => groups[kind].length > 0).map((kind) =>
      section(`${t(`${kind}-title`)} · ${count(groups[kind].length)}`, el("ul", { class: "rows" }, groups[kind].slice(0, this.rows)), this.#more(groups[kind].length)));
    this.#fill("", t("trouble-title"), shown.length ? shown : el("p", {}, t("all-well")));
  }

  #gather(groups, node) {
    const row = (words, ...reasons) => el("li", {}, el("span"), nodeLink(node.key, words, this.go), el("span", { class: "amount" }), ...reasons);
    const reason = (words, bad = false) => el("p", { class: bad ? "reason bad" : "reason" }, words);
    for (const card of node.cards) {
      const stay = card.held.length ? t("pods-stay", { n: count(card.held.length) }) : t("pods-none");
      const words = `${node.name} · ${t("card-title", { n: card.index })}`;
      if (card.sick || card.missing) groups.sick.push(row(words, el("div", { class: "reason" }, cardTroubles(card)), reason(stay)));
      else if (card.cordoned) groups.cordoned.push(row(words, reason(stay)));
    }
    if (node.unready) groups.unready.push(row(node.name));
    if (node.uncounted) groups.uncounted.push(row(node.name, reason(t("uncounted-words"), true)));
    if (node.problem) groups.unreadable.push(row(node.name, reason(node.problem, true)));
    for (const pod of node.pods) {
      const entry = (words, bad) => el("li", {}, swatch(pod), podLink(pod, this.go), el("span", { class: "amount" }, node.name), reason(words, bad));
      if (pod.problem) groups.unreadable.push(entry(pod.problem, true));
      if (pod.overUse) groups.overuse.push(entry(t("overuse-words", { use: pod.overUse }), true));
      if (pod.corrected) groups.corrected.push(entry(t("corrected-words", { change: pod.corrected }), false));
    }
  }
}

function stateOf(pod) {
  if (pod.reserved) return [t("state-reserved"), "warn"];
  return pod.assigned ? [t("state-assigned"), "good"] : [t("state-bound"), "warn"];
}

function splitPod(address) {
  const [vendor = "", ns = "", ...name] = address.split("/");
  return [vendor, ns, name.join("/")];
}
