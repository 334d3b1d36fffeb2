# shellcheck shell=bash
# The nodes of the device plugin: their labels, and whether the plugin started on each. Sourced by deploy.sh and delete.sh
# of the plugin after common.sh.
# shellcheck disable=SC2154 # set by the script that sources this, and by common.sh

# Nodes that failed are reported when nothing has changed for this long: what a kubelet tries again often works soon.
settle_s=10

# vendors_of MANIFEST: print the vendors whose plugins a manifest holds, one a line, by the node labels that they select.
vendors_of() {
    local each
    for each in "${VENDORS[@]}"; do
        if grep -q "^ *${NODE_LABEL[$each]}: \"true\"" <<<"$1"; then say "$each"; fi
    done
}

# plugins_of VENDOR: print the selector of its plugins; MPS daemons have another component, and an upgrade leaves them be.
plugins_of() { say "app.kubernetes.io/instance=$name,app.kubernetes.io/component=device-plugin,gcushare.io/vendor=$1"; }

# plugin_reports VENDOR: print "NODE|ready", "NODE|starting|WHY" or "NODE|failed|WHY" for every labelled node. Failed means
# that the plugin does not start there unless somebody changes something.
plugin_reports() {
    local nodes pods events warnings selector
    selector=$(plugins_of "$1")
    nodes=$(kubectl get nodes --selector "${NODE_LABEL[$1]}=true" -o jsonpath='{range .items[*]}node|{.metadata.name}{"\n"}{end}') || return 1
    # A pod that is not scheduled yet has its node in its affinity.
    pods=$(kubectl get pods --namespace "$namespace" --selector "$selector" -o jsonpath='{range .items[*]}pod|{.spec.nodeName}|{.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].values[0]}|{.metadata.name}|{.metadata.creationTimestamp}|{.metadata.deletionTimestamp}|{.status.conditions[?(@.type=="Ready")].status}|{.status.conditions[?(@.type=="PodScheduled")].status}|{.status.conditions[?(@.type=="PodScheduled")].message}|{.status.containerStatuses[*].state.waiting.reason}|{.status.containerStatuses[*].state.waiting.message}{"\n"}{end}') || return 1
    events=$(kubectl get events --namespace "$namespace" --field-selector involvedObject.kind=Pod -o jsonpath='{range .items[*]}event|{.involvedObject.name}|{.lastTimestamp}|{.type}|{.reason}|{.message}{"\n"}{end}') || return 1
    warnings=$(kubectl get events --all-namespaces --field-selector involvedObject.kind=Node,type=Warning -o jsonpath='{range .items[*]}warning|{.involvedObject.name}|{.lastTimestamp}|{.source.component}|{.reason}|{.message}{"\n"}{end}') || return 1
    printf '%s\n' "$events" "$warnings" "$nodes" "$pods" | awk -F '|' '
        function rest(first,    text, i) {
            text = $first
            for (i = first + 1; i <= NF; i++) text = text "|" $i
            return text
        }
        $1 == "event" && $3 >= event_time[$2] {
            event_time[$2] = $3
            event[$2] = ($4 == "Warning" && $5 != "Unhealthy" && $5 != "BackOff" ? "failed" : "starting") "|" $5 ": " rest(6)
        }
        # What the plugin itself says about the node.
        $1 == "warning" && $4 ~ /device-plugin/ && $3 >= warning_time[$2] { warning_time[$2] = $3; warning[$2] = $5 ": " rest(6) }
        $1 == "node" { nodes[++count] = $2 }
        $1 == "pod" && $6 == "" {
            node = $2 != "" ? $2 : $3
            if ($7 == "True") state[node] = "ready"
            else if ($8 == "False") state[node] = "failed|no room for its pod: " $9
            else if ($10 ~ /BackOff|InvalidImageName|ErrImageNeverPull|CreateContainer/) state[node] = "failed|" $10 ": " rest(11)
            else if (node in warning && warning_time[node] >= $5) state[node] = "failed|" warning[node]
            else if ($4 in event) state[node] = event[$4]
            else state[node] = "starting|its pod " $4 " is not ready"
        }
        END {
            for (i = 1; i <= count; i++) {
                node = nodes[i]
                print node "|" (node in state ? state[node] : "failed|it has no pod there: see nodeSelector, affinity and tolerations of the values")
            }
        }'
}

# is_rolled_out VENDOR: whether the DaemonSets, one for each group of nodes, have replaced all pods of an older version.
is_rolled_out() {
    local counts generation observed wanted updated
    counts=$(kubectl get daemonset --namespace "$namespace" --selector "$(plugins_of "$1")" \
        -o jsonpath='{range .items[*]}{.metadata.generation}/{.status.observedGeneration}/{.status.desiredNumberScheduled}/{.status.updatedNumberScheduled}{"\n"}{end}' 2>/dev/null) || return 1
    [ -n "$counts" ] || return 1
    while IFS=/ read -r generation observed wanted updated; do
        [ "$generation" = "$observed" ] && [ "${updated:-0}" -ge "${wanted:-0}" ] || return 1
    done <<<"$counts"
}

# wait_for_plugins VENDOR: wait until the plugin is ready on every labelled node, and print each node's outcome. Returns 1
# if it did not start everywhere: when --timeout is over, or sooner if only nodes are left where it cannot start.
wait_for_plugins() {
    local deadline=$((SECONDS + $(seconds_of "$timeout"))) reports='' before='' since=$SECONDS ready='' node state
    while :; do
        # An API server that does not answer now may answer the next time.
        reports=$(plugin_reports "$1" 2>/dev/null) || reports=$before
        while IFS='|' read -r node state _; do
            [ "$state" = ready ] && [[ "$ready " != *" $node "* ]] || continue
            say "node $node: the plugin is ready"
            ready+=" $node"
        done <<<"$reports"
        [ "$reports" = "$before" ] || since=$SECONDS
        before=$reports
        if [ -n "$reports" ] && ! grep -qv '|ready$' <<<"$reports" && is_rolled_out "$1"; then return 0; fi
        [ "$SECONDS" -lt "$deadline" ] || break
        if [ $((SECONDS - since)) -ge "$settle_s" ] && ! grep -q '|starting|' <<<"$reports" && grep -q '|failed|' <<<"$reports"; then break; fi
        sleep 1
    done
    # Without a report the error of kubectl is the reason.
    [ -n "$reports" ] || reports=$(plugin_reports "$1") || true
    awk -F '|' '$2 != "" && $2 != "ready" { name = $1; sub(/^[^|]*\|[^|]*\|/, ""); print "node " name ": the plugin did not start: " $0 }' <<<"$reports"
    is_rolled_out "$1" || say "not every pod of the plugin for $1 is of this version: see kubectl get daemonset,pod -n $namespace -l gcushare.io/vendor=$1 -o wide"
    return 1
}
