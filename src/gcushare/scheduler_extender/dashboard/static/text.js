// Every word of the page, in English and Chinese, and numbers as each language writes them.

const WORDS = {
  en: {
    title: "GCUShare — cards",
    skip: "Skip to the nodes",
    search: "Search nodes, pods, labels",
    "search-hint": "press / to search",
    namespace: "Namespace", "all-namespaces": "All namespaces",
    model: "Model", "all-models": "All models",
    label: "Label", "label-hint": "key=value",
    sort: "Sort",
    "sort-name": "by name", "sort-free": "most free first", "sort-full": "fullest first",
    "sort-largest": "largest piece first", "sort-stranded": "most fragmented first", "sort-trouble": "trouble first",
    filters: "Filters", clear: "Clear filters",
    map: "Map", table: "Table", "view-group": "View",
    smaller: "Smaller tiles", larger: "Larger tiles", "fit-all": "Fit all nodes",
    theme: "Theme: {name}", "theme-auto": "automatic", "theme-light": "light", "theme-dark": "dark",
    language: "中文", "language-label": "Switch to Chinese",
    live: "Live", connecting: "Connecting…", reconnecting: "Connection lost, trying again…",
    stale: "Data {age} old",
    follower: "This replica stands by; {holder} serves the scheduler.",
    "no-leader": "No replica serves the scheduler: pods that ask for cards stay Pending.",
    syncing: "The extender is still reading the cluster…",
    granted: "Granted", "of-total": "{used} of {total}", "free-now": "{free} free for new pods",
    cards: "{n} {n?card:cards}", nodes: "{n} {n?node:nodes}", pods: "{n} {n?pod:pods}",
    largest: "Largest request that fits", "largest-where": "card {card} of {node}", "largest-none": "nothing is free",
    untouched: "{n} {n?card:cards} entirely free", "untouched-none": "no card is entirely free", "whole-free": "{n} can be had whole",
    room: "Room for pods of one card",
    pieces: "Free memory by size of piece",
    "pieces-label": "Histogram: free memory by the size of the piece it is in. {text}",
    probe: "A request of", "probe-label": "Size of a request", "probe-any": "any size",
    "probe-fits": "fits on {cards} of {nodes}", "probe-none": "fits on no card",
    "probe-lost": "{share} of the free memory is in smaller pieces",
    "probe-off": "Move the slider: which pieces could a request use?",
    "piece-bar": "{n} {n?piece:pieces} of {from} to {to}: {sum}",
    attention: "Needs a look",
    waiting: "waiting {n?pod:pods}", sick: "sick {n?card:cards}", cordoned: "cordoned {n?card:cards}", corrected: "corrected {n?record:records}",
    overuse: "{n?pod:pods} over {n?its:their} grant", "key-overuse": "over its grant", "overuse-title": "Pods over their grant",
    "overuse-words": "It uses more than it was granted: {use}.",
    unreadable: "unreadable", unready: "{n?node:nodes} not ready", uncounted: "{n?node:nodes} without units", "all-well": "Nothing needs a look",
    "shown-some": "{shown} of {total} nodes shown",
    "shown-none": "No node matches the filters.", "no-nodes": "No node of the cluster has cards of this vendor yet.",
    "nodes-label": "Nodes; arrow keys move, Enter opens",
    "others": "{n} {n?other:others}",
    "key-free": "free", "key-sliver": "free, small piece", "key-sick": "sick", "key-cordoned": "cordoned",
    "key-whole": "whole card", "key-pending": "not handed out yet", "key-corrected": "corrected",
    "node-words": "{name}: {used} of {total} granted on {cards}; largest free piece {largest}",
    "node-sick": "{n} sick", "node-cordoned": "{n} cordoned", "node-unready": "not ready",
    close: "Close",
    node: "Node", pod: "Pod", "waiting-title": "Waiting pods", "trouble-title": "Needs a look",
    address: "Address", unit: "Unit", "assumed-unit": "assumed: the node does not tell",
    labels: "Labels", "no-labels": "none", ready: "ready", "not-ready": "not ready", unschedulable: "unschedulable",
    settling: "records settling: no new pods for a moment",
    "card-title": "Card {n}", "fits-short": "fits {amount}", "card-granted": "{used} of {total} granted", "card-free": "{free} free",
    "card-mode-whole": "granted whole", "card-whole-free": "free, whole only",
    serves: "Serves", "serves-memory": "memory of cards", "serves-whole": "whole cards", "serves-both": "memory and whole cards", "serves-claims": "claims", "card-missing": "not on this node any more", "card-full": "full",
    "pods-here": "Pods", "no-pods": "No pod was granted a card here.",
    "without-card": "without a recorded card",
    holds: "Granted", limit: "Limit", "limit-words": "up to {amount} while no other pod needs it", "on-card": "{amount} of card {card}", "on-whole": "card {card}, whole", age: "Age", priority: "Priority", owner: "Owner",
    "state-assigned": "running on its card", "state-bound": "bound, not handed out yet",
    "state-reserved": "being bound", "state-waiting": "waiting", "state-ending": "ending", "state-gone": "This pod is gone.",
    "node-gone": "This node is gone, or has no cards any more.",
    "corrected-words": "The kubelet gave it another card than was recorded; the record was corrected ({change}).",
    asks: "Asks for", "asks-one": "{amount} in one card", "asks-many": "{amount} on each of {n} {n?card:cards}",
    "asks-whole": "{n} whole {n?card:cards}", "asks-choosy": "only certain cards",
    why: "Why", "why-loading": "asking the extender…", "why-failed": "no explanation now: {error}",
    "scheduler-says": "kube-scheduler says",
    "no-waiting": "No pod waits for a card.",
    "explain-fits": "It fits now on {n} {n?node:nodes}; the scheduler will try it again.",
    "explain-never": "It can never fit: the most that a usable card or node has is {largest}.",
    "explain-never-served": "It can never fit: no usable card is there for such requests.",
    "explain-largest": "The largest request that fits now is {largest}.",
    "explain-refused": "It cannot be granted: {problem}",
    "explain-remedy": "It would fit on {node} if these pods ended:",
    "explain-by-hand": "(The scheduler does not end them by itself: not all have a lower priority.)",
    "explain-asked": "The scheduler asked about {n} of {known} {known?node:nodes}.",
    "explain-elsewhere": "{n} {n?other has:others have} room, but a nodeSelector, an affinity, a taint, another resource or the scheduler's sampling keeps the pod from there:",
    "class-nodes": "{n} {n?node:nodes} with cards of {cards}", "class-none": "{n} {n?node:nodes} without cards",
    "class-best": "best card: {free} free (card {card} of {node})",
    "class-free": "{free} of {total} free in all",
    "reason-room": "room for it",
    "reason-enough free memory, but not in one card": "enough free memory, but not in one card",
    "reason-too little free memory": "too little free memory",
    "reason-the cards that are large enough are sick or cordoned": "the cards that are large enough are sick or cordoned",
    "reason-the cards of its pods are not confirmed yet": "the cards of its pods are not confirmed yet",
    "reason-no card that the pod's annotations allow": "no card that the pod's annotations allow",
    "reason-the kubelet counts its memory in another unit, or for another system": "the kubelet counts its memory in another unit, or for another system",
    "reason-no card as large as the pod's limit (gcushare.io/memory-limit)": "no card as large as the pod's limit (gcushare.io/memory-limit)",
    "reason-no card that is large enough": "no card that is large enough",
    "reason-too few unused cards": "too few unused cards",
    "reason-fewer cards than the pod asks for": "fewer cards than the pod asks for",
    "reason-no whole cards are served there (--mode of its device plugin)": "no whole cards are served there (--mode of its device plugin)",
    "reason-only whole cards are served there (--mode of its device plugin)": "only whole cards are served there (--mode of its device plugin)",
    "reason-its cards are given as claims (label gcushare.io/serve)": "its cards are given as claims (label gcushare.io/serve)",
    "reason-no cards, or none that can be read": "no cards, or none that can be read",
    "reason-room is kept for another pod there": "room is kept for another pod there",
    "reason-cards with room are closed for a while: containers of deleted pods may still use them": "cards with room are closed for a while: containers of deleted pods may still use them",
    "closed-memory": "Takes no pods that share: containers of {pod}, deleted by force, may still run on it.",
    "closed-whole": "Is not given whole: containers of {pod}, deleted by force, may still run on it.",
    "closed-until": "It opens by {time}.",
    "sick-words": "Sick: {reason}", "sick-plain": "sick", "cordoned-words": "Cordoned by an admin: no new pods.",
    "pods-stay": "{n} {n?pod stays:pods stay} on it", "pods-none": "no pods on it",
    "corrected-title": "Corrected records", "sick-title": "Sick cards", "cordoned-title": "Cordoned cards",
    "unreadable-title": "Cannot be read", "unready-title": "Nodes not ready", "uncounted-title": "Nodes without units",
    "uncounted-words": "The kubelet counts none of its cards' units: no pod can come here. The device plugin's log says why.",
    "token-title": "Who is asking?",
    "token-text": "This page shows the cluster to people that the cluster knows. Paste a token; it stays in this browser tab and is sent nowhere but here.",
    "token-label": "Token of the cluster", "token-send": "Show the cluster",
    "token-how": "A token for an hour:", "token-empty": "Paste a token first.", "token-odd": "This is no token: accepted are ASCII letters, digits and signs without spaces.",
    more: "Show {n} more",
    "column-node": "Node", "column-model": "Model", "column-cards": "Cards", "column-granted": "Granted", "column-largest": "Largest piece", "column-pods": "Pods", "column-state": "State",
    "changed-node": "{name} changed: {used} of {total} granted",
    "less-minute": "under a minute", minutes: "{n} min", hours: "{n} h", days: "{n} d",
  },
  zh: {
    title: "GCUShare — 加速卡",
    skip: "跳到节点",
    search: "搜索节点、Pod、标签",
    "search-hint": "按 / 搜索",
    namespace: "命名空间", "all-namespaces": "所有命名空间",
    model: "型号", "all-models": "所有型号",
    label: "标签", "label-hint": "键=值",
    sort: "排序",
    "sort-name": "按名称", "sort-free": "空闲多的在前", "sort-full": "分配多的在前",
    "sort-largest": "最大空闲块在前", "sort-stranded": "碎片多的在前", "sort-trouble": "有问题的在前",
    filters: "筛选", clear: "清除筛选",
    map: "图", table: "表", "view-group": "视图",
    smaller: "缩小", larger: "放大", "fit-all": "显示全部节点",
    theme: "主题：{name}", "theme-auto": "自动", "theme-light": "浅色", "theme-dark": "深色",
    language: "English", "language-label": "切换到英文",
    live: "实时", connecting: "正在连接…", reconnecting: "连接中断，正在重试…",
    stale: "画面已有 {age}",
    follower: "此副本待命；由 {holder} 为调度器服务。",
    "no-leader": "没有副本为调度器服务：请求卡的 Pod 会一直 Pending。",
    syncing: "扩展调度器仍在读取集群…",
    granted: "已分配", "of-total": "{used} / {total}", "free-now": "{free} 可分给新 Pod",
    cards: "{n} 张卡", nodes: "{n} 个节点", pods: "{n} 个 Pod",
    largest: "当前能满足的最大请求", "largest-where": "{node} 的卡 {card}", "largest-none": "没有空闲",
    untouched: "{n} 张卡完全空闲", "untouched-none": "没有完全空闲的卡", "whole-free": "{n} 张可整卡使用",
    room: "还能放下的单卡 Pod",
    pieces: "空闲显存按块大小分布",
    "pieces-label": "直方图：空闲显存按所在块的大小分布。{text}",
    probe: "请求", "probe-label": "请求大小", "probe-any": "任意大小",
    "probe-fits": "可放入 {nodes}的 {cards}", "probe-none": "没有卡放得下",
    "probe-lost": "空闲显存的 {share} 在更小的块里",
    "probe-off": "拖动滑块：某个大小的请求能用哪些空闲块？",
    "piece-bar": "{from} 到 {to} 的块 {n} 个：{sum}",
    attention: "需要留意",
    waiting: "等待中的 Pod", sick: "故障卡", cordoned: "已封锁的卡", corrected: "已校正的记录",
    overuse: "超出分配量的 Pod", "key-overuse": "超出分配量", "overuse-title": "超出分配量的 Pod",
    "overuse-words": "它的用量超出分配量：{use}。",
    unreadable: "无法读取", unready: "未就绪节点", uncounted: "没有单位的节点", "all-well": "一切正常",
    "shown-some": "显示 {shown} / {total} 个节点",
    "shown-none": "没有节点符合筛选条件。", "no-nodes": "集群里还没有带这类卡的节点。",
    "nodes-label": "节点；方向键移动，回车打开",
    "others": "其他 {n} 个",
    "key-free": "空闲", "key-sliver": "空闲小块", "key-sick": "故障", "key-cordoned": "已封锁",
    "key-whole": "整卡", "key-pending": "尚未交付", "key-corrected": "已校正",
    "node-words": "{name}：{cards}，已分配 {used} / {total}；最大空闲块 {largest}",
    "node-sick": "{n} 张故障", "node-cordoned": "{n} 张封锁", "node-unready": "未就绪",
    close: "关闭",
    node: "节点", pod: "Pod", "waiting-title": "等待中的 Pod", "trouble-title": "需要留意",
    address: "地址", unit: "单位", "assumed-unit": "推定：节点没有说明",
    labels: "标签", "no-labels": "无", ready: "就绪", "not-ready": "未就绪", unschedulable: "不可调度",
    settling: "记录正在归位：暂不接受新 Pod",
    "card-title": "卡 {n}", "fits-short": "可容 {amount}", "card-granted": "已分配 {used} / {total}", "card-free": "空闲 {free}",
    "card-mode-whole": "整卡已分配", "card-whole-free": "空闲，仅限整卡",
    serves: "提供", "serves-memory": "卡显存", "serves-whole": "整卡", "serves-both": "显存和整卡", "serves-claims": "资源声明（claim）", "card-missing": "已不在此节点", "card-full": "已满",
    "pods-here": "Pod", "no-pods": "这里没有 Pod 分到卡。",
    "without-card": "没有记录到卡",
    holds: "已分配", limit: "上限", "limit-words": "其他 Pod 不需要时最多 {amount}", "on-card": "卡 {card} 的 {amount}", "on-whole": "卡 {card}（整卡）", age: "已存在", priority: "优先级", owner: "所有者",
    "state-assigned": "已在卡上运行", "state-bound": "已绑定，尚未交付",
    "state-reserved": "正在绑定", "state-waiting": "等待中", "state-ending": "正在结束", "state-gone": "此 Pod 已不存在。",
    "node-gone": "此节点已不存在，或不再有卡。",
    "corrected-words": "kubelet 给它的卡与记录不同，记录已校正（{change}）。",
    asks: "请求", "asks-one": "一张卡上 {amount}", "asks-many": "{n} 张卡上各 {amount}",
    "asks-whole": "{n} 张整卡", "asks-choosy": "只要指定的卡",
    why: "原因", "why-loading": "正在询问扩展调度器…", "why-failed": "暂时没有解释：{error}",
    "scheduler-says": "kube-scheduler 的说法",
    "no-waiting": "没有 Pod 在等待卡。",
    "explain-fits": "现在 {n} 个节点放得下；调度器会再次尝试。",
    "explain-never": "永远放不下：可用的卡或节点最多只有 {largest}。",
    "explain-never-served": "永远放不下：没有可用的卡提供这种请求。",
    "explain-largest": "现在能满足的最大请求是 {largest}。",
    "explain-refused": "无法满足：{problem}",
    "explain-remedy": "若以下 Pod 结束，就能放入 {node}：",
    "explain-by-hand": "（调度器不会自行结束它们：并非全都优先级更低。）",
    "explain-asked": "调度器只询问了 {known} 个节点中的 {n} 个。",
    "explain-elsewhere": "另有 {n} 个节点放得下，但 nodeSelector、亲和性、污点、其他资源或调度器的抽样使 Pod 不去那里：",
    "class-nodes": "{n} 个节点，卡为 {cards}", "class-none": "{n} 个节点没有卡",
    "class-best": "最好的卡：空闲 {free}（{node} 的卡 {card}）",
    "class-free": "共空闲 {free} / {total}",
    "reason-room": "放得下",
    "reason-enough free memory, but not in one card": "空闲显存够，但不在同一张卡上",
    "reason-too little free memory": "空闲显存不足",
    "reason-the cards that are large enough are sick or cordoned": "足够大的卡故障或已封锁",
    "reason-the cards of its pods are not confirmed yet": "其 Pod 所用的卡尚未确定",
    "reason-no card that the pod's annotations allow": "没有 Pod 注解所允许的卡",
    "reason-the kubelet counts its memory in another unit, or for another system": "kubelet 以另一种单位计它的显存，或为另一个系统计数",
    "reason-no card as large as the pod's limit (gcushare.io/memory-limit)": "没有达到 Pod 上限大小的卡（gcushare.io/memory-limit）",
    "reason-no card that is large enough": "没有足够大的卡",
    "reason-too few unused cards": "未使用的卡太少",
    "reason-fewer cards than the pod asks for": "卡的数量少于 Pod 的请求",
    "reason-no whole cards are served there (--mode of its device plugin)": "那里不提供整卡（设备插件的 --mode）",
    "reason-only whole cards are served there (--mode of its device plugin)": "那里只提供整卡（设备插件的 --mode）",
    "reason-its cards are given as claims (label gcushare.io/serve)": "其卡以资源声明（claim）提供（标签 gcushare.io/serve）",
    "reason-no cards, or none that can be read": "没有卡，或无法读取",
    "reason-room is kept for another pod there": "空间为那里的另一个 Pod 保留",
    "reason-cards with room are closed for a while: containers of deleted pods may still use them": "有空间的卡暂时关闭：已删除 Pod 的容器可能仍在使用",
    "closed-memory": "不接受共享的 Pod：被强制删除的 {pod} 的容器可能仍在其上运行。",
    "closed-whole": "不作整卡分配：被强制删除的 {pod} 的容器可能仍在其上运行。",
    "closed-until": "最迟于 {time} 开放。",
    "sick-words": "故障：{reason}", "sick-plain": "故障", "cordoned-words": "管理员已封锁：不接受新 Pod。",
    "pods-stay": "{n} 个 Pod 仍在其上", "pods-none": "其上没有 Pod",
    "corrected-title": "已校正的记录", "sick-title": "故障卡", "cordoned-title": "已封锁的卡",
    "unreadable-title": "无法读取", "unready-title": "未就绪节点", "uncounted-title": "没有单位的节点",
    "uncounted-words": "kubelet 没有统计到它的卡的任何单位：Pod 无法来到这里。原因见设备插件的日志。",
    "token-title": "请出示令牌",
    "token-text": "此页面只向集群认识的人展示。粘贴一个令牌；它只留在这个标签页里，只发给这里。",
    "token-label": "集群的令牌", "token-send": "显示集群",
    "token-how": "一小时有效的令牌：", "token-empty": "请先粘贴令牌。", "token-odd": "这不是令牌：只接受 ASCII 字母、数字和符号，不含空格。",
    more: "再显示 {n} 个",
    "column-node": "节点", "column-model": "型号", "column-cards": "卡", "column-granted": "已分配", "column-largest": "最大空闲块", "column-pods": "Pod", "column-state": "状态",
    "changed-node": "{name} 有变化：已分配 {used} / {total}",
    "less-minute": "不到一分钟", minutes: "{n} 分钟", hours: "{n} 小时", days: "{n} 天",
  },
};

export const LANGUAGES = Object.freeze(Object.keys(WORDS));
let language = "en";
let plain = new Intl.NumberFormat("en");
let short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
let percent = new Intl.NumberFormat("en", { style: "percent" });

/** Speak another language from now on. */
export function speak(name) {
  language = LANGUAGES.includes(name) ? name : "en";
  const locale = language === "zh" ? "zh-CN" : "en";
  plain = new Intl.NumberFormat(locale);
  short = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
  percent = new Intl.NumberFormat(locale, { style: "percent" });
  document.documentElement.lang = locale;
}

/** The language spoken now. */
export function spoken() {
  return language;
}

const BLANK = /\{(\w+)(?:\?([^:}]*):([^}]*))?\}/g;

/** A sentence with its blanks filled, `{n?card:cards}` by whether `n` is "1"; an unknown key is a defect and says so. */
export function t(key, blanks = {}) {
  const sentence = WORDS[language][key];
  if (sentence === undefined) throw new Error(`no words for ${key} in ${language}`);
  return sentence.replace(BLANK, (_, name, one, many) => {
    const value = String(blanks[name]);
    if (one === undefined) return value;
    return value === "1" ? one : many;
  });
}

/** Whether there are words for a key that came from elsewhere. */
export function knows(key) {
  return WORDS[language][key] !== undefined;
}

/** A count, "1,024". */
export function count(n) {
  return plain.format(n);
}

/** A sentence about `n` things. */
export function counted(key, n) {
  return t(key, { n: count(n) });
}

/** A share of one, "37%". */
export function share(part) {
  return percent.format(part);
}

const GIB = 2 ** 30;

/** Bytes of card memory, "14 GiB" or "512 MiB". */
export function amount(bytes) {
  if (bytes === 0) return "0";
  if (bytes >= 10_240 * GIB) return `${short.format(bytes / GIB / 1024)} TiB`;
  return bytes > 0.995 * GIB ? `${short.format(bytes / GIB)} GiB` : `${plain.format(Math.round(bytes / 2 ** 20))} MiB`;
}

/** Milliseconds of age in the largest unit that says enough. */
export function age(ms) {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return t("less-minute");
  if (minutes < 120) return t("minutes", { n: count(minutes) });
  if (minutes < 48 * 60) return t("hours", { n: count(Math.floor(minutes / 60)) });
  return t("days", { n: count(Math.floor(minutes / 1440)) });
}

/** Fill in what the page itself carries: data-t is the text, data-t-label the accessible name, data-t-hint a placeholder. */
export function translatePage() {
  document.title = t("title");
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of document.querySelectorAll("[data-t-label]")) node.setAttribute("aria-label", t(node.dataset.tLabel));
  for (const node of document.querySelectorAll("[data-t-hint]")) node.setAttribute("placeholder", t(node.dataset.tHint));
  for (const node of document.querySelectorAll("[data-t-title]")) node.setAttribute("title", t(node.dataset.tTitle));
}

/** The words of every language by key, for the tests that compare them. */
export const ALL_WORDS = WORDS;
