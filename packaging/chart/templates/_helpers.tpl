{{- define "sluice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "sluice.fullname" -}}
{{- $name := include "sluice.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ include "sluice.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.metadata" -}}
name: {{ include "sluice.fullname" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "sluice.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "sluice.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- /* The store in Redis as settings of sluice.yaml, or nothing. */}}
{{- define "sluice.redis" -}}
{{- $redis := .Values.redis }}
{{- $made := dict }}
{{- if and $redis.url $redis.addresses }}{{ fail "redis: give url or addresses, not both" }}{{ end }}
{{- if $redis.addresses }}
  {{- $_ := set $made "addresses" $redis.addresses }}
{{- else if $redis.url }}
  {{- $url := urlParse $redis.url }}
  {{- if contains ":" (default "" $url.userinfo) }}{{ fail "redis.url has a password: put it into a secret, and give redis.existingSecret.name" }}{{ end }}
  {{- $addresses := list }}
  {{- range splitList "," $url.host }}
    {{- $addresses = append $addresses (regexMatch ":[0-9]+$" . | ternary . (printf "%s:6379" .)) }}
  {{- end }}
  {{- $_ := set $made "addresses" $addresses }}
  {{- with trimPrefix "/" $url.path }}{{ $_ := set $made "database" (int .) }}{{ end }}
  {{- if eq $url.scheme "rediss" }}{{ $_ := set $made "tls" true }}{{ end }}
  {{- with $url.userinfo }}{{ $_ := set $made "user" . }}{{ end }}
{{- else if or $redis.cluster $redis.tls $redis.user $redis.existingSecret.name }}
  {{- fail "redis: give url or addresses" }}
{{- end }}
{{- if $redis.cluster }}{{ $_ := set $made "cluster" true }}{{ end }}
{{- if $redis.tls }}{{ $_ := set $made "tls" true }}{{ end }}
{{- with $redis.user }}{{ $_ := set $made "user" . }}{{ end }}
{{- if $redis.existingSecret.name }}{{ $_ := set $made "password_file" "/run/secrets/sluice/redis/password" }}{{ end }}
{{- if $made }}{{ toYaml $made }}{{ end }}
{{- end }}

{{- /* The content of sluice.yaml. */}}
{{- define "sluice.config" -}}
{{- $config := deepCopy .Values.config }}
{{- range list "drain" "drain_timeout" }}
  {{- if hasKey $config . }}{{ fail (printf "config.%s: give drain.delay and drain.timeout of the chart, which set the pod's time to end too" .) }}{{ end }}
{{- end }}
{{- with include "sluice.redis" . }}
  {{- if hasKey $config "store" }}{{ fail "give redis or config.store, not both" }}{{ end }}
  {{- $_ := set $config "store" (dict "redis" (fromYaml .)) }}
{{- end }}
{{- $_ := set $config "drain" (dict "delay" (printf "%ds" (int .Values.drain.delay))) }}
{{- $_ := set $config "drain_timeout" (printf "%ds" (int .Values.drain.timeout)) }}
{{- range $name := list "admin" "api" }}
  {{- if (index $.Values $name).existingSecret.name }}
    {{- $section := default dict (get $config $name) }}
    {{- $_ := set $section "token_file" (printf "/run/secrets/sluice/%s/token" $name) }}
    {{- $_ := set $config $name $section }}
  {{- end }}
{{- end }}
{{- $listen := default dict $config.listen }}
{{- range $name, $at := $listen }}
  {{- /* Helm reads the word off as false. */}}
  {{- if and (kindIs "bool" $at) (not $at) }}{{ $_ := set $listen $name "off" }}{{ end }}
{{- end }}
{{- $admin := default "127.0.0.1:9090" $listen.admin | toString }}
{{- if not (regexMatch "^(127\\.0\\.0\\.1|0\\.0\\.0\\.0|\\[::\\]):9090$" $admin) }}
  {{- fail "config.listen.admin: the probes call http://127.0.0.1:9090: write 127.0.0.1:9090, 0.0.0.0:9090 or \"[::]:9090\"" }}
{{- end }}
{{- if and .Values.serviceMonitor.enabled (hasPrefix "127." $admin) }}{{ $_ := set $listen "admin" "0.0.0.0:9090" }}{{ end }}
{{- $_ := set $config "listen" $listen }}
{{- toYaml $config }}
{{- end }}

{{- /* Ports that other pods can reach, as name: number. */}}
{{- define "sluice.ports" -}}
{{- $ports := dict }}
{{- if .Values.envoy.enabled }}
  {{- $ports = dict "http" 8080 "grpc" 8081 }}
  {{- if .Values.serviceMonitor.enabled }}{{ $_ := set $ports "admin" 9090 }}{{ end }}
{{- else }}
  {{- range $name, $at := (include "sluice.config" . | fromYaml).listen }}
    {{- $address := kindIs "map" $at | ternary (get (kindIs "map" $at | ternary $at dict) "address") $at | toString }}
    {{- if not (regexMatch "^(off$|unix:|127\\.|localhost:|\\[::1\\])" $address) }}
      {{- $_ := set $ports $name (regexFind "[0-9]+$" $address | int) }}
    {{- end }}
  {{- end }}
{{- end }}
{{- if not $ports }}{{ fail "config.listen: no listener can be reached from other pods: give one an address such as 0.0.0.0:8080" }}{{ end }}
{{- if and .Values.serviceMonitor.enabled (not .Values.admin.existingSecret.name) }}
  {{- fail "serviceMonitor opens the admin listener to other pods, so it needs a token: give admin.existingSecret.name" }}
{{- end }}
{{- toYaml $ports }}
{{- end }}

{{- /* The files of the ConfigMap. */}}
{{- define "sluice.files" -}}
{{- $files := dict }}
{{- if .Values.envoy.enabled }}
  {{- range $name, $file := .Values.envoy.config }}
    {{- $_ := set $files $name (kindIs "string" $file | ternary $file (toYaml $file)) }}
  {{- end }}
{{- else }}
  {{- $_ := set $files "sluice.yaml" (include "sluice.config" .) }}
{{- end }}
{{- toYaml $files }}
{{- end }}

{{- /* What sluice.yaml has otherwise, and the variables of envoyproxy/ratelimit. */}}
{{- define "sluice.env" -}}
{{- if .Values.envoy.enabled }}
{{- range $name := list "admin" "api" }}
{{- if (index $.Values $name).existingSecret.name }}
- {name: SLUICE_{{ upper $name }}_TOKEN_FILE, value: /run/secrets/sluice/{{ $name }}/token}
{{- end }}
{{- end }}
{{- if .Values.serviceMonitor.enabled }}
- {name: SLUICE_LISTEN_ADMIN, value: "0.0.0.0:9090"}
{{- end }}
{{- with include "sluice.redis" . }}
{{- $redis := fromYaml . }}
{{- if $redis.database }}{{ fail "redis.url has a database, which envoyproxy/ratelimit has no variable for: use database 0" }}{{ end }}
- {name: REDIS_URL, value: {{ join "," $redis.addresses | quote }}}
{{- if $redis.cluster }}
- {name: REDIS_TYPE, value: CLUSTER}
{{- end }}
{{- if $redis.tls }}
- {name: REDIS_TLS, value: "true"}
{{- end }}
{{- with $.Values.redis.existingSecret }}
{{- if .name }}
- {name: REDIS_PASSWORD, valueFrom: {secretKeyRef: {name: {{ .name }}, key: {{ .key }}}}}
- {name: REDIS_AUTH, value: {{ printf "%s$(REDIS_PASSWORD)" (empty $redis.user | ternary "" (printf "%s:" $redis.user)) | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.envoy.env }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
