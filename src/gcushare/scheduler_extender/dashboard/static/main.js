// The page's wiring: the cluster's state comes in through feed, the reader's choices through the address; both are drawn.

import { whenCalm } from "./calm.js";
import { byId, el, setText } from "./dom.js";
import { follow, token } from "./feed.js";
import { SORTS, choices, choose, filtersOf, groupsOf, podPredicate, showsWaiting } from "./filter.js";
import { Pieces, showGlance, showLegend, showNamespaces } from "./glance.js";
import { CardMap } from "./map.js";
import { assignHues } from "./palette.js";
import { Panel } from "./panel.js";
import { nodeTroubles, podAddress } from "./parts.js";
import { preferences } from "./preferences.js";
import { goTo, onRoute, readRoute } from "./route.js";
import { Cluster, summarise } from "./store.js";
import { NodeTable } from "./table.js";
import { age, amount, count, counted, nameUnit, speak, t, translatePage } from "./text.js";
import { Tip } from "./tip.js";

const GIB = 2 ** 30;
const STALE_S = 90;

const cluster = new Cluster();
const open = (changes) => goTo(changes, { step: true });
const panel = new Panel(cluster, open);
const table = new NodeTable(open);
const tip = new Tip();
const map = new CardMap({ open: openHit, hover: (hit, x, y) => tip.show(hit, x, y, readRoute()), cursor: showCursor });
const pieces = new Pieces((bytes) => goTo({ size: bytes > 0 ? String(Number((bytes / GIB).toFixed(4))) : "" }));
let shown = [];
const offered = new Map();
let hasSnapshot = false;

function openHit(hit) {
  tip.hide();
  if (hit.held) open({ pod: podAddress(hit.held.pod), node: "", list: "" });
  else open({ node: hit.node.key, pod: "", list: "" });
}

function showCursor(node, index, total) {
  const option = byId("active-node");
  setText(option, nodeWords(node));
  option.setAttribute("aria-posinset", String((index ?? 0) + 1));
  option.setAttribute("aria-setsize", String(total ?? shown.length));
  option.setAttribute("aria-selected", "true");
  byId("map").setAttribute("aria-activedescendant", "active-node");
}

function nodeWords(node) {
  const words = t("node-words", {
    name: node.name, used: amount(node.usedBytes), total: amount(node.totalBytes),
    cards: counted("cards", node.cards.length), largest: amount(node.largestBytes),
  });
  return [words, ...nodeTroubles(node).map(([trouble]) => trouble)].join("; ");
}

let pending = null;

/** Draw in the next frame: everything, or after changes that move no node the figures alone, for its tile is drawn already. */
function plan(changes = null) {
  if (pending === null) {
    pending = { all: false, keys: new Set(), waiting: false };
    requestAnimationFrame(() => whenCalm(draw));
  }
  pending.all ||= changes === null;
  for (const key of changes?.keys ?? []) pending.keys.add(key);
  pending.waiting ||= changes?.waiting ?? false;
}

function draw() {
  if (pending === null) return;
  const { all, keys, waiting } = pending;
  pending = null;
  if (!hasSnapshot) return;
  const route = readRoute();
  const sum = summarise(cluster.nodes.values());
  const groups = all ? groupsOf(choose(cluster.nodes.values(), route), route) : null;
  shown = groups?.flatMap((group) => group.nodes) ?? shown.map((node) => cluster.nodes.get(node.key) ?? node);
  nameUnit(sum.isBinary);
  const isRecoloured = assignHues(sum.byNamespace);
  const chosen = shown.length === cluster.nodes.size ? sum : summarise(shown);
  const size = Number(route.size) * GIB || 0;
  const waits = [...cluster.waiting.values()].filter((pod) => showsWaiting(pod, route)).length;
  showScope(route);
  showGlance(chosen, waits, { list: (kind) => open({ list: kind, node: "", pod: "" }) });
  pieces.show(shown, chosen, size);
  showNamespaces(chosen, route.ns, { namespace: (ns) => goTo({ ns }) });
  showLegend(chosen, size);
  showFilters(route);
  setText(byId("shown"), [counted("nodes", chosen.nodes), counted("cards", chosen.cards), counted("pods", chosen.pods)].join(" · "));
  if (!all) {
    showChanged(route, keys, waiting);
    if (isRecoloured || sum.largestCard !== map.scene.largestCard) plan();
    return;
  }
  showField(route, groups, { largestCard: sum.largestCard, probe: size, standsOut: (node) => podPredicate(route, node) });
  map.markOpen(panel.show(route) ? (route.node || panel.homeOf) : undefined);
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn ?? 0) + 1);
}

/** Say what the figures are of, where filters leave nodes or waiting pods out. */
function showScope(route) {
  const filters = filtersOf(route).map(([name, value]) => t(`scope-${name}`, { value }));
  byId("scope").hidden = filters.length === 0;
  setText(byId("scope-words"), filters.length === 0 ? "" : t("scope", { filters: filters.join(" · "), shown: count(shown.length), total: count(cluster.nodes.size) }));
}

function showChanged(route, keys, waiting) {
  const current = shown[Math.max(0, map.cursor)];
  if (current !== undefined && keys.has(current.key)) setText(byId("active-node"), nodeWords(current));
  if (!panel.concerns(keys, waiting)) return;
  panel.refresh();
  const node = keys.has(route.node) ? cluster.nodes.get(route.node) : undefined;
  if (node) setText(byId("spoken"), t("changed-node", { name: node.name, used: amount(node.usedBytes), total: amount(node.totalBytes) }));
}

function showField(route, groups, scene) {
  const asTable = route.view === "table";
  byId("empty").hidden = shown.length > 0;
  byId("empty").replaceChildren(...(cluster.nodes.size === 0 ? firstSteps() : [t("shown-none")]));
  byId("map").hidden = asTable || shown.length === 0;
  byId("zoom").hidden = asTable;
  byId("table").hidden = !asTable || shown.length === 0;
  byId("view-map").setAttribute("aria-pressed", String(!asTable));
  byId("view-table").setAttribute("aria-pressed", String(asTable));
  if (asTable) {
    table.show(shown);
    return;
  }
  map.show(groups.map(({ kind, nodes }) => ({ title: kind && groupTitle(kind, nodes), nodes, isNamed: kind === "trouble" })), scene);
  const at = Math.max(0, map.cursor);
  if (shown.length > 0) showCursor(shown[at], at, shown.length);
}

function groupTitle(kind, nodes) {
  const name = kind === "trouble" ? t("attention") : nodes[0].model;
  return [name, counted("nodes", nodes.length)].filter(Boolean).join(" · ");
}

/** What to do where no node has cards yet. */
function firstSteps() {
  const vendors = [...cluster.vendors.values()];
  const commands = (lineOf) => el("pre", {}, el("code", {}, vendors.map(lineOf).join("\n")));
  return [
    el("h2", {}, t("no-nodes")),
    el("p", {}, t("no-nodes-label")), commands(({ label }) => `kubectl label node NODE ${label}`),
    el("p", {}, t("no-nodes-why")), commands(({ inspect }) => `kubectl inspect ${inspect} doctor`),
  ];
}

/** Take changes: only the nodes that changed are drawn where that is all that changed. */
function take(document_) {
  const changes = cluster.apply(document_);
  const { sort, q, label, model, view } = readRoute();
  const isPlain = (!sort || sort === "name") && !q && !label && !model && view !== "table";
  if (!isPlain || changes.moved) {
    plan();
    return;
  }
  for (const key of changes.keys) {
    map.replace(cluster.nodes.get(key));
    map.pulse(key);
  }
  plan(changes);
}

function showFilters(route) {
  const { namespaces, models, labels } = choices(cluster);
  offer("namespace", [["", t("all-namespaces")], ...namespaces.map((ns) => [ns, ns])]);
  offer("model", [["", t("all-models")], ...models.map((model) => [model, model])]);
  offer("sort", SORTS.map((sort) => [sort, t(`sort-${sort}`)]));
  offer("labels", labels.map((label) => [label, ""]));
  byId("model-label").hidden = models.length < 2 && !route.model;
  for (const [id, value] of [["namespace", route.ns], ["model", route.model], ["sort", route.sort || SORTS[0]]]) select(byId(id), value);
  for (const [id, value] of [["search", route.q], ["label", route.label]]) if (byId(id).value !== value && document.activeElement !== byId(id)) byId(id).value = value;
}

/** Offer these options, [value, words] each; while they are the same the list stays, for a reader may have it open. */
function offer(id, options) {
  const stamp = JSON.stringify(options);
  if (offered.get(id) === stamp) return;
  offered.set(id, stamp);
  byId(id).replaceChildren(...options.map(([value, words]) => el("option", { value }, words)));
}

function select(list, value) {
  // A link may name what is not there any more: it stays visible, so that it can be taken back.
  if (![...list.options].some((each) => each.value === value)) list.append(el("option", { value }, value));
  if (list.value !== value) list.value = value;
}

// The state of the connection and of the replica

let state = "connecting";

function showState() {
  const { replica } = cluster;
  const isStale = state === "live" && replica?.ageS > STALE_S;
  byId("state").dataset.state = isStale ? "stale" : state;
  setText(byId("state-text"), isStale ? t("stale", { age: age(replica.ageS * 1000) }) : t(state));
  const holder = replica?.holder?.replace(/_.*$/, "");
  const words = replica === null || replica.leads ? "" : holder ? t("follower", { holder }) : t("no-leader");
  byId("notice").hidden = words === "";
  setText(byId("notice"), words);
}

const feed = follow({
  state(word) {
    state = word === "connecting" && hasSnapshot ? "reconnecting" : word;
    showState();
  },
  snapshot(document_) {
    cluster.load(document_);
    hasSnapshot = true;
    showGate(false);
    showState();
    plan();
  },
  changes: take,
  replica(document_) {
    cluster.take(document_);
    showState();
  },
  refused(refusal) {
    setText(byId("gate-problem"), token.get() ? refusal.message : "");
    if (refusal.status === 401) token.drop();
    showGate(true);
    byId("token").focus();
  },
});

/** Ask for a token, with the rest out of reach, or stop asking. */
function showGate(isShown) {
  byId("gate").hidden = !isShown;
  byId("main").inert = isShown;
}

feed.running.catch((error) => { throw error; });

// What readers do

byId("gate-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = byId("token").value.trim();
  // What no header can carry would fail in the browser at every try, without a word from the extender.
  if (!/^[!-~]+$/.test(given)) {
    setText(byId("gate-problem"), given ? t("token-odd") : t("token-empty"));
    return;
  }
  byId("token").value = "";
  setText(byId("gate-problem"), "");
  token.set(given);
  feed.resume();
});

byId("search-form").addEventListener("submit", (event) => event.preventDefault());
byId("search").addEventListener("input", (event) => goTo({ q: event.target.value }));
byId("label").addEventListener("input", (event) => goTo({ label: event.target.value.trim() }));
byId("namespace").addEventListener("change", (event) => goTo({ ns: event.target.value }));
byId("model").addEventListener("change", (event) => goTo({ model: event.target.value }));
byId("sort").addEventListener("change", (event) => goTo({ sort: event.target.value === SORTS[0] ? "" : event.target.value }));
byId("clear").addEventListener("click", () => {
  for (const id of ["search", "label"]) byId(id).value = "";
  goTo({ q: "", ns: "", model: "", label: "" });
});
for (const [button, part] of [["filters-toggle", "filters"], ["details-toggle", "glance"]]) {
  byId(button).addEventListener("click", (event) => {
    const isOpen = byId(part).toggleAttribute("data-open");
    event.currentTarget.setAttribute("aria-expanded", String(isOpen));
  });
}
byId("view-map").addEventListener("click", () => goTo({ view: "" }));
byId("view-table").addEventListener("click", () => goTo({ view: "table" }));
byId("smaller").addEventListener("click", () => map.zoomBy(-1));
byId("larger").addEventListener("click", () => map.zoomBy(1));
byId("fit").addEventListener("click", () => map.zoomBy(0));
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId(readRoute().view === "table" ? "table" : "map").focus();
});
const closePanel = () => open({ node: "", pod: "", list: "" });
byId("panel-close").addEventListener("click", closePanel);

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === "Escape" && !byId("panel").hidden && !typing) closePanel();
  else if (event.key === "Escape" && event.target === byId("search")) setTimeout(() => byId("map").focus()); // once the browser has emptied it
  else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    if (event.key === "/") {
      event.preventDefault();
      byId("search").focus();
    } else if (event.key === "+" || event.key === "=") map.zoomBy(1);
    else if (event.key === "-") map.zoomBy(-1);
    else if (event.key === "0") map.zoomBy(0);
  }
});

onRoute(() => plan());
preferences({
  language(name) {
    speak(name);
    translatePage();
    showState();
    plan();
  },
  theme() {
    map.recolour();
  },
});
