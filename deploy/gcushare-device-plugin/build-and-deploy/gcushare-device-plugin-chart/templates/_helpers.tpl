{{/* Name in labels. */}}
{{- define "gcushare-device-plugin.name" -}}
{{- .Values.nameOverride | default .Values.deployName | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the objects. */}}
{{- define "gcushare-device-plugin.fullname" -}}
{{- .Values.fullnameOverride | default .Values.deployName | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{/* The vendors of this release, comma-separated; an umbrella chart's value beats this chart's own. */}}
{{- define "gcushare-device-plugin.vendors" -}}
{{- $vendor := (.Values.global | default dict).vendor | default .Values.vendor -}}
{{- eq $vendor "both" | ternary "enflame,aliyun" $vendor -}}
{{- end -}}

{{/* Name of one vendor's DaemonSet: dict root, vendor. */}}
{{- define "gcushare-device-plugin.daemonset" -}}
{{- $name := include "gcushare-device-plugin.fullname" .root -}}
{{- eq .vendor "aliyun" | ternary (printf "%s-aliyun" $name) $name -}}
{{- end -}}

{{- define "gcushare-device-plugin.nodeLabel" -}}
{{- eq . "aliyun" | ternary "gpushare" "enflame.com/gcushare" -}}
{{- end -}}

{{- define "gcushare-device-plugin.resource" -}}
{{- eq . "aliyun" | ternary "aliyun.com/gpu-mem" "enflame.com/gcu-memory" -}}
{{- end -}}

{{/* The unit in the vendor's words: 1 GB of the manual is aliyun's GiB. */}}
{{- define "gcushare-device-plugin.memoryUnit" -}}
{{- $unit := .root.Values.memoryUnit | toString -}}
{{- and (eq .vendor "aliyun") (eq $unit "1") | ternary "GiB" $unit -}}
{{- end -}}

{{- define "gcushare-device-plugin.image" -}}
{{- $image := .Values.image -}}
{{- $name := printf "%s/%s:%s" (trimSuffix "/" $image.repository) $image.name ($image.tag | default .Chart.AppVersion | toString) -}}
{{- if $image.digest }}{{ $name }}@{{ $image.digest }}{{ else }}{{ $name }}{{ end -}}
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
app.kubernetes.io/name: {{ include "gcushare-device-plugin.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gcushare-device-plugin.labels" -}}
{{ include "gcushare-device-plugin.selectorLabels" . }}
app.kubernetes.io/part-of: gcushare
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
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
seccompProfile:
  type: RuntimeDefault
{{- end -}}
