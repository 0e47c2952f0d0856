{{- define "dnsconfigurer.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "dnsconfigurer.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "dnsconfigurer.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "dnsconfigurer.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "dnsconfigurer.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- /* The labels of a component's pods that never change: selectors are immutable. */}}
{{- define "dnsconfigurer.selector" -}}
app.kubernetes.io/name: {{ include "dnsconfigurer.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "dnsconfigurer.labels" -}}
{{ include "dnsconfigurer.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: dnsconfigurer
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "dnsconfigurer.image" -}}
{{- $repository := .Values.image.repository }}
{{- with .Values.image.registry }}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^[^/]*[.:][^/]*/" $repository "") }}
{{- end }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* What all containers have. */}}
{{- define "dnsconfigurer.container" -}}
image: {{ include "dnsconfigurer.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "dnsconfigurer.dns.serviceAccount" -}}
{{- default (printf "%s-dns" (include "dnsconfigurer.fullname" .)) .Values.dns.serviceAccount.name }}
{{- end }}

{{- /* The DNSConfiguration: the chart's fields, then those of the values. */}}
{{- define "dnsconfigurer.dns.config" -}}
{{- $config := dict
  "listen" (list "[::]:1053")
  "http" "[::]:9153"
  "clusterDomain" .Values.clusterDomain
  "resolvConf" "/etc/resolv.conf"
  "lameduck" "10s"
  "logFormat" "json" }}
{{- if .Values.dns.snapshot.enabled }}
{{- $_ := set $config "snapshot" (dict "path" "/var/lib/dnsconfigurer/dns.snapshot") }}
{{- end }}
apiVersion: dnsconfigurer.dev/v1alpha1
kind: DNSConfiguration
{{ mergeOverwrite $config (deepCopy .Values.dns.config) | toYaml }}
{{- end }}

{{- /* The NodeCacheConfiguration: the chart's fields, then those of the values. */}}
{{- define "dnsconfigurer.nodeCache.config" -}}
{{- $config := dict
  "listen" .Values.nodeCache.listen
  "interface" .Values.nodeCache.interface
  "http" .Values.nodeCache.http
  "clusterDNS" (list .Values.clusterDNSAddress)
  "clusterDomain" .Values.clusterDomain
  "resolvConf" "/etc/resolv.conf"
  "logFormat" "json" }}
apiVersion: dnsconfigurer.dev/v1alpha1
kind: NodeCacheConfiguration
{{ mergeOverwrite $config (deepCopy .Values.nodeCache.config) | toYaml }}
{{- end }}

{{- /* Fails for values that the schema cannot describe. */}}
{{- define "dnsconfigurer.validate" -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" .Values.clusterDomain) }}
{{- fail (printf "clusterDomain: %q: want a domain such as cluster.local" .Values.clusterDomain) }}
{{- end }}
{{- if not (regexMatch "^[0-9a-f.:]+$" .Values.clusterDNSAddress) }}
{{- fail (printf "clusterDNSAddress: %q: want an IP address" .Values.clusterDNSAddress) }}
{{- end }}
{{- end }}
