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
{{- if .Values.nodeCache.enabled }}
{{- $_ := set $config "autopathService" (printf "%s/%s-node-cache" (include "dnsconfigurer.namespace" .) (include "dnsconfigurer.fullname" .)) }}
{{- end }}
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
  "logFormat" "json" }}
apiVersion: dnsconfigurer.dev/v1alpha1
kind: NodeCacheConfiguration
{{ mergeOverwrite $config (deepCopy .Values.nodeCache.config) | toYaml }}
{{- end }}

{{- /* The WebhookConfiguration: the chart's fields, then those of the values. */}}
{{- define "dnsconfigurer.webhook.config" -}}
{{- $config := dict
  "listen" ":8443"
  "http" ":9153"
  "lameduck" "10s"
  "logFormat" "json"
  "node" (dict "clusterDNS" (list .Values.clusterDNSAddress) "clusterDomain" .Values.clusterDomain) }}
{{- if eq .Values.webhook.certificate.source "selfSigned" }}
{{- $_ := set $config "selfSigned" true }}
{{- $_ := set $config "namespace" (include "dnsconfigurer.namespace" .) }}
{{- else }}
{{- $_ := set $config "tls" (dict "certFile" "/tls/tls.crt" "keyFile" "/tls/tls.key") }}
{{- end }}
apiVersion: dnsconfigurer.dev/v1alpha1
kind: WebhookConfiguration
{{ mergeOverwrite $config (deepCopy .Values.webhook.config) | toYaml }}
{{- end }}

{{- /* Fails for values that the schema cannot describe. */}}
{{- define "dnsconfigurer.validate" -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" .Values.clusterDomain) }}
{{- fail (printf "clusterDomain: %q: want a domain such as cluster.local" .Values.clusterDomain) }}
{{- end }}
{{- if not (regexMatch "^[0-9a-f.:]+$" .Values.clusterDNSAddress) }}
{{- fail (printf "clusterDNSAddress: %q: want an IP address" .Values.clusterDNSAddress) }}
{{- end }}
{{- range .Values.policies.allowedOverrides }}
{{- if not (has . (list "Default" "ClusterFirst" "ClusterFirstWithHostNet" "None")) }}
{{- fail (printf "policies.allowedOverrides: %q: want Default, ClusterFirst, ClusterFirstWithHostNet or None" .) }}
{{- end }}
{{- end }}
{{- range $component, $version := dict "webhook" "1.28" "policies" "1.35" "autopath" "1.36" }}
{{- if and (index $.Values $component).enabled (semverCompare (printf "<%s-0" $version) $.Capabilities.KubeVersion.Version) }}
{{- fail (printf "%s.enabled: needs Kubernetes %s, the cluster has %s" $component $version $.Capabilities.KubeVersion.Version) }}
{{- end }}
{{- end }}
{{- if .Values.webhook.enabled }}
{{- include "dnsconfigurer.webhook.validate" .Values.webhook }}
{{- end }}
{{- end }}

{{- define "dnsconfigurer.webhook.validate" -}}
{{- $c := .certificate }}
{{- if not (has $c.source (list "selfSigned" "certManager" "secret")) }}
{{- fail (printf "webhook.certificate.source: %q: want selfSigned, certManager or secret" $c.source) }}
{{- end }}
{{- if and (eq $c.source "certManager") (not $c.issuer.name) }}
{{- fail "webhook.certificate.issuer.name: name the issuer of cert-manager" }}
{{- end }}
{{- if and (eq $c.source "secret") (not $c.caBundle) (not $c.annotations) }}
{{- fail "webhook.certificate.caBundle: set the authority of the certificate, or an annotation that injects it: without it no API server trusts the webhook" }}
{{- end }}
{{- if and (ne $c.source "secret") $c.caBundle }}
{{- fail (printf "webhook.certificate.caBundle: %s writes it; set it only with the source secret" $c.source) }}
{{- end }}
{{- if and (eq $c.source "selfSigned") (ne $c.secretName "dnsconfigurer-webhook-tls") }}
{{- fail "webhook.certificate.secretName: with the source selfSigned the name is dnsconfigurer-webhook-tls" }}
{{- end }}
{{- if and .networkPolicy.enabled (not .networkPolicy.apiServerCIDRs) }}
{{- fail "webhook.networkPolicy.apiServerCIDRs: list the networks of the API servers, such as [192.0.2.0/29]: without them no object is checked" }}
{{- end }}
{{- end }}
