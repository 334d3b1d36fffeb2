{{/* Generated from deploy/lib/common.tpl: make vendors. */}}
{{/*
The chart's own entries of a map together with a value of the user's, as YAML: dict fixed, given, value (its path).
A key twice in one map is refused by kustomize and Flux, and a selector must find its own pods.
*/}}
{{- define "gcushare.merge" -}}
{{- $fixed := .fixed | default dict -}}
{{- range $key, $wanted := .given }}
{{- if and (hasKey $fixed $key) (ne (get $fixed $key) $wanted) }}
{{- fail (printf "%s sets %s to %q, but the chart itself sets it to %q: take %s out of %s" $.value $key $wanted (get $fixed $key) $key $.value) }}
{{- end }}
{{- end }}
{{- merge (deepCopy $fixed) (.given | default dict) | toYaml -}}
{{- end -}}

{{/* Labels of a pod: dict root, own (those of its selector), given, path (what podLabels is called, up to the dot). */}}
{{- define "gcushare.podLabels" -}}
{{- $fixed := merge (dict "app.kubernetes.io/part-of" "gcushare") .own (include "gcushare.commonLabels" .root | fromYaml) -}}
{{- include "gcushare.merge" (dict "fixed" $fixed "given" .given "value" (printf "%spodLabels" .path)) -}}
{{- end -}}

{{/* Labels of the user's for every object and pod, as YAML; the schema keeps them apart from the charts' own. */}}
{{- define "gcushare.commonLabels" -}}
{{- with (.Values.global | default dict).commonLabels }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* A security context with what values add to it, or replace: dict fixed (YAML), given. */}}
{{- define "gcushare.securityContext" -}}
{{- with mergeOverwrite (.fixed | fromYaml) (.given | default dict | deepCopy) -}}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
Refuses a value below global that no chart of ours reads. A chart that depends on ours has values of its own there, so
that is asked only if the one that is installed is ours.
*/}}
{{- define "gcushare.checkGlobal" -}}
{{- $ours := list "gcushare" "gcushare-device-plugin-chart" "gcushare-scheduler-extender-chart" -}}
{{- $known := list "vendor" "imageRegistry" "imagePullSecrets" "commonLabels" "claims" -}}
{{- if has (.Template.BasePath | splitList "/" | first) $ours -}}
{{- range $key, $_ := .Values.global -}}
{{- if not (has $key $known) }}{{ fail (printf "global.%s is not known; accepted: %s" $key (join ", " $known)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Who may call: a list of peers, which without one would let everyone in. */}}
{{- define "gcushare.ingressFrom" -}}
{{- if not .Values.networkPolicy.ingressFrom -}}
{{- fail "networkPolicy.enabled with an empty networkPolicy.ingressFrom would let everyone in: name who may call, such as [{ipBlock: {cidr: 10.0.0.0/8}}]" -}}
{{- end -}}
{{- toYaml .Values.networkPolicy.ingressFrom -}}
{{- end -}}

{{/* Refuses two objects of one name, or two ports of one number: a map of the value that names each to the name. */}}
{{- define "gcushare.distinct" -}}
{{- $seen := dict -}}
{{- range $value, $name := . -}}
{{- with get $seen (toString $name) }}{{ fail (printf "%s and %s are both %s: change one of them" . $value (toJson $name)) }}{{ end -}}
{{- $_ := set $seen (toString $name) $value -}}
{{- end -}}
{{- end -}}

{{/* A duration within its bounds: dict given, from, to, value (its path). */}}
{{- define "gcushare.duration" -}}
{{- $given := include "gcushare.milliseconds" .given | float64 -}}
{{- if or (lt $given (include "gcushare.milliseconds" .from | float64)) (gt $given (include "gcushare.milliseconds" .to | float64)) -}}
{{- fail (printf "%s is %s, but it must be from %s to %s" .value .given .from .to) -}}
{{- end -}}
{{- .given -}}
{{- end -}}

{{- define "gcushare.milliseconds" -}}
{{- $units := dict "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-z]+" . -1 -}}
{{- $sum = addf $sum (mulf (regexFind "[0-9.]+" . | float64) (get $units (regexFind "[a-z]+" .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Variables of a container: dict fixed, given (replaces fixed ones), reserved (one that the chart sets itself), value. */}}
{{- define "gcushare.env" -}}
{{- $given := .given | default list -}}
{{- $names := list -}}
{{- range $given }}
{{- if has .name $names }}{{ fail (printf "%s sets %s twice: leave one of the two out" $.value .name) }}{{ end }}
{{- $names = append $names .name }}
{{- end -}}
{{- if has .reserved $names }}
{{- fail (printf "%s sets %s, which the chart itself sets: take it out of %s" .value .reserved .value) }}
{{- end }}
{{- $kept := list -}}
{{- range .fixed }}{{ if not (has .name $names) }}{{ $kept = append $kept . }}{{ end }}{{ end -}}
{{- concat $kept $given | toYaml -}}
{{- end -}}

{{/*
An image's full name: dict root, image. global.imageRegistry takes the place of image.repository for our own images, those
with a name, as `make publish` pushes them; kube-scheduler's stays where it is.
*/}}
{{- define "gcushare.image" -}}
{{- $repository := trimSuffix "/" .image.repository -}}
{{- with .image.name -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" (($.root.Values.global | default dict).imageRegistry | default $repository)) . -}}
{{- end -}}
{{- $repository }}:{{ .image.tag | default (printf "v%s" .root.Chart.AppVersion) }}{{ with .image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* The pull secrets of a pod, those of global.imagePullSecrets (names, or objects as in a pod) among them; or nothing. */}}
{{- define "gcushare.pullSecrets" -}}
{{- $secrets := .Values.imagePullSecrets | default list -}}
{{- range (.Values.global | default dict).imagePullSecrets }}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- with uniq $secrets -}}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/*
Where a pod may run that belongs to no particular node: dict nodeSelector, tolerations, affinity, path (what these three
are called, up to the dot). Images are for Linux. A pod that tolerates everything goes to the node that is down: it is
the emptiest.
*/}}
{{- define "gcushare.placement" -}}
nodeSelector:
  {{- include "gcushare.linux" . | nindent 2 }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A nodeSelector: dict nodeSelector, path, fixed (entries of the chart's own, or nothing). */}}
{{- define "gcushare.linux" -}}
{{- $fixed := merge (dict "kubernetes.io/os" "linux") (.fixed | default dict) -}}
{{- include "gcushare.merge" (dict "fixed" $fixed "given" .nodeSelector "value" (printf "%snodeSelector" .path)) -}}
{{- end -}}
