{{/* Name in labels. */}}
{{- define "gcushare-scheduler-extender.name" -}}
{{- .Values.nameOverride | default .Values.deployName | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the objects. */}}
{{- define "gcushare-scheduler-extender.fullname" -}}
{{- .Values.fullnameOverride | default .Values.deployName | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{/* An umbrella chart's value beats this chart's own. */}}
{{- define "gcushare-scheduler-extender.vendor" -}}
{{- (.Values.global | default dict).vendor | default .Values.vendor -}}
{{- end -}}

{{/* The vendors of this release, comma-separated. */}}
{{- define "gcushare-scheduler-extender.vendors" -}}
{{- $vendor := include "gcushare-scheduler-extender.vendor" . -}}
{{- eq $vendor "both" | ternary (join "," (include "gcushare-scheduler-extender.words" . | fromJson).order) $vendor -}}
{{- end -}}

{{/* One thing that is known of each vendor of this release, comma-separated: dict root, key. */}}
{{- define "gcushare-scheduler-extender.ofVendors" -}}
{{- $words := (include "gcushare-scheduler-extender.words" . | fromJson).vendors -}}
{{- $found := list -}}
{{- range include "gcushare-scheduler-extender.vendors" .root | splitList "," }}{{ $found = append $found (get (get $words .) $.key) }}{{ end -}}
{{- join "," $found -}}
{{- end -}}

{{/* What kube-scheduler calls: one extender that binds, so one prefix for the resources of all vendors. */}}
{{- define "gcushare-scheduler-extender.urlPrefix" -}}
{{- include "gcushare-scheduler-extender.ofVendors" (dict "root" . "key" "urlPrefix") | splitList "," | first -}}
{{- end -}}

{{/* The shared memory resources of this release, comma-separated. */}}
{{- define "gcushare-scheduler-extender.resources" -}}
{{- include "gcushare-scheduler-extender.ofVendors" (dict "root" . "key" "memoryResource") -}}
{{- end -}}

{{/* The resources whose pods kube-scheduler calls the extender for, comma-separated. */}}
{{- define "gcushare-scheduler-extender.managed" -}}
{{- include "gcushare-scheduler-extender.resources" . -}}
{{- if .Values.wholeCards }},{{ include "gcushare-scheduler-extender.ofVendors" (dict "root" . "key" "wholeCardResource") }}{{ end -}}
{{- end -}}

{{- define "gcushare-scheduler-extender.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "gcushare-scheduler-extender.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "gcushare-scheduler-extender.uninstaller" -}}
{{- .Values.configManager.name }}-uninstall
{{- end -}}

{{- define "gcushare-scheduler-extender.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gcushare-scheduler-extender.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Whether the replica that leads labels its pod: it has the right to only where it answers kube-scheduler. */}}
{{- define "gcushare-scheduler-extender.isLeaderLabelled" -}}
{{- ne .Values.scheduler.verbs "off" | ternary "true" "" -}}
{{- end -}}

{{/* The pods behind the Services: the one that leads, or where no scheduler is answered all that are ready. */}}
{{- define "gcushare-scheduler-extender.leaderLabels" -}}
{{ include "gcushare-scheduler-extender.selectorLabels" . }}
app.kubernetes.io/component: extender
{{- if include "gcushare-scheduler-extender.isLeaderLabelled" . }}
gcushare.io/leads: {{ include "gcushare-scheduler-extender.fullname" . | quote }}
{{- end }}
{{- end -}}

{{/* CEL: whether the labels of a pod, as they were, are those of this release's extender. */}}
{{- define "gcushare-scheduler-extender.isReplica" -}}
{{- $labels := merge (dict "app.kubernetes.io/component" "extender") (include "gcushare-scheduler-extender.selectorLabels" . | fromYaml) -}}
{{- $found := list -}}
{{- range $key, $value := $labels }}{{ $found = append $found (printf "'%s' in variables.labelsBefore && variables.labelsBefore['%s'] == '%s'" $key $key $value) }}{{ end -}}
{{- join " &&\n" $found -}}
{{- end -}}

{{- define "gcushare-scheduler-extender.commonLabels" -}}
app.kubernetes.io/part-of: gcushare
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- with include "gcushare.commonLabels" . }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "gcushare-scheduler-extender.labels" -}}
{{ include "gcushare-scheduler-extender.selectorLabels" . }}
{{ include "gcushare-scheduler-extender.commonLabels" . }}
{{- end -}}

{{/* Where the extender, or the second scheduler, runs: dict root, component. Replicas keep away from each other. */}}
{{- define "gcushare-scheduler-extender.placement" -}}
{{- $own := merge (dict "app.kubernetes.io/component" .component) (include "gcushare-scheduler-extender.selectorLabels" .root | fromYaml) -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $own) -}}
{{- $apart := dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term))) -}}
{{- $values := .root.Values -}}
{{- include "gcushare.placement" (dict "nodeSelector" $values.nodeSelector "tolerations" $values.tolerations "affinity" ($values.affinity | default $apart) "path" "") -}}
{{- end -}}

{{/* A container that needs nothing but the network. */}}
{{- define "gcushare-scheduler-extender.restricted" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{ include "gcushare-scheduler-extender.seccomp" . }}
{{- end -}}

{{- define "gcushare-scheduler-extender.seccomp" -}}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The extender makes certificates in a Secret of this release: "yes" or nothing. */}}
{{- define "gcushare-scheduler-extender.makesCertificates" -}}
{{- $isMutual := ne (include "gcushare-scheduler-extender.verbs" .) "plain" -}}
{{- if and (eq .Values.tls.mode "own") (ne .Values.verbsTls.mode "own") -}}
{{- fail (printf "tls.mode own uses the certificate that the extender makes with verbsTls.mode own, but verbsTls.mode is %s: set one of the two to another mode" .Values.verbsTls.mode) -}}
{{- end -}}
{{- if and (eq .Values.verbsTls.mode "own") (or $isMutual (eq .Values.tls.mode "own")) -}}
yes
{{- end -}}
{{- end -}}

{{/* TLS: whether, the Secret's name, and the name in the certificate. */}}
{{- define "gcushare-scheduler-extender.tlsSecret" -}}
{{- if eq .Values.tls.mode "own" -}}
{{- include "gcushare-scheduler-extender.verbsSecret" . -}}
{{- else if eq .Values.tls.mode "secret" -}}
{{- required "tls.secretName must name the Secret when tls.mode is secret" .Values.tls.secretName -}}
{{- else if ne .Values.tls.mode "none" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "gcushare-scheduler-extender.fullname" .)) -}}
{{- end -}}
{{- end -}}

{{- define "gcushare-scheduler-extender.serverName" -}}
{{- include "gcushare-scheduler-extender.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "gcushare-scheduler-extender.scheme" -}}
{{- eq .Values.tls.mode "none" | ternary "http" "https" -}}
{{- end -}}

{{/* Where the scheduler's calls are answered: tls, both or plain; with off nothing that mutual TLS needs is there either. */}}
{{- define "gcushare-scheduler-extender.verbs" -}}
{{- $verbs := .Values.scheduler.verbs -}}
{{- if eq $verbs "off" -}}
{{- if ne .Values.scheduler.mode "none" }}{{ fail (printf "scheduler.verbs off goes with scheduler.mode none alone, not with %s: a scheduler that calls the extender would find no answer" .Values.scheduler.mode) }}{{ end -}}
plain
{{- else if eq $verbs "auto" -}}
{{- eq .Values.scheduler.mode "none" | ternary "plain" "tls" -}}
{{- else -}}
{{- $verbs -}}
{{- end -}}
{{- end -}}

{{/* The Secret of the extender's side of these calls, and of the scheduler's; one and the same with verbsTls.mode own. */}}
{{- define "gcushare-scheduler-extender.verbsSecret" -}}
{{- $verbsTls := .Values.verbsTls -}}
{{- if eq $verbsTls.mode "secret" -}}
{{- required "verbsTls.secretName must name the extender's Secret when verbsTls.mode is secret" $verbsTls.secretName -}}
{{- else -}}
{{- $verbsTls.secretName | default (printf "%s-verbs" (include "gcushare-scheduler-extender.fullname" .)) -}}
{{- end -}}
{{- end -}}

{{- define "gcushare-scheduler-extender.verbsClientSecret" -}}
{{- $verbsTls := .Values.verbsTls -}}
{{- if eq $verbsTls.mode "own" -}}
{{- include "gcushare-scheduler-extender.verbsSecret" . -}}
{{- else if eq $verbsTls.mode "secret" -}}
{{- required "verbsTls.clientSecretName must name the scheduler's Secret when verbsTls.mode is secret" $verbsTls.clientSecretName -}}
{{- else -}}
{{- $verbsTls.clientSecretName | default (printf "%s-verbs-client" (include "gcushare-scheduler-extender.fullname" .)) -}}
{{- end -}}
{{- end -}}

{{/* The names of the server in these certificates, comma-separated; the first is the one that schedulers expect. */}}
{{- define "gcushare-scheduler-extender.serverNames" -}}
{{- $server := include "gcushare-scheduler-extender.serverName" . -}}
{{ $server }},{{ $server }}.cluster.local,{{ include "gcushare-scheduler-extender.fullname" . }}.{{ .Release.Namespace }}
{{- end -}}

{{/* What of a Secret the scheduler's side is given: nothing of the extender's own. */}}
{{- define "gcushare-scheduler-extender.clientItems" -}}
{{- $verbsTls := .Values.verbsTls -}}
{{- $side := eq $verbsTls.mode "own" | ternary "client" "tls" -}}
- {key: ca.crt, path: ca.crt}
- {key: {{ $side }}.crt, path: tls.crt}
- {key: {{ $side }}.key, path: tls.key}
{{- end -}}

{{/* Whether the admission policies are rendered: "yes" or nothing. */}}
{{- define "gcushare-scheduler-extender.hasAdmission" -}}
{{- $enabled := .Values.admission.enabled | toString -}}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version)) -}}
yes
{{- end -}}
{{- end -}}

{{/*
A note if helm sees nodes and the config manager's DaemonSet fits none: dict Values, path (of the values, up to the dot).
An affinity of the user's own is not judged.
*/}}
{{- define "gcushare-scheduler-extender.outOfReach" -}}
{{- $nodes := (lookup "v1" "Node" "" "").items | default list -}}
{{- $manager := .Values.configManager -}}
{{- $fits := list -}}
{{- range $node := $nodes -}}
{{- $labels := $node.metadata.labels | default dict -}}
{{- $isFit := or $manager.affinity (hasKey $labels "node-role.kubernetes.io/control-plane") (hasKey $labels "node-role.kubernetes.io/master") -}}
{{- range $key, $value := $manager.nodeSelector }}{{ $isFit = and $isFit (eq (get $labels $key | toString) $value) }}{{ end -}}
{{- if $isFit }}{{ $fits = append $fits $node.metadata.name }}{{ end -}}
{{- end -}}
{{- if and $nodes (not $fits) }}
  * WARNING: the config manager fits none of the {{ len $nodes }} nodes, so no kube-scheduler will call the extender. On a
    managed cluster set {{ .path }}scheduler.mode=second-scheduler, or from Kubernetes 1.36 on
    serve claims (docs/claims.md). Else correct {{ .path }}configManager.nodeSelector or affinity.
{{- end -}}
{{- end -}}

{{/* How long kube-scheduler waits for an answer; takes Values. */}}
{{- define "gcushare-scheduler-extender.timeout" -}}
{{- include "gcushare.duration" (dict "given" .Values.scheduler.timeout "from" "0.1s" "to" "60s" "value" "scheduler.timeout") -}}
{{- end -}}

{{/* What to do about kube-scheduler after an installation: dict Values, Release, Capabilities, path (as above). */}}
{{- define "gcushare-scheduler-extender.firstStep" -}}
{{- if eq .Values.scheduler.mode "config-manager" }}
{{- include "gcushare-scheduler-extender.outOfReach" . }}
  * see that every control-plane node's kube-scheduler calls the extender (state "applied"):
      kubectl get configmap gcushare-config-manager -n {{ .Release.Namespace }} -o yaml
{{- else if eq .Values.scheduler.mode "second-scheduler" }}
  * have pods that share cards say so in their spec:
      schedulerName: {{ .Values.secondScheduler.name }}
{{- else if ne .Values.scheduler.verbs "off" }}
  * have kube-scheduler call the extender; gcushare-config-manager does it on the host for a systemd unit:
      gcushare-config-manager apply --unit /etc/systemd/system/kube-scheduler.service --restart \
        --vendor {{ include "gcushare-scheduler-extender.vendor" . }} \
        --extender-service {{ .Release.Namespace }}/{{ include "gcushare-scheduler-extender.fullname" . }} \
        {{- if .Values.wholeCards }}
        --whole-cards \
        {{- end }}
        {{- if include "gcushare-scheduler-extender.claimsCalled" . }}
        --claims \
        {{- end }}
        {{- if .Values.scheduler.ignorable }}
        --ignorable \
        {{- end }}
        {{- if ne (include "gcushare-scheduler-extender.verbs" .) "plain" }}
        --tls-ca FILE --tls-cert FILE --tls-key FILE \
        {{- else if ne .Values.tls.mode "none" }}
        --tls-ca FILE \
        {{- end }}
        --weight {{ .Values.scheduler.weight }} --timeout {{ include "gcushare-scheduler-extender.timeout" . }}
{{- end }}
{{- end -}}

{{- define "gcushare-scheduler-extender.userName" -}}
system:serviceaccount:{{ .root.Release.Namespace }}:{{ .name }}
{{- end -}}

{{/* The users of one service account, or of several, comma-separated: dict root, names (a name or a list). */}}
{{- define "gcushare-scheduler-extender.userNames" -}}
{{- $users := list -}}
{{- range kindIs "string" .names | ternary (list .names) .names }}
{{- $users = append $users (include "gcushare-scheduler-extender.userName" (dict "root" $.root "name" .)) }}
{{- end -}}
{{- join "," $users -}}
{{- end -}}

{{/* The second scheduler's configuration: dict root, api. */}}
{{- define "gcushare-scheduler-extender.schedulerConfig" -}}
{{- $values := .root.Values -}}
{{- $isMutual := ne (include "gcushare-scheduler-extender.verbs" .root) "plain" -}}
{{- $scheme := $isMutual | ternary "https" (include "gcushare-scheduler-extender.scheme" .root) -}}
apiVersion: kubescheduler.config.k8s.io/{{ .api }}
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: true
  # The default of 1.19 is a lock of Endpoints and Leases; the scheduler's Role grants Leases alone.
  resourceLock: leases
  resourceName: {{ $values.secondScheduler.name | quote }}
  resourceNamespace: {{ .root.Release.Namespace | quote }}
profiles:
  - schedulerName: {{ $values.secondScheduler.name | quote }}
extenders:
  - urlPrefix: "{{ $scheme }}://{{ include "gcushare-scheduler-extender.serverName" .root }}:{{ $isMutual | ternary $values.service.verbsPort $values.service.port }}{{ include "gcushare-scheduler-extender.urlPrefix" .root }}"
    filterVerb: filter
    prioritizeVerb: prioritize
    preemptVerb: preempt
    bindVerb: bind
    weight: {{ $values.scheduler.weight }}
    enableHTTPS: {{ eq $scheme "https" }}
    {{- if eq $scheme "https" }}
    tlsConfig:
      serverName: {{ include "gcushare-scheduler-extender.serverName" .root | quote }}
      caFile: /etc/gcushare-tls/ca.crt
      {{- if $isMutual }}
      certFile: /etc/gcushare-tls/tls.crt
      keyFile: /etc/gcushare-tls/tls.key
      {{- end }}
    {{- end }}
    httpTimeout: {{ include "gcushare-scheduler-extender.timeout" .root }}
    nodeCacheCapable: true
    managedResources:
      {{- range include "gcushare-scheduler-extender.managed" .root | splitList "," }}
      - name: {{ . | quote }}
        ignoredByScheduler: false
      {{- end }}
      {{- if include "gcushare-scheduler-extender.claimsCalled" .root }}
      {{- range include "gcushare-scheduler-extender.ofVendors" (dict "root" .root "key" "extenderResource") | splitList "," }}
      - name: {{ . | quote }}
        ignoredByScheduler: true
      {{- end }}
      {{- end }}
    ignorable: {{ $values.scheduler.ignorable }}
{{- end -}}

{{/* Annotations of pods that are the record of an allocation, as a CEL list; the families of this release only. */}}
{{- define "gcushare-scheduler-extender.recordKeys" -}}
{{- $own := list "gcushare.io/card-uuid" "gcushare.io/card-mode" "gcushare.io/units-by-card" "gcushare.io/corrected" "gcushare.io/recorded-uid" "gcushare.io/recorded-apart" "gcushare.io/over-use" "gcushare.io/idle-since" -}}
{{- include "gcushare-scheduler-extender.ofVendors" (dict "root" . "key" "record") | splitList "," | concat $own | include "gcushare-scheduler-extender.celList" -}}
{{- end -}}

{{/* Annotations of nodes that only the plugin writes, as a CEL list. */}}
{{- define "gcushare-scheduler-extender.inventoryKeys" -}}
{{- include "gcushare-scheduler-extender.ofVendors" (dict "root" . "key" "inventory") | splitList "," | include "gcushare-scheduler-extender.celList" -}}
{{- end -}}

{{/* Resources of a Node's status that the plugin writes, as a CEL list. */}}
{{- define "gcushare-scheduler-extender.nodeResources" -}}
{{- include "gcushare-scheduler-extender.ofVendors" (dict "root" . "key" "countResource") | splitList "," | include "gcushare-scheduler-extender.celList" -}}
{{- end -}}

{{- define "gcushare-scheduler-extender.celList" -}}
['{{ join "', '" . }}']
{{- end -}}

{{/* Only pods that ask for cards, or that a policy has given a claim in place of that. */}}
{{- define "gcushare-scheduler-extender.asks" -}}
matchConditions:
  - name: asks-for-cards
    expression: >-
      {{- if include "gcushare-scheduler-extender.claims" . }}
      has(object.spec.resourceClaims) && object.spec.resourceClaims.exists(r,
      r.name in {{ include "gcushare-scheduler-extender.claimsEntries" . }}) ||
      {{- end }}
      (object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])).exists(c,
      has(c.resources) && has(c.resources.limits) && {{ include "gcushare-scheduler-extender.managed" . | splitList "," | include "gcushare-scheduler-extender.celList" }}.exists(name,
      name in c.resources.limits))
{{- end -}}

{{/* An admission policy down to what it is asked about: dict root, name, operations, resources, group (or core). */}}
{{- define "gcushare-scheduler-extender.policyHead" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: "{{ include "gcushare-scheduler-extender.fullname" .root }}-{{ .name }}"
  labels:
    {{- include "gcushare-scheduler-extender.labels" .root | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [{{ .group | default "" | quote }}]
        apiVersions: [v1]
        operations: [{{ .operations }}]
        resources: [{{ .resources }}]
{{- end -}}

{{/* CEL: whether an update leaves an object's metadata as it was, whatever it holds, but for the annotations. */}}
{{- define "gcushare-scheduler-extender.sameMetadata" -}}
dyn(object.metadata).all(key, key in ['annotations', 'managedFields', 'resourceVersion', 'generation'] ||
        (key in dyn(oldObject.metadata) && dyn(oldObject.metadata)[key] == dyn(object.metadata)[key])) &&
        dyn(oldObject.metadata).all(key, key in ['annotations', 'managedFields', 'resourceVersion', 'generation'] ||
        key in dyn(object.metadata))
{{- end }}

{{/* Whether the extender removes the startup taint of new nodes: "true" or "". Only a policy bounds that right. */}}
{{- define "gcushare-scheduler-extender.removesTaint" -}}
{{- if .Values.autoscaling.startupTaint -}}
{{- if not (include "gcushare-scheduler-extender.hasAdmission" .) -}}
{{- fail (printf "autoscaling.startupTaint is true, but the extender may remove a node's taint only with the admission policies (Kubernetes 1.30 and later, admission.enabled auto or true), which leave it that one: set it to false, and remove the taint by a program of your own; this is Kubernetes %s" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{/* The label of pods that GiB-hours are counted by, as kube-state-metrics calls it; one that no pod has where it is empty. */}}
{{- define "gcushare-scheduler-extender.podLabel" -}}
{{- $key := .Values.prometheusRule.podLabel | default "" -}}
{{- if not (regexMatch "^(([A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$" $key) -}}
{{- fail (printf "prometheusRule.podLabel is %q, but it must be the key of one label as pods have it, such as team or example.com/team: write that, or leave it empty" $key) -}}
{{- end -}}
label_{{ regexReplaceAll "([a-z0-9])([A-Z])" (regexReplaceAll "[^a-zA-Z0-9_]" $key "_") "${1}_${2}" | lower }}
{{- end -}}
