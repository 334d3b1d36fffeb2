// The state of the cluster: what the extender said last of every node and waiting pod, prepared for drawing.
// Figures come from the extender's ledger; here they are only converted to bytes, grouped and added up for display.

import { spreadHues } from "./palette.js";

const GIB = 2 ** 30;

/** The key of a node: one name may have cards of two vendors. */
export function keyOf(vendor, name) {
  return `${vendor}/${name}`;
}

export class Cluster {
  constructor() {
    this.clear();
  }

  clear() {
    this.nodes = new Map();
    this.waiting = new Map();
    this.vendors = new Map();
    this.replica = null;
    this.program = "";
    this.skewMs = 0;
  }

  /** Take a whole snapshot. */
  load(snapshot) {
    this.clear();
    this.program = snapshot.program;
    for (const vendor of snapshot.vendors) this.vendors.set(vendor.name, vendor);
    for (const node of snapshot.nodes) this.nodes.set(keyOf(node.vendor, node.name), prepare(node));
    for (const pod of snapshot.waiting) this.waiting.set(pod.uid, pod);
    this.take(snapshot.replica);
  }

  /** Take what is said of the replica that answers. */
  take(replica) {
    this.replica = replica;
    this.skewMs = replica.nowMs - Date.now();
  }

  /** Take changes; returns the keys of the nodes that differ, whether their places among the others do, and whether the waiting pods do. */
  apply({ nodes = [], gone = [], waiting = [], left = [] }) {
    const keys = new Set(gone);
    let moved = gone.length > 0;
    for (const key of gone) this.nodes.delete(key);
    for (const node of nodes) {
      const key = keyOf(node.vendor, node.name);
      const next = prepare(node);
      moved ||= this.nodes.get(key)?.place !== next.place;
      this.nodes.set(key, next);
      keys.add(key);
    }
    for (const uid of left) this.waiting.delete(uid);
    for (const pod of waiting) this.waiting.set(pod.uid, pod);
    return { keys, moved, waiting: waiting.length + left.length > 0 };
  }

  /** How old something is by the extender's clock, in milliseconds. */
  ageOf(created) {
    return Math.max(0, Date.now() + this.skewMs - Date.parse(created));
  }

  /** Find a pod by namespace and name: what it holds and where, or what it waits for. */
  findPod(vendor, ns, name) {
    for (const node of this.nodes.values()) {
      if (node.vendor !== vendor) continue;
      const pod = node.pods.find((each) => each.ns === ns && each.name === name);
      if (pod !== undefined) return { node, pod };
    }
    for (const pod of this.waiting.values()) {
      if (pod.vendor === vendor && pod.ns === ns && pod.name === name) return { node: null, pod };
    }
    return null;
  }
}

/** Lay a node out: bytes, who holds how much of each card, and the sums that the totals are added up from. */
function prepare(doc) {
  const node = {
    total: 0, used: 0, largest: 0, emptyCards: 0, serves: "memory", labels: {}, cards: [], pods: [], ...doc,
    key: keyOf(doc.vendor, doc.name), trouble: 0, sick: 0, cordoned: 0, missing: 0, corrected: 0, overuse: 0, whole: 0, pending: 0, freeBytes: 0,
    byNamespace: new Map(), models: new Set(), homeless: [],
  };
  const unitBytes = GIB / node.perGib;
  node.unitBytes = unitBytes;
  node.totalBytes = node.total * unitBytes;
  node.usedBytes = node.used * unitBytes;
  node.largestBytes = node.largest * unitBytes;
  node.cards = node.cards.map((card) => prepareCard(card, node));
  const byIndex = new Map(node.cards.map((card) => [card.index, card]));
  node.pods = node.pods.map((pod) => preparePod(pod, node, byIndex));
  spreadHues(node.cards);
  node.trouble = node.sick + node.missing + [node.problem, node.unready, node.uncounted].filter(Boolean).length;
  node.model = [...node.models].sort().join(", ");
  node.place = `${node.trouble} ${node.cordoned} ${node.model}`;
  node.haystack = [node.name, node.address ?? "", ...node.models, ...words(node.labels)].join("\n").toLowerCase();
  return node;
}

function prepareCard(doc, node) {
  const card = { total: 0, used: 0, free: 0, mode: "free", uuid: "", model: "", reason: "", ...doc, held: [] };
  card.totalBytes = card.total * node.unitBytes;
  card.usedBytes = card.used * node.unitBytes;
  card.freeBytes = card.free * node.unitBytes;
  // Where only whole cards are served no request for memory fits, and yet the card is available.
  card.openBytes = card.wholeFree ? card.totalBytes : card.freeBytes;
  node.freeBytes += card.freeBytes;
  node.sick += card.sick ? 1 : 0;
  node.cordoned += card.cordoned ? 1 : 0;
  node.missing += card.missing ? 1 : 0;
  node.whole += card.mode === "whole" ? 1 : 0;
  if (card.model) node.models.add(card.model);
  return card;
}

function preparePod(doc, node, byIndex) {
  const pod = { grants: [], created: "", corrected: "", overUse: "", uses: [], idleSince: "", owner: "", problem: "", labels: {}, ...doc, vendor: node.vendor };
  let bytes = 0;
  for (const [index, units, whole] of pod.grants) {
    const card = byIndex.get(index);
    if (card === undefined) continue;
    // Of several whole cards a record names one size, the largest.
    const held = (whole && !card.missing ? card.total : units) * node.unitBytes;
    const [, inUse = 0] = pod.uses.find((use) => use[0] === index) ?? [];
    card.held.push({ pod, bytes: held, inUse, whole: Boolean(whole) });
    bytes += held;
  }
  pod.bytes = bytes;
  pod.limitBytes = (pod.limit ?? 0) * node.unitBytes;
  if (pod.grants.length === 0) node.homeless.push(pod);
  if (pod.corrected) node.corrected += 1;
  if (pod.overUse) node.overuse += 1;
  if (pod.bytes > 0 && !pod.assigned) node.pending += 1;
  node.byNamespace.set(pod.ns, (node.byNamespace.get(pod.ns) ?? 0) + bytes);
  return pod;
}

function words(labels) {
  return Object.entries(labels).map(([key, value]) => `${key}=${value}`);
}

/** What is searched of a pod; made when a reader searches. */
export function podHaystack(pod) {
  pod.haystack ??= [pod.ns, pod.name, `${pod.ns}/${pod.name}`, pod.owner ?? "", ...words(pod.labels ?? {})].join("\n").toLowerCase();
  return pod.haystack;
}

/** Whether labels carry `key` or `key=value`. */
export function hasLabel(labels, wanted) {
  const [key, value] = splitLabel(wanted);
  return Object.hasOwn(labels ?? {}, key) && (value === null || labels[key] === value);
}

function splitLabel(text) {
  const at = text.indexOf("=");
  return at < 0 ? [text, null] : [text.slice(0, at), text.slice(at + 1)];
}

/** Add nodes up. */
export function summarise(nodes) {
  const sum = {
    nodes: 0, cards: 0, pods: 0, isBinary: false, unitBytes: 0, totalBytes: 0, usedBytes: 0, freeBytes: 0, emptyCards: 0, largest: null,
    sick: 0, cordoned: 0, closed: 0, corrected: 0, overuse: 0, unreadable: 0, unready: 0, uncounted: 0, servesWhole: 0, untouched: 0, whole: 0, pending: 0, largestCard: 0, pieces: [], byNamespace: new Map(),
  };
  for (const node of nodes) addNode(sum, node);
  return sum;
}

function addNode(sum, node) {
  sum.nodes += 1;
  sum.isBinary ||= node.unit.endsWith("iB");
  sum.unitBytes = Math.max(sum.unitBytes, node.unitBytes);
  sum.cards += node.cards.length;
  sum.pods += node.pods.length;
  sum.totalBytes += node.totalBytes;
  sum.usedBytes += node.usedBytes;
  sum.freeBytes += node.freeBytes;
  sum.emptyCards += node.emptyCards;
  sum.sick += node.sick + node.missing;
  sum.cordoned += node.cordoned;
  sum.corrected += node.corrected;
  sum.overuse += node.overuse;
  sum.whole += node.whole;
  sum.pending += node.pending;
  sum.unready += node.unready ? 1 : 0;
  sum.uncounted += node.uncounted ? 1 : 0;
  sum.servesWhole += node.serves === "memory" ? 0 : 1;
  sum.unreadable += (node.problem ? 1 : 0) + node.pods.filter((pod) => pod.problem).length;
  for (const card of node.cards) {
    sum.largestCard = Math.max(sum.largestCard, card.totalBytes);
    sum.closed += card.openBytes === 0 && card.usedBytes < card.totalBytes && !card.sick && !card.cordoned ? 1 : 0;
    sum.untouched += card.openBytes > 0 && card.openBytes === card.totalBytes ? 1 : 0;
    if (card.freeBytes === 0) continue;
    sum.pieces.push(card.freeBytes);
    if (sum.largest === null || card.freeBytes > sum.largest.bytes) sum.largest = { bytes: card.freeBytes, node, card };
  }
  for (const [ns, bytes] of node.byNamespace) sum.byNamespace.set(ns, (sum.byNamespace.get(ns) ?? 0) + bytes);
}

/** How much of the free memory a request of this size can use, and on how many cards and nodes. */
export function probe(nodes, bytes) {
  const found = { cards: 0, nodes: 0, usable: 0, free: 0 };
  for (const node of nodes) {
    let fitting = 0;
    for (const card of node.cards) {
      found.free += card.freeBytes;
      if (card.freeBytes < bytes || card.freeBytes === 0) continue;
      fitting += 1;
      found.usable += card.freeBytes;
    }
    found.cards += fitting;
    found.nodes += fitting > 0 ? 1 : 0;
  }
  return found;
}
