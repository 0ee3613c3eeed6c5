{{/* What pods of a role have in common with the one of `helm test`: everything but probes and how they stop. */}}
{{- define "unattended.environment" -}}
{{- $root := .root -}}
- {name: UNATTENDED_MONGODB_URL, valueFrom: {secretKeyRef: {{ dict "name" $root.Values.mongodb.secretName "key" $root.Values.mongodb.secretKey | toJson }}}}
{{- if ne .role "exporter" }}
- {name: UNATTENDED_REDIS_URL, valueFrom: {secretKeyRef: {{ dict "name" $root.Values.redis.secretName "key" $root.Values.redis.secretKey | toJson }}}}
{{- end }}
{{- if eq .role "gateway" }}
- {name: UNATTENDED_LISTEN, value: "0.0.0.0:8400"}
{{- else if ne .role "doctor" }}
- {name: UNATTENDED_METRICS_LISTEN, value: "0.0.0.0:9400"}  # the exporter's port; the other roles take the next one
{{- end }}
{{- if ne .role "exporter" }}
{{- if $root.Values.packages.volume }}
- {name: UNATTENDED_PACKAGES, value: /packages}
{{- else if $root.Values.packages.path }}
- {name: UNATTENDED_PACKAGES, value: {{ $root.Values.packages.path | quote }}}
{{- end }}
{{- end }}
{{- if has .role (list "worker" "doctor") }}
{{- if include "unattended.modelsConfigMap" $root }}
- {name: UNATTENDED_MODELS, value: /etc/unattended/models/models.yaml}
{{- else if $root.Values.models.path }}
- {name: UNATTENDED_MODELS, value: {{ $root.Values.models.path | quote }}}
{{- end }}
{{- if include "unattended.operatorConfigMap" $root }}
- {name: UNATTENDED_CONFIG, value: /etc/unattended/operator/unattended.yaml}
{{- else if $root.Values.operatorFile.path }}
- {name: UNATTENDED_CONFIG, value: {{ $root.Values.operatorFile.path | quote }}}
{{- end }}
{{- end }}
{{- if eq .role "worker" }}
- {name: UNATTENDED_CONCURRENCY, value: {{ $root.Values.worker.concurrency | int | quote }}}
- {name: UNATTENDED_GRACE_S, value: {{ $root.Values.worker.graceSeconds | int | quote }}}
- {name: UNATTENDED_MAX_MEMORY_MB, value: {{ include "unattended.maxMemoryMb" $root | quote }}}
{{- end }}
{{- range $name, $value := $root.Values.settings }}
- {name: {{ $name }}, value: {{ include "unattended.text" $value | quote }}}
{{- end }}
{{- range $root.Values.secrets.env }}
{{- if include "unattended.isFor" (dict "roles" .roles "role" $.role) }}
- {name: {{ .name }}, valueFrom: {secretKeyRef: {{ dict "name" .secret "key" .key | toJson }}}}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether a secret is for a role: "yes" or nothing. The doctor looks for all of them. */}}
{{- define "unattended.isFor" -}}
{{- if or (eq .role "doctor") (has .role (.roles | default (list "gateway" "scheduler" "watcher" "worker"))) }}yes{{ end }}
{{- end }}

{{- define "unattended.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- if and .root.Values.packages.volume (ne .role "exporter") }}
- {name: packages, mountPath: /packages, readOnly: true}
{{- end }}
{{- if and (include "unattended.modelsConfigMap" .root) (has .role (list "worker" "doctor")) }}
- {name: models, mountPath: /etc/unattended/models, readOnly: true}
{{- end }}
{{- if and (include "unattended.operatorConfigMap" .root) (has .role (list "worker" "doctor")) }}
- {name: operator-file, mountPath: /etc/unattended/operator, readOnly: true}
{{- end }}
{{- range .root.Values.secrets.files }}
{{- if include "unattended.isFor" (dict "roles" .roles "role" $.role) }}
- {name: {{ printf "secret-%s" .secret | replace "." "-" }}, mountPath: /etc/unattended/secrets/{{ .secret }}, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- define "unattended.volumes" -}}
- {name: tmp, emptyDir: {}}
{{- if and .root.Values.packages.volume (ne .role "exporter") }}
- {{ merge (dict "name" "packages") .root.Values.packages.volume | toJson }}
{{- end }}
{{- if and (include "unattended.modelsConfigMap" .root) (has .role (list "worker" "doctor")) }}
- {name: models, configMap: {name: {{ include "unattended.modelsConfigMap" .root }}}}
{{- end }}
{{- if and (include "unattended.operatorConfigMap" .root) (has .role (list "worker" "doctor")) }}
- {name: operator-file, configMap: {name: {{ include "unattended.operatorConfigMap" .root }}}}
{{- end }}
{{- range .root.Values.secrets.files }}
{{- if include "unattended.isFor" (dict "roles" .roles "role" $.role) }}
- {name: {{ printf "secret-%s" .secret | replace "." "-" }}, secret: {secretName: {{ .secret }}, defaultMode: 0440}}
{{- end }}
{{- end }}
{{- end }}

{{- define "unattended.podSecurity" -}}
serviceAccountName: {{ include "unattended.serviceAccount" . }}
automountServiceAccountToken: false
enableServiceLinks: false  # else a Service named unattended would set UNATTENDED_PORT and others
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- with .Values.pod.runAsUser }}
  runAsUser: {{ int . }}
  runAsGroup: {{ int . }}
  fsGroup: {{ int . }}
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "unattended.container" -}}
image: {{ printf "%s:%s" .Values.image.repository (include "unattended.text" (.Values.image.tag | default .Chart.AppVersion)) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}
