# shellcheck shell=bash
# Follow what gcushare-config-manager does on every control-plane node, through the ConfigMap in which each reports.
# shellcheck disable=SC2154 # set by the script that sources this

state_map=gcushare-config-manager

# Print "NODE STATE REASON..." for every node that has reported and still exists: those of others stay.
scheduler_reports() {
    local nodes
    nodes=$(kubectl get nodes -o name | tr '\n' ' ') || return 0
    # shellcheck disable=SC2016 # the template's own variables
    kubectl get configmap "$state_map" --namespace "$namespace" \
        -o go-template='{{range $key, $value := .data}}{{$key}} {{$value}}{{"\n"}}{{end}}' 2>/dev/null |
        sed -n 's/^node\.\([^ ]*\) {"state": *"\([a-z]*\)",\( *"calls": *"[a-z-]*",\)\{0,1\} *"reason": *"\(.*\)"}$/\1 \2 \4/p' |
        awk -v nodes="$nodes" 'BEGIN { n = split(nodes, names); while (n) there[names[n--]] } ("node/" $1) in there'
}

# Set expected, on how many nodes a config manager belongs, nothing as long as the cluster has not counted them for what is
# installed now; and updated and ready, on how many its pod is of this version, and ready. The DaemonSet's name is a value of
# the chart, its label is not.
count_managers() {
    local counts generation observed
    counts=$(kubectl get daemonset --namespace "$namespace" --selector app.kubernetes.io/component=config-manager \
        -o jsonpath='{.items[0].metadata.generation}/{.items[0].status.observedGeneration}/{.items[0].status.desiredNumberScheduled}/{.items[0].status.updatedNumberScheduled}/{.items[0].status.numberReady}' 2>/dev/null) || counts=
    IFS=/ read -r generation observed expected updated ready <<<"$counts"
    [ -n "$generation" ] && [ "$generation" = "$observed" ] || expected=
    # What is 0 is left out.
    updated=${updated:-0} ready=${ready:-0}
}

# wait_for_schedulers STATE: until every managed node reports STATE; prints what goes wrong meanwhile. Returns 1 when it
# is not so in time. A report of before an upgrade says "applied" too, so that then the pods of now must run and be ready,
# which they are when their node's scheduler is as it is wanted.
wait_for_schedulers() {
    local wanted=$1 deadline=$((SECONDS + $(seconds_of "$timeout"))) reports there expected updated ready printed=
    while :; do
        reports=$(scheduler_reports)
        count_managers
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

# Print the lines that the config managers printed for people since a time; their log lines begin with a date.
show_manager_lines() {
    local pod
    for pod in $(kubectl get pods --namespace "$namespace" --selector app.kubernetes.io/component=config-manager -o name); do
        kubectl logs --namespace "$namespace" --since-time="$1" "$pod" 2>/dev/null | grep -Ev '^[0-9]{4}[-/]|^\{' || true
    done
}
