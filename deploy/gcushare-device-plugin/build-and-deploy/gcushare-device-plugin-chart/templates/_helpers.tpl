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

{{/* Name of one vendor's DaemonSet: dict root, vendor. */}}
{{- define "gcushare-device-plugin.daemonset" -}}
{{- include "gcushare-device-plugin.fullname" .root }}{{ (include "gcushare-device-plugin.ofVendor" .vendor | fromJson).nameSuffix -}}
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
