{{/* Name in labels. */}}
{{- define "gcushare-device-plugin.name" -}}
{{- .Values.nameOverride | default .Values.deployName | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the objects. */}}
{{- define "gcushare-device-plugin.fullname" -}}
{{- .Values.fullnameOverride | default .Values.deployName | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{/* The vendors of this release, comma-separated; an umbrella chart's value beats this chart's own. */}}
{{- define "gcushare-device-plugin.vendors" -}}
{{- $vendor := (.Values.global | default dict).vendor | default .Values.vendor -}}
{{- eq $vendor "both" | ternary (join "," (include "gcushare-device-plugin.words" . | fromJson).order) $vendor -}}
{{- end -}}

{{/* Whether nodes with the label gcushare.io/serve=claims are served too: "true" or "". */}}
{{- define "gcushare-device-plugin.claims" -}}
{{- if or .Values.claims.enabled ((.Values.global | default dict).claims | default dict).enabled -}}
{{- if semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version -}}
{{- fail (printf "claims.enabled is true, but Kubernetes %s cannot share a card among claims; 1.36 or later can: set it to false" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{/* The names of the vendors' drivers of claims, quoted for CEL. */}}
{{- define "gcushare-device-plugin.drivers" -}}
{{- range $number, $name := include "gcushare-device-plugin.vendors" . | splitList "," }}
{{- if $number }}, {{ end }}'{{ (include "gcushare-device-plugin.ofVendor" $name | fromJson).claims.driver }}'
{{- end -}}
{{- end -}}

{{/*
Name of a DaemonSet for one vendor's nodes, of a group or of none: dict root, vendor, group; kind, if it is not the plugin's.
*/}}
{{- define "gcushare-device-plugin.daemonset" -}}
{{- include "gcushare-device-plugin.fullname" .root }}{{ (include "gcushare-device-plugin.ofVendor" .vendor | fromJson).nameSuffix -}}
{{- with .kind }}-{{ . }}{{ end -}}
{{- with .group }}-group-{{ . }}{{ end -}}
{{- end -}}

{{/*
Puts a group's settings in the place of the chart's: dict values (changed in place), settings. Not by mergeOverwrite,
which leaves a setting as it is that the group has empty.
*/}}
{{- define "gcushare-device-plugin.useGroup" -}}
{{- range $key, $setting := .settings -}}
{{- if kindIs "map" $setting -}}
{{- $part := get $.values $key | default dict -}}
{{- range $inner, $each := $setting }}{{ $_ := set $part $inner $each }}{{ end -}}
{{- $setting = $part -}}
{{- end -}}
{{- $_ := set $.values $key $setting -}}
{{- end -}}
{{- end -}}

{{/* What one value is in each part of the release, as a JSON list: dict root, value; first that of nodes of no group. */}}
{{- define "gcushare-device-plugin.everywhere" -}}
{{- $found := list (get .root.Values .value) -}}
{{- range $_, $settings := .root.Values.nodeGroups }}
{{- $found = append $found (hasKey $settings $.value | ternary (get $settings $.value) (get $.root.Values $.value)) }}
{{- end -}}
{{- uniq $found | toJson -}}
{{- end -}}

{{/*
Where the plugin may run beyond its nodeSelector: dict root, group, groups (their names); or nothing. A node has one value
of a label, so at most one group; the DaemonSet for the nodes of no group keeps off those of the others, whatever the
user's affinity says: a node's terms are alternatives, so each of them gets the rule.
*/}}
{{- define "gcushare-device-plugin.affinity" -}}
{{- $affinity := deepCopy (.root.Values.affinity | default dict) -}}
{{- $rules := list -}}
{{- if and .groups (not .group) -}}
{{- $rules = append $rules (dict "key" "gcushare.io/node-group" "operator" "NotIn" "values" .groups) -}}
{{- end -}}
{{- /* Claims are not installed: a node that is to serve them serves nothing. */ -}}
{{- if not (or $affinity (include "gcushare-device-plugin.claims" .root)) -}}
{{- $rules = append $rules (dict "key" "gcushare.io/serve" "operator" "NotIn" "values" (list "claims")) -}}
{{- end -}}
{{- if $rules -}}
{{- $nodes := get $affinity "nodeAffinity" | default dict -}}
{{- $required := get $nodes "requiredDuringSchedulingIgnoredDuringExecution" | default dict -}}
{{- $terms := list -}}
{{- range get $required "nodeSelectorTerms" | default (list dict) -}}
{{- $terms = append $terms (merge (dict "matchExpressions" (concat (.matchExpressions | default list) $rules)) .) -}}
{{- end -}}
{{- $_ := set $nodes "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms) -}}
{{- $_ := set $affinity "nodeAffinity" $nodes -}}
{{- end -}}
{{- with $affinity }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* A pod on one vendor's nodes, of a group or of none, up to what runs in it: as for the DaemonSet's name, and groups. */}}
{{- define "gcushare-device-plugin.onNodes" -}}
{{- $ofGroup := .group | empty | ternary dict (dict "gcushare.io/node-group" .group) -}}
{{- $chosen := merge (dict (include "gcushare-device-plugin.nodeLabel" .vendor) "true") $ofGroup -}}
{{- $affinity := include "gcushare-device-plugin.affinity" . -}}
{{- with .root -}}
serviceAccountName: {{ include "gcushare-device-plugin.serviceAccount" . | quote }}
{{- with include "gcushare.pullSecrets" . }}{{ . | nindent 0 }}{{ end }}
{{- with .Values.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
nodeSelector:
  {{- include "gcushare.linux" (dict "fixed" $chosen "nodeSelector" .Values.nodeSelector "path" "") | nindent 2 }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- . | nindent 2 }}
{{- end }}
terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }}
enableServiceLinks: false
{{- with include "gcushare.securityContext" (dict "fixed" "" "given" .Values.podSecurityContext) }}{{ . | nindent 0 }}{{ end }}
{{- end -}}
{{- end -}}

{{/* What is known of a vendor, as JSON: its name. */}}
{{- define "gcushare-device-plugin.ofVendor" -}}
{{- get (include "gcushare-device-plugin.words" . | fromJson).vendors . | toJson -}}
{{- end -}}

{{- define "gcushare-device-plugin.nodeLabel" -}}
{{- (include "gcushare-device-plugin.ofVendor" . | fromJson).nodeLabel -}}
{{- end -}}

{{- define "gcushare-device-plugin.resource" -}}
{{- (include "gcushare-device-plugin.ofVendor" . | fromJson).memoryResource -}}
{{- end -}}

{{/* The unit in the vendor's words: 1, a GB of the manual, stands for whatever is the vendor's own. */}}
{{- define "gcushare-device-plugin.memoryUnit" -}}
{{- $unit := .root.Values.memoryUnit | toString -}}
{{- eq $unit "1" | ternary (include "gcushare-device-plugin.ofVendor" .vendor | fromJson).defaultUnit $unit -}}
{{- end -}}

{{- define "gcushare-device-plugin.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "gcushare-device-plugin.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "gcushare-device-plugin.cleanup" -}}
{{- include "gcushare-device-plugin.fullname" . }}-cleanup
{{- end -}}

{{- define "gcushare-device-plugin.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gcushare-device-plugin.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: device-plugin
{{- end -}}

{{- define "gcushare-device-plugin.labels" -}}
{{ include "gcushare-device-plugin.selectorLabels" . }}
app.kubernetes.io/part-of: gcushare
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- with include "gcushare.commonLabels" . }}
{{ . }}
{{- end }}
{{- end -}}

{{/* A container that needs nothing but the network. */}}
{{- define "gcushare-device-plugin.restricted" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{ include "gcushare-device-plugin.seccomp" . }}
{{- end -}}

{{- define "gcushare-device-plugin.seccomp" -}}
seccompProfile:
  type: RuntimeDefault
{{- end -}}
