// Every word of the page, in English and Chinese, and numbers as each language writes them.

const WORDS = {
  en: {
    title: "GCUShare — cards",
    skip: "Skip to the nodes",
    search: "Search nodes, pods, labels",
    "search-hint": "press / to search",
    namespace: "Namespace", "all-namespaces": "All namespaces",
    model: "Model", "all-models": "All models",
    label: "Label", "label-hint": "Label key=value",
    sort: "Sort",
    "sort-name": "sorted by name", "sort-free": "most free first", "sort-full": "fullest first",
    "sort-largest": "largest piece first", "sort-stranded": "most fragmented first", "sort-trouble": "trouble first",
    filters: "Filters", clear: "Clear filters",
    map: "Map", table: "Table", "view-group": "View",
    smaller: "Smaller tiles", larger: "Larger tiles", "fit-all": "Fit all nodes",
    theme: "Theme: {name}", "theme-auto": "automatic", "theme-light": "light", "theme-dark": "dark",
    language: "中文", "language-label": "Switch to Chinese",
    live: "Live", connecting: "Connecting…", reconnecting: "Connection lost, trying again…",
    stale: "Data not updated for {age}",
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
    "probe-lost": "{share} of what is free is in smaller pieces",
    "probe-off": "Move the slider: which pieces can it use?",
    "piece-bar": "{n} {n?piece:pieces} of {from} to {to}: {sum}",
    attention: "Needs a look",
    waiting: "waiting {n?pod:pods}", sick: "sick {n?card:cards}", cordoned: "cordoned {n?card:cards}", corrected: "corrected {n?record:records}",
    overuse: "{n?pod:pods} over {n?its:their} grant", "key-overuse": "over its grant", "overuse-title": "Pods over their grant",
    "overuse-words": "It uses more than it was granted: {use}.",
    unreadable: "{n?record:records} that cannot be read", unready: "{n?node:nodes} not ready", uncounted: "{n?node:nodes} with capacity 0 in the kubelet", "all-well": "Nothing needs a look",
    "shown-none": "No node matches the filters.", "no-nodes": "No node offers cards yet.",
    "no-nodes-label": "Label a node that has cards; its device plugin then reports them here, within a minute:",
    "no-nodes-why": "If a labelled node does not appear, this command finds out why:",
    scope: "Filtered by {filters}: the figures are those of {shown} of {total} {total?node:nodes}.",
    "scope-q": "search “{value}”", "scope-ns": "namespace {value}", "scope-model": "model {value}", "scope-label": "label {value}",
    details: "More figures",
    "nodes-label": "Nodes; arrow keys move, Enter opens",
    "others": "{n} {n?other:others}",
    "key-free": "free", "key-sliver": "free, under 15% of a card", "key-pods": "a colour for each pod", "key-fits": "it fits", "key-lost": "too small for it", "key-closed": "takes no new pods", "key-sick": "sick", "key-cordoned": "cordoned",
    "key-whole": "held whole", "key-pending": "not started yet", "key-corrected": "record corrected",
    "node-words": "{name}: {used} of {total} granted on {cards}; largest free piece {largest}",
    "node-sick": "{n} sick {n?card:cards}", "node-cordoned": "{n} cordoned {n?card:cards}", "node-unready": "not ready", "node-uncounted": "capacity 0 in the kubelet",
    close: "Close",
    node: "Node", pod: "Pod", "waiting-title": "Waiting pods", "trouble-title": "Needs a look",
    address: "Address", unit: "Memory unit", "assumed-unit": "assumed: the node does not report it",
    labels: "Labels", "no-labels": "none", ready: "ready", "not-ready": "not ready", unschedulable: "unschedulable", taint: "taint {taint}",
    settling: "cards of its pods not confirmed yet: no new pods for a moment",
    "card-title": "Card {n}", "card-minor": "minor number {n}", "card-reserved": "{amount} kept back", "fits-short": "a pod of {amount} fits", "card-granted": "{used} of {total} granted", "card-free": "{free} free",
    "card-mode-whole": "granted whole", "card-whole-free": "free for pods that ask for whole cards",
    serves: "Serves", "serves-memory": "memory of cards", "serves-whole": "whole cards", "serves-both": "memory and whole cards", "serves-claims": "claims", "card-missing": "not on this node any more", "card-full": "full",
    "pods-here": "Pods", "no-pods": "No pod was granted a card here.",
    "without-card": "without a recorded card",
    holds: "Granted", limit: "Limit", "limit-words": "up to {amount} while no other pod needs it", "on-card": "{amount} of card {card}", "on-whole": "card {card}, whole", age: "Age", priority: "Priority", owner: "Owner",
    "held-used": "{held}, {used} in use", use: "In use", "use-words": "{amount} of card {card}", "use-idle": "nothing for {age}", "use-elsewhere": "This command asks its node:",
    "state-assigned": "running on its card", "state-bound": "bound, not started by the kubelet yet",
    "state-reserved": "being bound", "state-waiting": "waiting", "state-never": "can never fit", "state-ending": "ending", "state-gone": "This pod is gone.",
    "node-gone": "This node is gone, or has no cards any more.",
    "corrected-words": "The kubelet gave it another card than was recorded; the record was corrected ({change}).",
    asks: "Asks for", "asks-one": "{amount} in one card", "asks-many": "{amount} on each of {n} {n?card:cards}",
    "asks-whole": "{n} whole {n?card:cards}", "asks-choosy": "only certain cards",
    why: "Why", "why-loading": "asking the extender…", "why-failed": "no explanation now: {error}",
    "scheduler-says": "kube-scheduler says",
    "no-waiting": "No pod waits for a card.",
    "explain-fits": "It fits now on {n} {n?node:nodes}; the scheduler will try it again.",
    "explain-never": "It can never fit: no card that it may use has more than {amount}.",
    "explain-never-many": "It can never fit: no node that it may use has more than {amount} on each of {n} cards.",
    "explain-never-whole": "It can never fit: no node that it may use has more than {n} {n?card:cards} to give whole.",
    "explain-never-other": "It can never fit on the nodes that there are.",
    ways: "What would help",
    "way-amount": "ask for at most {amount}", "way-amount-many": "ask for at most {amount} on each of {n} cards", "way-amount-whole": "ask for at most {n} whole {n?card:cards}",
    "way-cards": "set the annotation {key} to \"{n}\": {amount} on each of {n} cards of one node",
    "way-limit": "lower {key} to at most {amount}",
    "way-selection": "let it have other cards ({key})",
    "way-rules": "let it run on {nodes}, off which it is kept by {obstacle}",
    "way-node": "add a node with {n} {n?card:cards} of {amount} or more", "way-node-whole": "add a node with {n} {n?card:cards} that its plugin serves whole",
    "explain-awaited": "Whether it fits is known once the cards of all nodes are.",
    "explain-largest": "The largest request that fits now is {largest}.",
    "explain-refused": "It cannot be granted: {problem}",
    "explain-remedy": "It would fit on {node} if these pods ended:",
    "explain-by-hand": "(The scheduler does not end them by itself.)",
    "explain-gated": "The scheduler leaves it alone until these scheduling gates are removed: {gates}.",
    "explain-rules": "It may run on {n} of {known} {known?node:nodes}.",
    "explain-excluded": "{n} {n?other has:others have} room, but its nodeSelector, its node affinity, a taint or a cordon keeps it off:",
    "explain-asked": "The scheduler asked about {n} of {known} {known?node:nodes}.",
    "explain-elsewhere": "{n} {n?other has:others have} room, but another resource, a volume, a port, affinity to pods or the scheduler's sampling keeps the pod off:",
    "class-nodes": "{n} {n?node:nodes} with cards of {cards}", "class-none": "{n} {n?node:nodes} without cards",
    "class-best": "best card: {free} free (card {card} of {node})",
    "class-free": "{free} of {total} free in all",
    "reason-room": "room for it",
    "reason-enough free memory, but not in one card": "enough free memory, but not in one card",
    "reason-too little free memory": "too little free memory",
    "reason-the cards with room hold pods that it shares no card with (gcushare.io/apart)": "the cards with room hold pods that it shares no card with (gcushare.io/apart)",
    "reason-enough cards have room, but too few of them are linked with each other (gcushare.io/cards-linked)": "enough cards have room, but too few of them are linked with each other (gcushare.io/cards-linked)",
    "reason-too few of the cards that are large enough are linked with each other (gcushare.io/cards-linked)": "too few of the cards that are large enough are linked with each other (gcushare.io/cards-linked)",
    "reason-the cards that are large enough are sick or cordoned": "the cards that are large enough are sick or cordoned",
    "reason-the cards of its pods are not confirmed yet": "the cards of its pods are not confirmed yet",
    "reason-no card that the pod's annotations allow": "no card that the pod's annotations allow",
    "reason-its memory is counted in another unit than the pod's": "its memory is counted in another unit than the pod's",
    "reason-the kubelet counts its memory in another unit, or for another system": "the kubelet counts its memory in another unit, or for another system",
    "reason-no card as large as the pod's limit (gcushare.io/memory-limit)": "no card as large as the pod's limit (gcushare.io/memory-limit)",
    "reason-no card that is large enough": "no card that is large enough",
    "reason-too few unused cards": "too few unused cards",
    "reason-fewer cards than the pod asks for": "fewer cards than the pod asks for",
    "reason-no whole cards are served there (--mode of its device plugin)": "no whole cards are served there (--mode of its device plugin)",
    "reason-only whole cards are served there (--mode of its device plugin)": "only whole cards are served there (--mode of its device plugin)",
    "reason-its cards are given as claims (label gcushare.io/serve)": "its cards are given as claims (label gcushare.io/serve)",
    "reason-no cards, or none that can be read": "no cards, or none that can be read",
    "reason-its cards are not known yet, or cannot be read": "its cards are not known yet, or cannot be read",
    "reason-another plugin serves whole cards there, which kube-scheduler counts itself": "another plugin serves whole cards there, which kube-scheduler counts itself",
    "reason-the pod may not run there": "the pod may not run there",
    "reason-it takes no new pods at present": "it takes no new pods at present",
    "reason-kube-scheduler did not ask about it: something else keeps the pod off": "the scheduler did not ask about it: something else keeps the pod off",
    "reason-room is kept for another pod there": "room is kept for another pod there",
    "reason-cards with room are closed for a while: containers of deleted pods may still use them": "cards with room are closed for a while: containers of deleted pods may still use them",
    "closed-memory": "Takes no pods that share: containers of {pod}, deleted by force, may still run on it.",
    "closed-whole": "Is not given whole: containers of {pod}, deleted by force, may still run on it.",
    "closed-until": "It opens by {time}.",
    "sick-words": "Sick: {reason}", "sick-plain": "sick", "cordoned-words": "Cordoned by an admin: no new pods.",
    "pods-stay": "{n} {n?pod stays:pods stay} on it", "pods-none": "no pods on it",
    "corrected-title": "Corrected records", "sick-title": "Sick cards", "cordoned-title": "Cordoned cards",
    "unreadable-title": "Records that cannot be read", "unready-title": "Nodes not ready", "uncounted-title": "Nodes with capacity 0 in the kubelet",
    "uncounted-words": "The kubelet counts none of its cards' units: no pod can come here. The device plugin's log says why.",
    "token-title": "A token is needed",
    "token-text": "This page is for users of the cluster. Paste a token; it stays in this browser tab and is sent only to the extender.",
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
    label: "标签", "label-hint": "标签 键=值",
    sort: "排序",
    "sort-name": "按名称", "sort-free": "空闲多的在前", "sort-full": "分配多的在前",
    "sort-largest": "最大空闲块在前", "sort-stranded": "碎片多的在前", "sort-trouble": "有问题的在前",
    filters: "筛选", clear: "清除筛选",
    map: "分布图", table: "表格", "view-group": "视图",
    smaller: "缩小", larger: "放大", "fit-all": "显示全部节点",
    theme: "主题：{name}", "theme-auto": "自动", "theme-light": "浅色", "theme-dark": "深色",
    language: "English", "language-label": "切换到英文",
    live: "实时", connecting: "正在连接…", reconnecting: "连接中断，正在重试…",
    stale: "数据已 {age} 未更新",
    follower: "此副本处于待命状态，调度请求由 {holder} 处理。",
    "no-leader": "没有副本处理调度请求：申请卡的 Pod 会一直处于 Pending。",
    syncing: "扩展调度器仍在读取集群…",
    granted: "已分配", "of-total": "{used} / {total}", "free-now": "还可分配 {free}",
    cards: "{n} 张卡", nodes: "{n} 个节点", pods: "{n} 个 Pod",
    largest: "当前可满足的最大申请", "largest-where": "{node} 的卡 {card}", "largest-none": "没有空闲",
    untouched: "{n} 张卡完全空闲", "untouched-none": "没有完全空闲的卡", "whole-free": "{n} 张可整卡使用",
    room: "还能放下的单卡 Pod",
    pieces: "空闲显存按空闲块大小分布",
    "pieces-label": "直方图：空闲显存按空闲块大小的分布。{text}",
    probe: "申请", "probe-label": "申请大小", "probe-any": "任意大小",
    "probe-fits": "可放入 {nodes}的 {cards}", "probe-none": "没有卡放得下",
    "probe-lost": "{share} 的空闲显存处于更小的空闲块",
    "probe-off": "拖动滑块，查看某个大小的申请能用哪些空闲块",
    "piece-bar": "{from} 到 {to} 的块 {n} 个：{sum}",
    attention: "需要关注",
    waiting: "等待中的 Pod", sick: "故障卡", cordoned: "已封锁的卡", corrected: "已校正的记录",
    overuse: "超出分配量的 Pod", "key-overuse": "超出分配量", "overuse-title": "超出分配量的 Pod",
    "overuse-words": "它的用量超出分配量：{use}。",
    unreadable: "无法读取的记录", unready: "未就绪节点", uncounted: "kubelet 上容量为 0 的节点", "all-well": "一切正常",
    "shown-none": "没有节点符合筛选条件。", "no-nodes": "还没有节点提供卡。",
    "no-nodes-label": "给有卡的节点打上标签，其设备插件会在一分钟内上报这些卡：",
    "no-nodes-why": "若打了标签的节点没有出现，用此命令查找原因：",
    scope: "已按{filters}筛选：以下数据为 {total} 个节点中的 {shown} 个。",
    "scope-q": "搜索“{value}”", "scope-ns": "命名空间 {value} ", "scope-model": "型号 {value} ", "scope-label": "标签 {value} ",
    details: "更多数据",
    "nodes-label": "节点；方向键移动，回车打开",
    "others": "其他 {n} 个",
    "key-free": "空闲", "key-sliver": "空闲，不足一张卡的 15%", "key-pods": "每个 Pod 一种颜色", "key-fits": "放得下", "key-lost": "放不下", "key-closed": "不接受新 Pod", "key-sick": "故障", "key-cordoned": "已封锁",
    "key-whole": "整卡占用", "key-pending": "尚未启动", "key-corrected": "记录已校正",
    "node-words": "{name}：{cards}，已分配 {used} / {total}；最大空闲块 {largest}",
    "node-sick": "{n} 张故障卡", "node-cordoned": "{n} 张已封锁的卡", "node-unready": "未就绪", "node-uncounted": "kubelet 上容量为 0",
    close: "关闭",
    node: "节点", pod: "Pod", "waiting-title": "等待中的 Pod", "trouble-title": "需要关注",
    address: "地址", unit: "粒度", "assumed-unit": "推测值：节点未上报",
    labels: "标签", "no-labels": "无", ready: "就绪", "not-ready": "未就绪", unschedulable: "不可调度", taint: "污点 {taint}",
    settling: "正在确认已有 Pod 所用的卡，暂不接受新 Pod",
    "card-title": "卡 {n}", "card-minor": "次设备号 {n}", "card-reserved": "预留 {amount}", "fits-short": "可放 {amount} 的 Pod", "card-granted": "已分配 {used} / {total}", "card-free": "空闲 {free}",
    "card-mode-whole": "整卡已分配", "card-whole-free": "空闲，只供整卡申请",
    serves: "分配方式", "serves-memory": "按显存", "serves-whole": "按整卡", "serves-both": "按显存或整卡", "serves-claims": "资源声明（claim）", "card-missing": "已不在此节点", "card-full": "已满",
    "pods-here": "Pod", "no-pods": "没有 Pod 使用此节点的卡。",
    "without-card": "没有卡的记录",
    holds: "已分配", limit: "上限", "limit-words": "其他 Pod 不需要时最多 {amount}", "on-card": "卡 {card} 的 {amount}", "on-whole": "卡 {card}（整卡）", age: "存在时长", priority: "优先级", owner: "所属控制器",
    "held-used": "{held}，使用中 {used}", use: "实际使用", "use-words": "卡 {card} 的 {amount}", "use-idle": "已有 {age}没有使用", "use-elsewhere": "由此命令向节点查询：",
    "state-assigned": "已在卡上运行", "state-bound": "已绑定，kubelet 尚未启动",
    "state-reserved": "正在绑定", "state-waiting": "等待中", "state-never": "永远放不下", "state-ending": "正在终止", "state-gone": "此 Pod 已不存在。",
    "node-gone": "此节点已不存在，或不再有卡。",
    "corrected-words": "kubelet 分配的卡与记录不符，记录已校正（{change}）。",
    asks: "申请", "asks-one": "一张卡上 {amount}", "asks-many": "{n} 张卡上各 {amount}",
    "asks-whole": "{n} 张整卡", "asks-choosy": "只用指定的卡",
    why: "原因", "why-loading": "正在向扩展调度器查询…", "why-failed": "暂时无法查询原因：{error}",
    "scheduler-says": "kube-scheduler 的消息",
    "no-waiting": "没有 Pod 在等待卡。",
    "explain-fits": "现在 {n} 个节点放得下；调度器会再次尝试。",
    "explain-never": "永远放不下：它能用的卡最大为 {amount}。",
    "explain-never-many": "永远放不下：它能用的节点上，{n} 张卡最多各 {amount}。",
    "explain-never-whole": "永远放不下：它能用的节点最多以整卡提供 {n} 张。",
    "explain-never-other": "在现有的节点上永远放不下。",
    ways: "怎样才能放下",
    "way-amount": "最多申请 {amount}", "way-amount-many": "在 {n} 张卡上最多各申请 {amount}", "way-amount-whole": "最多申请 {n} 张整卡",
    "way-cards": "把注解 {key} 设为 \"{n}\"：在同一节点的 {n} 张卡上各 {amount}",
    "way-limit": "把 {key} 降到不超过 {amount}",
    "way-selection": "允许它使用其他卡（{key}）",
    "way-rules": "允许它在 {nodes} 上运行，目前不能的原因是 {obstacle}",
    "way-node": "增加一个节点，有 {n} 张不小于 {amount} 的卡", "way-node-whole": "增加一个节点，其插件能以整卡提供 {n} 张卡",
    "explain-awaited": "有节点的卡信息尚未就绪，届时才知道能否放下。",
    "explain-largest": "当前可满足的最大申请为 {largest}。",
    "explain-refused": "无法满足：{problem}",
    "explain-remedy": "以下 Pod 结束后可放入 {node}：",
    "explain-by-hand": "（调度器不会自行驱逐它们。）",
    "explain-gated": "以下调度门控移除之前，调度器不会调度它：{gates}。",
    "explain-rules": "它只能运行在 {known} 个节点中的 {n} 个上。",
    "explain-excluded": "另有 {n} 个节点放得下，但 nodeSelector、节点亲和性、污点或封锁使它不能调度到那里：",
    "explain-asked": "调度器只检查了 {known} 个节点中的 {n} 个。",
    "explain-elsewhere": "另有 {n} 个节点放得下，但其他资源、存储卷、端口、Pod 亲和性或调度器的抽样使它不能调度到那里：",
    "class-nodes": "{n} 个节点，卡为 {cards}", "class-none": "{n} 个节点没有卡",
    "class-best": "空闲最多的卡：{free}（{node} 的卡 {card}）",
    "class-free": "共空闲 {free} / {total}",
    "reason-room": "放得下",
    "reason-enough free memory, but not in one card": "空闲显存够，但不在同一张卡上",
    "reason-too little free memory": "空闲显存不足",
    "reason-the cards with room hold pods that it shares no card with (gcushare.io/apart)": "有空间的卡上有它不与之共用卡的 Pod（gcushare.io/apart）",
    "reason-enough cards have room, but too few of them are linked with each other (gcushare.io/cards-linked)": "有空间的卡够，但其中彼此互联的太少（gcushare.io/cards-linked）",
    "reason-too few of the cards that are large enough are linked with each other (gcushare.io/cards-linked)": "足够大的卡中彼此互联的太少（gcushare.io/cards-linked）",
    "reason-the cards that are large enough are sick or cordoned": "足够大的卡故障或已封锁",
    "reason-the cards of its pods are not confirmed yet": "其 Pod 所用的卡尚未确定",
    "reason-no card that the pod's annotations allow": "没有 Pod 注解所允许的卡",
    "reason-its memory is counted in another unit than the pod's": "它的显存单位与该 pod 的不同",
    "reason-the kubelet counts its memory in another unit, or for another system": "kubelet 以另一种单位计它的显存，或为另一个系统计数",
    "reason-no card as large as the pod's limit (gcushare.io/memory-limit)": "没有达到 Pod 上限大小的卡（gcushare.io/memory-limit）",
    "reason-no card that is large enough": "没有足够大的卡",
    "reason-too few unused cards": "未使用的卡太少",
    "reason-fewer cards than the pod asks for": "卡的数量少于 Pod 的请求",
    "reason-no whole cards are served there (--mode of its device plugin)": "那里不提供整卡（设备插件的 --mode）",
    "reason-only whole cards are served there (--mode of its device plugin)": "那里只提供整卡（设备插件的 --mode）",
    "reason-its cards are given as claims (label gcushare.io/serve)": "其卡以资源声明（claim）提供（标签 gcushare.io/serve）",
    "reason-no cards, or none that can be read": "没有卡，或无法读取",
    "reason-its cards are not known yet, or cannot be read": "卡信息尚未就绪，或无法读取",
    "reason-another plugin serves whole cards there, which kube-scheduler counts itself": "那里由另一个插件提供整卡，由 kube-scheduler 自己计数",
    "reason-the pod may not run there": "Pod 不能运行在那里",
    "reason-it takes no new pods at present": "目前不接受新的 Pod",
    "reason-kube-scheduler did not ask about it: something else keeps the pod off": "调度器没有检查它：另有原因使 Pod 不能调度到那里",
    "reason-room is kept for another pod there": "空间为那里的另一个 Pod 保留",
    "reason-cards with room are closed for a while: containers of deleted pods may still use them": "有空间的卡暂时关闭：已删除 Pod 的容器可能仍在使用",
    "closed-memory": "不接受共享的 Pod：被强制删除的 {pod} 的容器可能仍在其上运行。",
    "closed-whole": "不作整卡分配：被强制删除的 {pod} 的容器可能仍在其上运行。",
    "closed-until": "最迟于 {time} 开放。",
    "sick-words": "故障：{reason}", "sick-plain": "故障", "cordoned-words": "管理员已封锁：不接受新 Pod。",
    "pods-stay": "卡上仍有 {n} 个 Pod", "pods-none": "卡上没有 Pod",
    "corrected-title": "已校正的记录", "sick-title": "故障卡", "cordoned-title": "已封锁的卡",
    "unreadable-title": "无法读取的记录", "unready-title": "未就绪节点", "uncounted-title": "kubelet 上容量为 0 的节点",
    "uncounted-words": "kubelet 上该节点的卡容量为 0，Pod 无法调度到这里。原因见设备插件的日志。",
    "token-title": "需要令牌",
    "token-text": "此页面只对集群用户开放。请粘贴令牌：它只保存在此标签页，且只发送给扩展调度器。",
    "token-label": "集群的令牌", "token-send": "显示集群",
    "token-how": "一小时有效的令牌：", "token-empty": "请先粘贴令牌。", "token-odd": "这不是令牌：只接受 ASCII 字母、数字和符号，不含空格。",
    more: "再显示 {n} 个",
    "column-node": "节点", "column-model": "型号", "column-cards": "卡", "column-granted": "已分配", "column-largest": "最大空闲块", "column-pods": "Pod", "column-state": "状态",
    "changed-node": "{name} 有变化：已分配 {used} / {total}",
    "less-minute": "不到 1 分钟", minutes: "{n} 分钟", hours: "{n} 小时", days: "{n} 天",
  },
};

export const LANGUAGES = Object.freeze(Object.keys(WORDS));
let language = "en";
let plain = new Intl.NumberFormat("en");
let short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
let unitWord = "GiB";

/** Speak another language from now on. */
export function speak(name) {
  language = LANGUAGES.includes(name) ? name : "en";
  const locale = language === "zh" ? "zh-CN" : "en";
  plain = new Intl.NumberFormat(locale);
  short = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 });
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

const GIB = 2 ** 30;
/** Every memory unit has a whole number of these parts in a GiB, so amounts compare without errors of rounding. */
const PARTS = 128_000;

/** What part of `whole` is in whole percent, "37%"; rounded down, as in the tables of the inspect command. */
export function share(part, whole) {
  const [upper, lower] = [part, whole].map((bytes) => Math.round((bytes / GIB) * PARTS));
  return `${plain.format(lower > 0 ? Math.trunc((upper / lower) * 100) : 0)}%`;
}

/** Name memory as the nodes and the commands do: GiB if a node counts in GiB or MiB, else the manual's GB of 2**30 bytes. */
export function nameUnit(isBinary) {
  unitWord = isBinary ? "GiB" : "GB";
}

/** Bytes of card memory, "14 GiB", "512 MiB" or "0.5 GB". */
export function amount(bytes) {
  if (bytes === 0) return "0";
  const gib = bytes / GIB;
  if (gib > 0.995) return `${short.format(gib)} ${unitWord}`;
  return unitWord === "GB" ? `${plain.format(gib)} GB` : `${plain.format(Math.round(gib * 1024))} MiB`;
}

/** Bytes as a pod's author asks for them, not rounded: "14 GiB", "23,028 MiB" or "0.125 GB". */
export function exact(bytes) {
  if (bytes === 0) return "0";
  const gib = bytes / GIB;
  return unitWord === "GB" || Number.isInteger(gib) ? `${plain.format(gib)} ${unitWord}` : `${plain.format(Math.round(gib * 1024))} MiB`;
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
