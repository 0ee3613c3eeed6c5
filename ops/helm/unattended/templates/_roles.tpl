{{/* The roles: the port of each, the longest it takes to stop, and what it talks to. */}}
{{- define "unattended.roles" -}}
gateway: {port: 8400, stopSeconds: 20, egress: [mongodb, redis]}
scheduler: {port: 9401, stopSeconds: 15, egress: [mongodb, redis, https]}
watcher: {port: 9401, stopSeconds: 15, egress: [mongodb, redis]}
worker: {port: 9401, stopSeconds: {{ add .Values.worker.graceSeconds 3 }}, egress: [mongodb, redis, https]}
exporter: {port: 9400, stopSeconds: 15, egress: [mongodb]}
{{- end }}
