# shellcheck shell=bash
# Follow gcushare-config-manager on every control-plane node by the ConfigMap in which each node reports.
# shellcheck disable=SC2154 # set by the script that sources this

state_map=gcushare-config-manager

# Print "NODE STATE REASON..." for every node that has reported and still exists. Reports of removed nodes stay in the map.
scheduler_reports() {
    local nodes
    nodes=$(kubectl get nodes -o name | tr '\n' ' ') || return
    # shellcheck disable=SC2016 # the template's own variables
    kubectl get configmap "$state_map" --namespace "$namespace" \
        -o go-template='{{range $key, $value := .data}}{{$key}} {{$value}}{{"\n"}}{{end}}' 2>/dev/null |
        sed -n 's/^node\.\([^ ]*\) {"state": *"\([a-z]*\)",\( *"calls": *"[a-z-]*",\)\{0,1\} *"reason": *"\(.*\)"}$/\1 \2 \4/p' |
        awk -v nodes="$nodes" 'BEGIN { n = split(nodes, names); while (n) there[names[n--]] } ("node/" $1) in there'
}

# Set expected, the number of nodes that a config manager belongs on (empty until the cluster has counted them for this
# version), updated, the number of pods of this version, and ready, the number of ready pods. The DaemonSet is found by its
# label: its name is a value of the chart.
count_managers() {
    local counts generation observed
    counts=$(kubectl get daemonset --namespace "$namespace" --selector app.kubernetes.io/component=config-manager \
        -o jsonpath='{.items[0].metadata.generation}/{.items[0].status.observedGeneration}/{.items[0].status.desiredNumberScheduled}/{.items[0].status.updatedNumberScheduled}/{.items[0].status.numberReady}' 2>/dev/null) || counts=
    IFS=/ read -r generation observed expected updated ready <<<"$counts"
    [ -n "$generation" ] && [ "$generation" = "$observed" ] || expected=
    # The API server omits a 0.
    updated=${updated:-0} ready=${ready:-0}
}

# wait_for_schedulers STATE: wait until every managed node reports STATE, and print failures meanwhile. Returns 1 if that
# takes longer than --timeout, 2 if no node is managed; of "recovered" if none has reported: its scheduler was not
# changed. "applied" may be a report from before an upgrade, so the pods must be of this version and ready too: a pod is
# ready when its node's scheduler is configured.
wait_for_schedulers() {
    local wanted=$1 deadline=$((SECONDS + $(seconds_of "$timeout"))) reports there expected updated ready printed=
    while :; do
        count_managers
        if reports=$(scheduler_reports) && [ "$wanted" != applied ]; then
            expected=$(printf '%s' "$reports" | grep -c . || true)
        fi
        there=$(printf '%s\n' "$reports" | awk -v state="$wanted" '$2 == state' | grep -c . || true)
        if [ -n "$expected" ] && [ "$there" -ge "$expected" ] && ! printf '%s\n' "$reports" | grep -Eq ' (failed|changing) '; then
            [ "$expected" -gt 0 ] || return 2
            [ "$wanted" = applied ] || return 0
            if [ "$updated" -ge "$expected" ] && [ "$ready" -ge "$expected" ]; then return 0; fi
        fi
        if [ "$SECONDS" -ge "$deadline" ]; then
            say "after $timeout $there of ${expected:-?} control-plane nodes are $wanted:"
            printf '%s\n' "${reports:-no node has reported}"
            say "pods of the config manager: $updated of this version, $ready ready"
            return 1
        fi
        if [ "$reports" != "$printed" ]; then
            printf '%s\n' "$reports" | awk '$2 == "failed" { $2 = "not yet:"; print "node " $0 }'
            printed=$reports
        fi
        sleep 0.5
    done
}

# show_manager_lines TIME: print what the config managers have printed for people since then. Their log lines begin with a
# date.
show_manager_lines() {
    local pod
    for pod in $(kubectl get pods --namespace "$namespace" --selector app.kubernetes.io/component=config-manager -o name); do
        kubectl logs --namespace "$namespace" --since-time="$1" "$pod" 2>/dev/null | grep -Ev '^[0-9]{4}[-/]|^\{' || true
    done
}
