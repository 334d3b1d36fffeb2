{{- define "gcushare-claims.fullname" -}}
{{- .Values.deployName | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{/* The umbrella chart's value overrides this chart's. */}}
{{- define "gcushare-claims.vendor" -}}
{{- (.Values.global | default dict).vendor | default .Values.vendor -}}
{{- end -}}

{{/* The vendors of this release, comma-separated. */}}
{{- define "gcushare-claims.vendors" -}}
{{- $vendor := include "gcushare-claims.vendor" . -}}
{{- eq $vendor "both" | ternary (join "," (include "gcushare-claims.words" . | fromJson).order) $vendor -}}
{{- end -}}

{{/* The names of their claims drivers, quoted for CEL. */}}
{{- define "gcushare-claims.drivers" -}}
{{- $words := include "gcushare-claims.words" . | fromJson -}}
{{- range $number, $name := include "gcushare-claims.vendors" . | splitList "," }}
{{- if $number }}, {{ end }}'{{ (get $words.vendors $name).claims.driver }}'
{{- end -}}
{{- end -}}

{{/* The annotations in which nodes have their cards, quoted and comma-separated. */}}
{{- define "gcushare-claims.inventories" -}}
{{- $words := (include "gcushare-claims.words" . | fromJson).vendors -}}
{{- $keys := list -}}
{{- range include "gcushare-claims.vendors" . | splitList "," -}}
{{- $keys = append $keys (printf "'%s'" (get $words .).inventory) -}}
{{- end -}}
{{- join ", " $keys -}}
{{- end -}}

{{- define "gcushare-claims.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gcushare-claims.fullname" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "gcushare-claims.labels" -}}
{{ include "gcushare-claims.selectorLabels" . }}
app.kubernetes.io/part-of: gcushare
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}
