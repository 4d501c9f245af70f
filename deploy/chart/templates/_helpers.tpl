{{- define "latecomer.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "latecomer.labels" -}}
app.kubernetes.io/name: latecomer
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "latecomer.server" -}}
app.kubernetes.io/name: latecomer
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end -}}

{{- define "latecomer.client" -}}
app.kubernetes.io/name: latecomer
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: client
{{- end -}}

{{- define "latecomer.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "latecomer.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "latecomer.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The config of the server: the user's federation, and what the chart knows better. */}}
{{- define "latecomer.config" -}}
{{- range $key := list "listen" "web" "journal" "tls" "plaintext" -}}
{{- if hasKey (($.Values.federation.server) | default dict) $key -}}
{{- fail (printf "federation.server.%s is set by the chart" $key) -}}
{{- end -}}
{{- end -}}
{{- if hasKey .Values.federation "app" -}}
{{- fail "federation.app: the server has no user code; see model.init" -}}
{{- end -}}
{{- if eq (int .Values.web.port) 8443 -}}
{{- fail "web.port: 8443 is the port of gRPC in the pod; give another one" -}}
{{- end -}}
{{- if and .Values.tls.clientCertificates (not .Values.tls.secretName) -}}
{{- fail "tls.clientCertificates: there is no TLS; give tls.secretName" -}}
{{- end -}}
{{- if and .Values.tls.clientCertificates (gt (int .Values.clients.replicas) 0) -}}
{{- fail "tls.clientCertificates: the chart's own clients have none; leave clients.replicas at 0" -}}
{{- end -}}
{{- $drain := dig "timeouts" "drain" 10 .Values.federation -}}
{{- if le (float64 .Values.terminationGracePeriodSeconds) (float64 $drain) -}}
{{- fail (printf "terminationGracePeriodSeconds: a server drains for %v s (timeouts.drain), so it must be more" $drain) -}}
{{- end -}}
{{- $server := dict "listen" "0.0.0.0:8443" "journal" "/data/run" "web" (printf "0.0.0.0:%v" .Values.web.port) -}}
{{- if .Values.tls.secretName -}}
{{- $tls := dict "certificate" "/tls/tls.crt" "key" "/tls/tls.key" -}}
{{- if .Values.tls.clientCertificates -}}
{{- $_ := set $tls "client_ca" "/tls/ca.crt" -}}
{{- end -}}
{{- $_ := set $server "tls" $tls -}}
{{- else if .Values.plaintext -}}
{{- $_ := set $server "plaintext" true -}}
{{- else -}}
{{- fail "no TLS: give tls.secretName, or say plaintext: true" -}}
{{- end -}}
{{- $config := deepCopy .Values.federation -}}
{{- $_ := set $config "model" .Values.model.path -}}
{{- $_ := set $config "server" (merge $server (.Values.federation.server | default dict)) -}}
{{- toYaml $config -}}
{{- end -}}
