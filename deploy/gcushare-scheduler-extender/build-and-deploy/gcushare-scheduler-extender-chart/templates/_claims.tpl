{{/* Whether claims are on: "true" or "". The umbrella chart's value beats this chart's own. */}}
{{- define "gcushare-scheduler-extender.claims" -}}
{{- if or .Values.claims.enabled ((.Values.global | default dict).claims | default dict).enabled -}}
{{- if semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version -}}
{{- fail (printf "claims.enabled is true, but Kubernetes %s cannot share a card among claims; 1.36 or later can: set it to false" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
true
{{- end -}}
{{- end -}}

{{/* Whether kube-scheduler is to call the extender for pods with claims: "true" or "". */}}
{{- define "gcushare-scheduler-extender.claimsCalled" -}}
{{- if and (include "gcushare-scheduler-extender.claims" .) .Values.claims.callExtender }}true{{ end -}}
{{- end -}}

{{/* Whether nodes are filled by labels that the extender keeps: "true" or "". If it is called it needs no such order. */}}
{{- define "gcushare-scheduler-extender.claimsPacked" -}}
{{- if and (include "gcushare-scheduler-extender.claims" .) .Values.claims.packNodes (not .Values.claims.callExtender) }}true{{ end -}}
{{- end -}}

{{/*
What both admission policies compute about a pod: dict root, vendor (its words). The mutating policy changes a pod whose
problem is empty; the validating one refuses a pod in which the resource was left, and says the problem.
*/}}
{{- define "gcushare-scheduler-extender.claimsVariables" -}}
{{- $memory := .vendor.memoryResource -}}
- name: options
  expression: "has(object.metadata.annotations) ? object.metadata.annotations : {}"
- name: inits
  expression: "has(object.spec.initContainers) ? object.spec.initContainers : []"
- name: containers
  expression: "variables.inits + object.spec.containers"
# What the policy noted when it changed the pod before: a LimitRange gives containers the resource again after that, and a
# webhook may add a container.
- name: noted
  expression: >-
    '{{ .keys.units }}' in variables.options &&
    variables.options['{{ .keys.units }}'].matches('^[a-z0-9-]+=[0-9]{1,10}(,[a-z0-9-]+=[0-9]{1,10})*$') &&
    has(object.spec.resourceClaims) && object.spec.resourceClaims.exists(r, r.name == '{{ .entry }}' &&
    has(r.resourceClaimTemplateName) && r.resourceClaimTemplateName.startsWith('{{ .vendor.claims.templatePrefix }}-')) ?
    variables.options['{{ .keys.units }}'].split(',').transformMapEntry(i, w, {w.split('=')[0]: w.split('=')[1]}) : {}
- name: isLimited
  expression: >-
    variables.containers.exists(c, c.name in variables.noted && has(c.resources) && has(c.resources.limits) &&
    '{{ $memory }}' in c.resources.limits)
# What each container asks for, as it is written; limits and requests are equal where Kubernetes accepts the pod.
- name: asked
  expression: >-
    variables.containers.transformMapEntry(i, c, {c.name: c.name in variables.noted ? variables.noted[c.name] :
    has(c.resources) && has(c.resources.limits) && '{{ $memory }}' in c.resources.limits ?
    string(c.resources.limits['{{ $memory }}']) : '0'})
- name: units
  expression: >-
    variables.asked.transformMap(name, amount, quantity(amount).isInteger() ? quantity(amount).asInteger() : 0)
# The container whose amount cannot be used, or nothing.
- name: odd
  expression: >-
    variables.containers.filter(c, !quantity(variables.asked[c.name]).isInteger() ||
    variables.units[c.name] < 0 || variables.units[c.name] > {{ include "gcushare-scheduler-extender.claimsMaxUnits" . }}).map(c, c.name)
# Kubernetes refuses these pods, if the resource is left in them.
- name: unequal
  expression: >-
    variables.containers.filter(c, !(c.name in variables.noted) && has(c.resources) && has(c.resources.requests) &&
    '{{ $memory }}' in c.resources.requests && (!has(c.resources.limits) || !('{{ $memory }}' in c.resources.limits) ||
    quantity(string(c.resources.requests['{{ $memory }}'])).compareTo(quantity(variables.asked[c.name])) != 0))
    .map(c, c.name)
# Kubernetes' effective request: the containers and sidecars together, or an init container with the sidecars that
# were started before it, whichever is more.
- name: initNames
  expression: "variables.inits.map(c, c.name)"
- name: sidecars
  expression: "variables.inits.filter(c, has(c.restartPolicy) && c.restartPolicy == 'Always').map(c, c.name)"
- name: running
  expression: >-
    object.spec.containers.map(c, variables.units[c.name]).sum() +
    variables.sidecars.map(name, variables.units[name]).sum()
- name: total
  expression: >-
    (variables.initNames.map(name, variables.units[name] + variables.sidecars.filter(other,
    variables.initNames.indexOf(other) < variables.initNames.indexOf(name)).map(other,
    variables.units[other]).sum()) + [variables.running]).max()
- name: isCardsRead
  expression: >-
    !('{{ .keys.cards }}' in variables.options) || variables.options['{{ .keys.cards }}'].matches('^(0?[1-9]|1[0-6])$')
- name: cards
  expression: >-
    '{{ .keys.cards }}' in variables.options && variables.isCardsRead ? int(variables.options['{{ .keys.cards }}']) : 1
- name: uneven
  expression: >-
    variables.containers.filter(c, variables.units[c.name] % variables.cards != 0).map(c, c.name)
- name: unkept
  expression: >-
    ['{{ .keys.useCards }}', '{{ .keys.avoidCards }}', '{{ .keys.memoryLimit }}', '{{ .keys.cardsLinked }}', '{{ .keys.apart }}']
    .filter(key, key in variables.options) +
    {{ .kept }}.transformList(key, values, key in variables.options && !(variables.options[key] in values), key)
- name: problem
  expression: >-
    variables.odd.size() > 0 ?
    'container "' + variables.odd[0] + '" asks for {{ $memory }}: ' + variables.asked[variables.odd[0]] +
    '; a whole number from 0 to {{ include "gcushare-scheduler-extender.claimsMaxUnits" . }} is accepted: correct limits and requests' :
    variables.unequal.size() > 0 ?
    'container "' + variables.unequal[0] + '" has other requests than limits of {{ $memory }}: ' +
    'set the limit and leave the request out' :
    variables.total > {{ include "gcushare-scheduler-extender.claimsMaxUnits" . }} ?
    'the containers ask for {{ $memory }}: ' + string(variables.total) +
    ' together; at most {{ include "gcushare-scheduler-extender.claimsMaxUnits" . }} is accepted: ask for less' :
    variables.containers.exists(c, has(c.resources) && has(c.resources.limits) &&
    '{{ .vendor.wholeCardResource }}' in c.resources.limits &&
    string(c.resources.limits['{{ .vendor.wholeCardResource }}']) != '0') ?
    'the pod asks for {{ $memory }} and for {{ .vendor.wholeCardResource }}; one of both is accepted: ' +
    'ask for memory or for whole cards' :
    variables.containers.exists(c, has(c.resources) && has(c.resources.limits) &&
    '{{ .vendor.countResource }}' in c.resources.limits &&
    !(string(c.resources.limits['{{ .vendor.countResource }}']) in ['0', '1'])) ?
    'a container asks for more than 1 {{ .vendor.countResource }} together with {{ $memory }}; only 1 is accepted: ' +
    'for several cards use the annotation {{ .keys.cards }}' :
    !variables.isCardsRead ?
    'annotation {{ .keys.cards }} is "' + variables.options['{{ .keys.cards }}'] +
    '"; a number from 1 to 16 is accepted: correct it or leave it out' :
    variables.uneven.size() > 0 ?
    'container "' + variables.uneven[0] + '" asks for ' + variables.asked[variables.uneven[0]] +
    ' {{ $memory }}, which ' + string(variables.cards) + ' cards cannot share equally; use a multiple' :
    variables.unkept.size() > 0 ?
    'annotation ' + variables.unkept[0] + ' is "' + variables.options[variables.unkept[0]] +
    '", which a claim cannot keep: leave it out, or use a namespace without the label gcushare.io/claims' :
    has(object.spec.nodeName) && object.spec.nodeName != '' ?
    'spec.nodeName is "' + object.spec.nodeName +
    '", but claims are allocated by the scheduler: leave it out and use a node selector' :
    {{- if .most }}
    variables.total > {{ .most }} * variables.cards ?
    'a pod may ask for at most ' + string({{ .most }} * variables.cards) +
    ' {{ $memory }}: no card of this cluster is larger' :
    {{- end }}
    variables.noted.size() == 0 && has(object.spec.resourceClaims) &&
    object.spec.resourceClaims.exists(r, r.name == '{{ .entry }}') ?
    'spec.resourceClaims has an entry "{{ .entry }}", a name reserved for the claim on {{ $memory }}: rename it' :
    ''
{{- end -}}

{{/* wire.dra.claim_names.MAX_UNITS */}}
{{- define "gcushare-scheduler-extender.claimsMaxUnits" -}}
1000000000
{{- end -}}

{{/* What the variables need, as JSON: dict root, name (the vendor's). */}}
{{- define "gcushare-scheduler-extender.claimsAbout" -}}
{{- $words := include "gcushare-scheduler-extender.words" .root | fromJson -}}
{{- $vendor := get $words.vendors .name -}}
{{- $keys := dict "cards" "gcushare.io/cards" "useCards" "gcushare.io/use-cards" "avoidCards" "gcushare.io/avoid-cards" "memoryLimit" "gcushare.io/memory-limit" "cardsLinked" "gcushare.io/cards-linked" "apart" "gcushare.io/apart" "resource" "gcushare.io/claimed-resource" "units" "gcushare.io/claimed-units" -}}
{{- $unit := include "gcushare-scheduler-extender.claimsUnit" . -}}
{{- $units := has $unit (list "1" "GiB") | ternary (list "1" "GiB") (list $unit) -}}
{{- $kept := printf "{'gcushare.io/node-policy': %s, 'gcushare.io/card-policy': ['binpack'], 'gcushare.io/memory-unit': %s}" (include "gcushare-scheduler-extender.celList" (get $words.policies "gcushare.io/node-policy")) (include "gcushare-scheduler-extender.celList" $units) -}}
{{- dict "vendor" $vendor "keys" $keys "kept" $kept "entry" (printf "gcushare-%s" $vendor.claims.templatePrefix) "most" (include "gcushare-scheduler-extender.mostUnits" (dict "root" .root "name" .name) | int) | toJson -}}
{{- end -}}

{{/* The most units of one card that a pod may ask for: dict root, name (the vendor's); 0 without a bound. */}}
{{- define "gcushare-scheduler-extender.mostUnits" -}}
{{- if include "gcushare-scheduler-extender.hasAdmission" .root -}}
{{- get (.root.Values.admission.pods.maxUnits | default dict) .name | default 0 -}}
{{- else -}}0{{- end -}}
{{- end -}}

{{/* What 1 of the memory resource stands for in claims: dict root, name (the vendor's). */}}
{{- define "gcushare-scheduler-extender.claimsUnit" -}}
{{- include "gcushare-scheduler-extender.memoryUnit" .root | default (get (include "gcushare-scheduler-extender.words" .root | fromJson).vendors .name).defaultUnit -}}
{{- end -}}

{{/* The same of every pod's request, if values say it. */}}
{{- define "gcushare-scheduler-extender.memoryUnit" -}}
{{- $unit := .Values.memoryUnit | default "" | toString -}}
{{- $ofClaims := .Values.claims.memoryUnit | default "" | toString -}}
{{- if and $unit $ofClaims (ne $unit $ofClaims) -}}
{{- fail (printf "memoryUnit is %s and claims.memoryUnit %s: a cluster has one unit, so leave out the latter" $unit $ofClaims) -}}
{{- end -}}
{{- $unit | default $ofClaims -}}
{{- end -}}

{{/* The bytes of one unit in claims, as wire.dra.claim_names.unit_bytes has them. */}}
{{- define "gcushare-scheduler-extender.claimsUnitBytes" -}}
{{- $unit := include "gcushare-scheduler-extender.claimsUnit" . -}}
{{- get (dict "1" 1073741824 "GiB" 1073741824 "MiB" 1048576 "0.1" 107374182 "0.01" 10737418 "0.001" 1073741) $unit -}}
{{- end -}}

{{/* The entries of pods' resourceClaims that the policies add, as a CEL list. */}}
{{- define "gcushare-scheduler-extender.claimsEntries" -}}
{{- $words := (include "gcushare-scheduler-extender.words" . | fromJson).vendors -}}
{{- $entries := list -}}
{{- range include "gcushare-scheduler-extender.vendors" . | splitList "," -}}
{{- $entries = append $entries (printf "gcushare-%s" (get $words .).claims.templatePrefix) -}}
{{- end -}}
{{- include "gcushare-scheduler-extender.celList" $entries -}}
{{- end -}}

{{/* A policy's matching: pods that ask for the vendor's memory, in namespaces that opted in. */}}
{{- define "gcushare-scheduler-extender.claimsMatch" -}}
matchConstraints:
  namespaceSelector:
    matchLabels:
      gcushare.io/claims: enabled
  resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      operations: [CREATE]
      resources: [pods]
matchConditions:
  - name: asks-for-memory
    expression: >-
      (object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])).exists(c,
      has(c.resources) && has(c.resources.limits) && '{{ .vendor.memoryResource }}' in c.resources.limits &&
      quantity(string(c.resources.limits['{{ .vendor.memoryResource }}'])).compareTo(quantity('0')) != 0)
{{- end -}}

{{/* The patches that have the pod keep what it asked for, for people and for the commands. */}}
{{- define "gcushare-scheduler-extender.claimsAnnotated" -}}
(has(object.metadata.annotations) ? [] : [JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}]) +
[JSONPatch{
  op: 'add', path: '/metadata/annotations/{{ .keys.resource | replace "/" "~1" }}', value: '{{ .vendor.memoryResource }}'
},
JSONPatch{
  op: 'add', path: '/metadata/annotations/{{ .keys.units | replace "/" "~1" }}',
  value: variables.containers.filter(c, variables.units[c.name] > 0)
    .map(c, c.name + '=' + string(variables.units[c.name])).join(',')
}]
{{- end -}}

{{/*
The patches that have kube-scheduler call the extender: a resource that no node lists, in the first container that asks
for memory, as many as the pod's units so that quotas can count them. Kubernetes wants limits and requests to be equal.
*/}}
{{- define "gcushare-scheduler-extender.claimsMarked" -}}
{{- range $list := list "containers" "initContainers" }}
{{- $containers := eq $list "containers" | ternary "object.spec.containers" "variables.inits" }}
{{- range $part := list "limits" "requests" }} +
{{ $containers }}.transformList(i, c,
variables.containers.filter(other, variables.units[other.name] > 0)[0].name == c.name, JSONPatch{
  op: 'add', value: string(variables.total),
  path: '/spec/{{ $list }}/' + string(i) + '/resources/{{ $part }}/{{ $.vendor.extenderResource | replace "/" "~1" }}'
})
{{- end }}
{{- end }}
{{- end -}}

{{/*
The patches that add preferred node affinity terms: kube-scheduler adds up the weights of the terms that match a node, so
that a node of a higher level is filled first. Nodes without the label get nothing. The levels are the extender's.
*/}}
{{- define "gcushare-scheduler-extender.claimsPreferred" -}}
{{- $list := "preferredDuringSchedulingIgnoredDuringExecution" -}}
{{- $at := "/spec/affinity/nodeAffinity" -}}
(variables.noted.size() > 0 || 'gcushare.io/node-policy' in variables.options && variables.options['gcushare.io/node-policy'] == 'spread' ? [] :
(has(object.spec.affinity) ? [] : [JSONPatch{op: 'add', path: '/spec/affinity', value: {}}]) +
(has(object.spec.affinity) && has(object.spec.affinity.nodeAffinity) ? [] :
[JSONPatch{op: 'add', path: '{{ $at }}', value: {}}]) +
(has(object.spec.affinity) && has(object.spec.affinity.nodeAffinity) &&
has(object.spec.affinity.nodeAffinity.{{ $list }}) ? [] :
[JSONPatch{op: 'add', path: '{{ $at }}/{{ $list }}', value: []}]) +
['1', '2', '3', '4', '5', '6', '7', '8', '9'].map(level, JSONPatch{
  op: 'add', path: '{{ $at }}/{{ $list }}/-',
  value: Object.spec.affinity.nodeAffinity.{{ $list }}{
    weight: int(level) * 10,
    preference: Object.spec.affinity.nodeAffinity.{{ $list }}.preference{
      matchExpressions: [Object.spec.affinity.nodeAffinity.{{ $list }}.preference.matchExpressions{
        key: 'gcushare.io/claims-order', operator: 'In', values: [level]
      }]
    }
  }
}))
{{- end -}}
