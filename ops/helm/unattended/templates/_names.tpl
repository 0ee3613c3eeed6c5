{{- define "unattended.fullname" -}}
{{- $name := contains "unattended" .Release.Name | ternary .Release.Name (printf "%s-unattended" .Release.Name) }}
{{- $name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "unattended.selector" -}}
app.kubernetes.io/name: unattended
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "unattended.labels" -}}
{{ include "unattended.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "unattended.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "unattended.fullname" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "unattended.modelsConfigMap" -}}
{{- if .Values.models.config }}{{ include "unattended.fullname" . }}-models{{ else }}{{ .Values.models.configMap }}{{ end }}
{{- end }}

{{- define "unattended.operatorConfigMap" -}}
{{- if .Values.operatorFile.config }}{{ include "unattended.fullname" . }}-operator{{ else }}{{ .Values.operatorFile.configMap }}{{ end }}
{{- end }}

{{/* A value as the text of a variable. Numbers of a values file are floats: 1048576 would become 1.048576e+06. */}}
{{- define "unattended.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* UNATTENDED_MAX_MEMORY_MB: the worker looks before the kernel does. */}}
{{- define "unattended.maxMemoryMb" -}}
{{- $limit := .Values.worker.resources.limits.memory }}
{{- $number := regexFind "^[0-9]+" $limit | int64 }}
{{- $bytes := get (dict "Gi" 1073741824 "Mi" 1048576 "G" 1000000000 "M" 1000000) (regexFind "[A-Za-z]+$" $limit) | int64 }}
{{- div (mul $number $bytes 8) 10485760 }}
{{- end }}
