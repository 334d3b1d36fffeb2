// Which nodes are shown, in which order and groups, and which of their pods stand out.

import { hasLabel, podHaystack } from "./store.js";

const collator = new Intl.Collator("en", { numeric: true });
const byName = (a, b) => collator.compare(a.name, b.name) || collator.compare(a.vendor, b.vendor);

// The first is the order where none is chosen.
const ORDERS = {
  trouble: (a, b) => b.trouble - a.trouble || b.cordoned - a.cordoned || byName(a, b),
  name: byName,
  free: (a, b) => b.freeBytes - a.freeBytes || byName(a, b),
  full: (a, b) => fullness(b) - fullness(a) || byName(a, b),
  largest: (a, b) => b.largestBytes - a.largestBytes || byName(a, b),
  stranded: (a, b) => stranded(b) - stranded(a) || byName(a, b),
};

export const SORTS = Object.freeze(Object.keys(ORDERS));

/** More nodes than these stand in groups: in a thousand tiles the three that matter are not found. */
const MANY = 100;
const FILTERS = ["q", "ns", "model", "label"];

function fullness(node) {
  return node.totalBytes ? node.usedBytes / node.totalBytes : 0;
}

/** Free memory outside the node's largest piece: what a large request cannot use. */
function stranded(node) {
  return node.freeBytes - node.largestBytes;
}

/** The nodes that a route's filters let through, sorted. */
export function choose(nodes, route) {
  const shows = nodePredicate(route);
  return [...nodes].filter(shows).sort(ORDERS[route.sort] ?? ORDERS.trouble);
}

/** Groups of sorted nodes, {kind, nodes} each: many nodes in no chosen order by whether they are in trouble, then by model. */
export function groupsOf(nodes, route) {
  if (route.sort || nodes.length <= MANY) return [{ kind: "", nodes }];
  const found = new Map([["trouble", []]]);
  for (const node of nodes) {
    const kind = node.trouble || node.cordoned ? "trouble" : `model ${node.model}`;
    if (!found.has(kind)) found.set(kind, []);
    found.get(kind).push(node);
  }
  const [trouble, ...models] = found;
  return [trouble, ...models.sort((a, b) => collator.compare(a[0], b[0]))].filter((each) => each[1].length > 0).map(([kind, each]) => ({ kind, nodes: each }));
}

/** The names and values of the filters that are set. */
export function filtersOf(route) {
  return FILTERS.map((name) => [name, route[name].trim()]).filter((each) => each[1] !== "");
}

function nodePredicate({ q, model, label }) {
  const query = q.trim().toLowerCase();
  return (node) =>
    (!model || node.models.has(model)) &&
    (!label || hasLabel(node.labels, label) || node.pods.some((pod) => hasLabel(pod.labels, label))) &&
    (!query || node.haystack.includes(query) || node.pods.some((pod) => podHaystack(pod).includes(query)));
}

/** Whether pods stand out; null where no filter speaks of pods, and then all are alike. */
export function podPredicate({ q, ns, label }, node) {
  const query = q.trim().toLowerCase();
  const byQuery = query !== "" && !node.haystack.includes(query);
  const byLabel = label !== "" && !hasLabel(node.labels, label);
  if (!byQuery && !byLabel && ns === "") return null;
  return (pod) =>
    (ns === "" || pod.ns === ns) && (!byLabel || hasLabel(pod.labels, label)) && (!byQuery || podHaystack(pod).includes(query));
}

/** Whether a waiting pod passes the filters. */
export function showsWaiting(pod, { q, ns, label }) {
  const query = q.trim().toLowerCase();
  return (ns === "" || pod.ns === ns) && (label === "" || hasLabel(pod.labels, label)) && (query === "" || podHaystack(pod).includes(query));
}

/** What can be chosen from: namespaces, models and labels of nodes and pods, sorted; at most `limit` labels. */
export function choices(cluster, limit = 300) {
  const namespaces = new Set();
  const models = new Set();
  const labels = new Set();
  const learn = (found) => {
    for (const [key, value] of Object.entries(found ?? {})) if (labels.size < limit) labels.add(`${key}=${value}`);
  };
  for (const node of cluster.nodes.values()) {
    for (const model of node.models) models.add(model);
    for (const ns of node.byNamespace.keys()) namespaces.add(ns);
    // Asked for after every change: once there are enough labels, 100,000 pods are not looked at for more.
    if (labels.size >= limit) continue;
    learn(node.labels);
    for (const pod of node.pods) learn(pod.labels);
  }
  for (const pod of cluster.waiting.values()) {
    namespaces.add(pod.ns);
    if (labels.size < limit) learn(pod.labels);
  }
  const sorted = (set) => [...set].sort(collator.compare);
  return { namespaces: sorted(namespaces), models: sorted(models), labels: sorted(labels) };
}
