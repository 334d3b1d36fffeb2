{{/*
The control daemon of NVIDIA's MPS, on the nodes of one part of the release where MPS limits memory: dict root, vendor,
group, groups, environment. Programs that use the daemon end with it, so an upgrade replaces no pod of it: OnDelete.
*/}}
{{- define "gcushare-device-plugin.mpsDaemon" -}}
{{- $component := "mps-daemon" }}
{{- $of := dict "gcushare.io/vendor" .vendor }}
{{- with .group }}
{{- $_ := set $of "gcushare.io/node-group" . }}
{{- end }}
{{- $own := merge (dict "app.kubernetes.io/component" $component) $of (include "gcushare-device-plugin.selectorLabels" .root | fromYaml) }}
{{- $name := include "gcushare-device-plugin.daemonset" (merge (dict "kind" "mps") .) }}
{{- $onNodes := include "gcushare-device-plugin.onNodes" . }}
{{- $environment := .environment }}
{{- with .root }}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ $name | quote }}
  namespace: {{ .Release.Namespace | quote }}
  labels:
    {{- merge (deepCopy $own) (include "gcushare-device-plugin.labels" . | fromYaml) | toYaml | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- toYaml $own | nindent 6 }}
  updateStrategy:
    type: OnDelete
  template:
    metadata:
      labels:
        {{- include "gcushare.podLabels" (dict "root" . "own" $own "given" .Values.podLabels "path" "") | nindent 8 }}
      {{- with .Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- $onNodes | nindent 6 }}
      # It asks no API server; the account is named for those who bind rights of admission to it.
      automountServiceAccountToken: false
      # Its clients are known to it by the host's process ids.
      hostPID: true
      containers:
        - name: mps-control-daemon
          image: {{ include "gcushare.image" (dict "root" . "image" .Values.image) | quote }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          # Pods run under any user: without -multiuser-server the clients of one wait until those of another have ended.
          command: [nvidia-cuda-mps-control, -f, -multiuser-server]
          env:
            # For the container toolkit: all cards, and with compute the programs of MPS.
            {{- toYaml $environment | nindent 12 }}
            - name: CUDA_MPS_PIPE_DIRECTORY
              value: "{{ .Values.mps.root }}/pipe"
            - name: CUDA_MPS_LOG_DIRECTORY
              value: "{{ .Values.mps.root }}/log"
          # The image has no shell. A daemon that hangs is started again, with a loss of its clients' contexts.
          startupProbe:
            exec: &ask
              command:
                - python3
                - -IS
                - -c
                - >-
                  import subprocess, sys;
                  sys.exit(subprocess.run("nvidia-cuda-mps-control", timeout=8,
                  input=b"get_default_active_thread_percentage\n").returncode)
            periodSeconds: 2
            timeoutSeconds: 10
            failureThreshold: 30
          livenessProbe:
            exec: *ask
            periodSeconds: 15
            timeoutSeconds: 10
          {{- with .Values.mps.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          securityContext:
            # One server for the pods of every user runs as root.
            runAsUser: 0
            readOnlyRootFilesystem: true
            {{- if .Values.privileged }}
            privileged: true
            {{- else }}
            allowPrivilegeEscalation: false
            capabilities:
              drop: [ALL]
            {{- include "gcushare-device-plugin.seccomp" . | nindent 12 }}
            {{- end }}
          volumeMounts:
            - name: pipe
              mountPath: "{{ .Values.mps.root }}/pipe"
            - name: log
              mountPath: "{{ .Values.mps.root }}/log"
            # Server and clients exchange memory here: the same folder for all of them.
            - name: shm
              mountPath: /dev/shm
            - name: tmp
              mountPath: /tmp
            {{- if .Values.privileged }}
            - name: dev
              mountPath: /dev
              # What the host unmounts below it goes here too.
              mountPropagation: HostToContainer
            {{- end }}
      volumes:
        {{- range $folder := list "pipe" "log" "shm" }}
        - name: {{ $folder }}
          hostPath:
            path: "{{ $.root.Values.mps.root }}/{{ $folder }}"
            type: DirectoryOrCreate
        {{- end }}
        - name: tmp
          emptyDir:
            medium: Memory
            sizeLimit: 16Mi
        {{- if .Values.privileged }}
        - name: dev
          hostPath:
            path: /dev
            type: Directory
        {{- end }}
{{- end }}
{{- end -}}
