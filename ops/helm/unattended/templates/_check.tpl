{{/* What a schema cannot say: all that is wrong, in one answer. */}}
{{- define "unattended.check" -}}
{{- $problems := list }}
{{- if not .Values.mongodb.secretName }}
{{- $problems = append $problems "mongodb.secretName is empty: name the Secret of this namespace that holds the URL of MongoDB (key mongodb-url)" }}
{{- end }}
{{- if not .Values.redis.secretName }}
{{- $problems = append $problems "redis.secretName is empty: name the Secret of this namespace that holds the URL of Redis (key redis-url)" }}
{{- end }}
{{- if and .Values.packages.path .Values.packages.volume }}
{{- $problems = append $problems "packages.path and packages.volume are both set: packages come from one of them" }}
{{- end }}
{{- $models := 0 }}
{{- range list .Values.models.path .Values.models.config .Values.models.configMap }}
{{- if . }}{{ $models = add $models 1 }}{{ end }}
{{- end }}
{{- if gt (int $models) 1 }}
{{- $problems = append $problems "models: set one of path, config and configMap" }}
{{- end }}
{{- if and (or .Values.packages.path .Values.packages.volume) (eq (int $models) 0) }}
{{- $problems = append $problems "models is empty, but packages are not: set models.config, models.configMap or models.path" }}
{{- end }}
{{- $operator := 0 }}
{{- range list .Values.operatorFile.path .Values.operatorFile.config .Values.operatorFile.configMap }}
{{- if . }}{{ $operator = add $operator 1 }}{{ end }}
{{- end }}
{{- if gt (int $operator) 1 }}
{{- $problems = append $problems "operatorFile: set one of path, config and configMap" }}
{{- end }}
{{- with .Values.worker.autoscaling }}
{{- if and .enabled (not .prometheusUrl) }}
{{- $problems = append $problems "worker.autoscaling.prometheusUrl is empty: write where KEDA reaches Prometheus, such as http://prometheus-operated.monitoring.svc:9090" }}
{{- end }}
{{- if gt (int .minReplicas) (int .maxReplicas) }}
{{- $problems = append $problems "worker.autoscaling.minReplicas is above maxReplicas" }}
{{- end }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) }}
{{- $problems = append $problems "ingress.host is empty: write the name under which senders reach the gateway" }}
{{- end }}
{{- range $value, $files := dict "alerts" "files/alerts/*.yaml" "dashboards" "files/dashboards/*.json" }}
{{- if and (get $.Values.monitoring $value).enabled (not ($.Files.Glob $files)) }}
{{- $problems = append $problems (printf "monitoring.%s is enabled, but this copy of the chart has none: files/ are links into the repository; install what `helm package` makes there" $value) }}
{{- end }}
{{- end }}
{{- range .Values.secrets.env }}
{{- if has .name (list "UNATTENDED_MONGODB_URL" "UNATTENDED_REDIS_URL") }}
{{- $problems = append $problems (printf "secrets.env: %s comes from mongodb.secretName or redis.secretName" .name) }}
{{- else if hasKey $.Values.settings .name }}
{{- $problems = append $problems (printf "%s stands in settings and in secrets.env: leave one of them out" .name) }}
{{- end }}
{{- end }}
{{- $files := list }}
{{- range .Values.secrets.files }}
{{- if has .secret $files }}
{{- $problems = append $problems (printf "secrets.files: %s is there twice: write all its roles in one entry" .secret) }}
{{- end }}
{{- $files = append $files .secret }}
{{- end }}
{{- if $problems }}
{{- fail (printf "\n\n%s\n" (join "\n" $problems)) }}
{{- end }}
{{- end }}
