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
app.kubernetes.io/name: {{ include "dnsconfigurer.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "dnsconfigurer.labels" -}}
{{- $selector := include "dnsconfigurer.selector" . | fromYaml }}
{{- $labels := dict
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/part-of" "dnsconfigurer"
  "app.kubernetes.io/managed-by" .root.Release.Service
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_")) }}
{{- mergeOverwrite $labels (default dict .root.Values.commonLabels) $selector | toYaml }}
{{- end }}

{{- /* The labels of a component's pods, with .values.podLabels. */}}
{{- define "dnsconfigurer.podLabels" -}}
{{- mergeOverwrite (include "dnsconfigurer.labels" . | fromYaml) (default dict .values.podLabels) | toYaml }}
{{- end }}

{{- /* The labels of the pods by which the Service of the cluster DNS selects them. */}}
{{- define "dnsconfigurer.dns.serviceSelector" -}}
{{- if .Values.dns.port53 }}
{{- /* This label alone, so that the pods of another server still count during a migration. */ -}}
k8s-app: kube-dns
{{- else }}
{{- include "dnsconfigurer.selector" (dict "root" . "component" "dns") }}
{{- end }}
{{- end }}

{{- define "dnsconfigurer.image" -}}
{{- $repository := .Values.image.repository }}
{{- with .Values.image.registry }}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^[^/]*[.:][^/]*/" $repository "") }}
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

{{- /* The DNSConfiguration: the chart's fields, then those of the values, which may be a file of import-corefile. */}}
{{- define "dnsconfigurer.dns.config" -}}
{{- $config := dict
  "listen" (ternary (list "[::]:53" "[::]:1053") (list "[::]:1053") .Values.dns.port53)
  "http" "[::]:9153"
  "clusterDomain" .Values.clusterDomain
  "resolvConf" "/etc/resolv.conf"
  "lameduck" "10s"
  "logFormat" "json" }}
{{- if .Values.nodeCache.enabled }}
{{- $_ := set $config "autopathService" (printf "%s/%s-node-cache" (include "dnsconfigurer.namespace" .) (include "dnsconfigurer.fullname" .)) }}
{{- end }}
{{- if .Values.dns.snapshot.enabled }}
{{- $_ := set $config "snapshot" "/var/lib/dnsconfigurer/dns.snapshot" }}
{{- end }}
apiVersion: dnsconfigurer.dev/v1alpha1
kind: DNSConfiguration
{{ mergeOverwrite $config (omit (deepCopy (default dict .Values.dns.config)) "apiVersion" "kind" "listen" "http") | toYaml }}
{{- end }}

{{- /* The NodeCacheConfiguration: the chart's fields, then those of the values. */}}
{{- define "dnsconfigurer.nodeCache.config" -}}
{{- $config := dict
  "listen" .Values.nodeCache.listen
  "interface" .Values.nodeCache.interface
  "http" .Values.nodeCache.http
  "clusterDNS" (list .Values.clusterDNSAddress)
  "clusterDomain" .Values.clusterDomain
  "fallbackService" (printf "%s-node-cache-fallback.%s" (include "dnsconfigurer.fullname" .) (include "dnsconfigurer.namespace" .))
  "logFormat" "json" }}
apiVersion: dnsconfigurer.dev/v1alpha1
kind: NodeCacheConfiguration
{{ mergeOverwrite $config (deepCopy (default dict .Values.nodeCache.config)) | toYaml }}
{{- end }}

{{- define "dnsconfigurer.agent.serviceAccount" -}}
{{- default (printf "%s-agent" (include "dnsconfigurer.fullname" .)) .Values.agent.serviceAccount.name }}
{{- end }}

{{- /* The kubelet's configuration that the agent reads: a file and a directory. */}}
{{- define "dnsconfigurer.agent.kubelet" -}}
file: {{ .Values.agent.kubeletConfig | quote }}
directory: {{ .Values.agent.kubeletConfigDir | quote }}
{{- end }}

{{- /* The AgentConfiguration: the chart's fields, then those of the values. */}}
{{- define "dnsconfigurer.agent.config" -}}
{{- $node := dict }}
{{- $kubelet := include "dnsconfigurer.agent.kubelet" . | fromYaml }}
{{- if or $kubelet.file $kubelet.directory }}
{{- with $kubelet.file }}{{ $_ := set $node "kubeletConfig" . }}{{ end }}
{{- with $kubelet.directory }}{{ $_ := set $node "kubeletConfigDir" . }}{{ end }}
{{- else }}
{{- $_ := set $node "clusterDNS" (list .Values.clusterDNSAddress) }}
{{- $_ := set $node "clusterDomain" .Values.clusterDomain }}
{{- $_ := set $node "resolvConf" .Values.agent.resolvConf }}
{{- end }}
{{- $config := dict
  "listen" "unix:///run/dnsconfigurer/nri/agent/agent.sock"
  "http" "[::]:9351"
  "sandboxDirectories" .Values.agent.sandboxDirectories
  "node" $node
  "logFormat" "json" }}
{{- with .Values.agent.manifests }}
{{- $_ := set $config "manifests" . }}
{{- end }}
{{- if .Values.nodeCache.enabled }}
{{- $_ := set $config "autopath" (dict "nodeCache" (regexReplaceAll ":[0-9]+$" (first .Values.nodeCache.listen) "" | trimAll "[]")) }}
{{- end }}
apiVersion: dnsconfigurer.dev/v1alpha1
kind: AgentConfiguration
{{ mergeOverwrite $config (deepCopy (default dict .Values.agent.config)) | toYaml }}
{{- end }}

{{- /* The pods of the agent and of its relay. */}}
{{- define "dnsconfigurer.agent.pod" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
priorityClassName: {{ .Values.agent.priorityClassName }}
dnsPolicy: Default # these pods need no cluster DNS
nodeSelector:
  kubernetes.io/os: linux
  {{- with .Values.agent.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.agent.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.agent.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  seccompProfile:
    type: RuntimeDefault
  {{- with .Values.agent.seLinuxOptions }}
  seLinuxOptions:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "dnsconfigurer.agent.container" -}}
{{- include "dnsconfigurer.container" .root }}
ports:
- name: metrics
  containerPort: {{ .port }}
# Not ready until relay and agent are connected, and the runtime has registered the relay.
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
  periodSeconds: 5
livenessProbe:
  httpGet:
    path: /livez
    port: metrics
  timeoutSeconds: 5
  failureThreshold: 5
securityContext:
  # Root owns the files and the sockets. It has no capabilities.
  runAsUser: 0
  runAsGroup: 0
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "dnsconfigurer.agent.annotations" -}}
{{- if not .root.Values.monitoring.podMonitor.enabled }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .port | quote }}
{{- end }}
{{- with .root.Values.agent.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The WebhookConfiguration: the chart's fields, then those of the values. */}}
{{- define "dnsconfigurer.webhook.config" -}}
{{- $config := dict
  "listen" ":8443"
  "http" ":9153"
  "lameduck" "10s"
  "logFormat" "json"
  "tls" (dict "certFile" "/tls/tls.crt" "keyFile" "/tls/tls.key")
  "node" (dict "clusterDNS" (list .Values.clusterDNSAddress) "clusterDomain" .Values.clusterDomain) }}
apiVersion: dnsconfigurer.dev/v1alpha1
kind: WebhookConfiguration
{{ mergeOverwrite $config (deepCopy (default dict .Values.webhook.config)) | toYaml }}
{{- end }}

{{- /* Regular expressions for IP addresses. The servers check the details of IPv6. */}}
{{- define "dnsconfigurer.ipv4" -}}
{{- $octet := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" }}
{{- printf "(%s[.]){3}%s" $octet $octet }}
{{- end }}

{{- define "dnsconfigurer.ipv6" -}}
[0-9a-fA-F]*:[0-9a-fA-F:.]+
{{- end }}

{{- define "dnsconfigurer.nodeCache.validate" -}}
{{- if not .Values.nodeCache.listen }}
{{- fail "nodeCache.listen: want at least one address with its port, such as 169.254.20.10:53" }}
{{- end }}
{{- $listen := printf "^(%s|[[]%s[]]):[0-9]+$" (include "dnsconfigurer.ipv4" .) (include "dnsconfigurer.ipv6" .) }}
{{- range .Values.nodeCache.listen }}
{{- if not (regexMatch $listen .) }}
{{- fail (printf "nodeCache.listen: %q: want an address with its port, such as 169.254.20.10:53 or [fd00::10]:53" .) }}
{{- end }}
{{- end }}
{{- if has (toString .Values.nodeCache.maxSurge) (list "0" "0%") }}
{{- fail (printf "nodeCache.maxSurge: %q: want at least 1 or 1%%: a new instance starts before the old one stops" (toString .Values.nodeCache.maxSurge)) }}
{{- end }}
{{- if not (regexMatch ":[0-9]+$" .Values.nodeCache.http) }}
{{- fail (printf "nodeCache.http: %q: want an address with its port, such as 127.0.0.1:9353: the probes need it" .Values.nodeCache.http) }}
{{- end }}
{{- end }}

{{- /* Fails if an existing Service would send queries to a port of new pods where no server listens.
Without a cluster, as in "helm template", lookup finds nothing. */}}
{{- define "dnsconfigurer.dns.validate" -}}
{{- $namespace := include "dnsconfigurer.namespace" . }}
{{- $labels := merge (include "dnsconfigurer.dns.serviceSelector" . | fromYaml)
  (include "dnsconfigurer.podLabels" (dict "root" . "component" "dns" "values" .Values.dns) | fromYaml) }}
{{- $ports := ternary (list "53" "1053") (list "1053") .Values.dns.port53 }}
{{- $deployment := lookup "apps/v1" "Deployment" $namespace (printf "%s-dns" (include "dnsconfigurer.fullname" .)) }}
{{- if or (not $deployment) (ne (get $labels "k8s-app") (dig "spec" "template" "metadata" "labels" "k8s-app" "" $deployment)) }}
{{- range (lookup "v1" "Service" $namespace "").items }}
{{- $name := .metadata.name }}
{{- if and .spec.selector (eq (toJson $labels) (toJson (mergeOverwrite (deepCopy $labels) .spec.selector))) }}
{{- range .spec.ports }}
{{- $target := toString .targetPort }}
{{- if and (regexMatch "^[0-9]+$" $target) (not (has $target (ternary (append $ports "9153") $ports (eq .protocol "TCP")))) }}
{{- fail (printf "dns.enabled: the Service %s/%s selects the pods and has targetPort %s for port %v/%s, and the pods listen on %s: set the targetPort to one of these ports or to its name, dns or dns-tcp, or install in another namespace" $namespace $name $target .port .protocol (join " and " $ports)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Fails for values that the schema cannot describe. */}}
{{- define "dnsconfigurer.validate" -}}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" .Values.clusterDomain) }}
{{- fail (printf "clusterDomain: %q: want a domain such as cluster.local" .Values.clusterDomain) }}
{{- end }}
{{- if not (regexMatch (printf "^(%s|%s)$" (include "dnsconfigurer.ipv4" .) (include "dnsconfigurer.ipv6" .)) .Values.clusterDNSAddress) }}
{{- fail (printf "clusterDNSAddress: %q: want an IP address such as 10.96.0.10" .Values.clusterDNSAddress) }}
{{- end }}
{{- if and .Values.image.digest (not (regexMatch "^sha256:[0-9a-f]{64}$" .Values.image.digest)) }}
{{- fail (printf "image.digest: %q: want sha256: and 64 hexadecimal digits" .Values.image.digest) }}
{{- end }}
{{- if .Values.dns.enabled }}
{{- include "dnsconfigurer.dns.validate" . }}
{{- end }}
{{- if .Values.nodeCache.enabled }}
{{- include "dnsconfigurer.nodeCache.validate" . }}
{{- end }}
{{- if has (toString .Values.agent.maxUnavailable) (list "0" "0%") }}
{{- fail (printf "agent.maxUnavailable: %q: want at least 1 or 1%%: Kubernetes refuses a DaemonSet that cannot replace a pod" (toString .Values.agent.maxUnavailable)) }}
{{- end }}
{{- include "dnsconfigurer.config.validate" . }}
{{- include "dnsconfigurer.labels.validate" . }}
{{- range .Values.excludedNamespaces }}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$" (toString .)) }}
{{- fail (printf "excludedNamespaces: %q: want the name of a namespace" (toString .)) }}
{{- end }}
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

{{- /* Fields of "config" that other objects depend on. */}}
{{- define "dnsconfigurer.config.validate" -}}
{{- range $component, $fields := dict
  "dns" (dict
    "listen" "Services and the NetworkPolicy lead to the ports 53 and 1053; set dns.port53"
    "http" "the probes and the NetworkPolicy have port 9153")
  "nodeCache" (dict
    "listen" "set nodeCache.listen, which the agent uses, too"
    "interface" "set nodeCache.interface"
    "http" "set nodeCache.http, which the probes use, too")
  "agent" (dict
    "listen" "the relay has the chart's socket"
    "http" "the probes have port 9351"
    "sandboxDirectories" "set agent.sandboxDirectories, which are mounted, too"
    "manifests" "set agent.manifests, which is mounted, too")
  "webhook" (dict
    "listen" "the Service leads to port 8443"
    "http" "the probes have port 9153") }}
{{- range $field, $reason := $fields }}
{{- $config := default dict (index $.Values $component).config }}
{{- $imported := and (eq $component "dns") (has (get $config $field | toJson) (list `["[::]:53"]` `":9153"`)) }}
{{- if and (hasKey $config $field) (not $imported) }}
{{- fail (printf "%s.config.%s: %s" $component $field $reason) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Labels by which pods are selected. */}}
{{- define "dnsconfigurer.labels.validate" -}}
{{- $selector := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" }}
{{- $dns := append $selector "k8s-app" }}
{{- range list
  (list "commonLabels" (default dict .Values.commonLabels) $dns)
  (list "dns.podLabels" (default dict .Values.dns.podLabels) $dns)
  (list "nodeCache.podLabels" (default dict .Values.nodeCache.podLabels) $selector)
  (list "agent.podLabels" (default dict .Values.agent.podLabels) $selector)
  (list "webhook.podLabels" (default dict .Values.webhook.podLabels) $selector) }}
{{- $value := index . 0 }}
{{- $labels := index . 1 }}
{{- range index . 2 }}
{{- if hasKey $labels . }}
{{- fail (printf "%s: %s: the chart selects pods by this label" $value .) }}
{{- end }}
{{- end }}
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
{{- if and .networkPolicy.enabled (not .networkPolicy.apiServerCIDRs) }}
{{- fail "webhook.networkPolicy.apiServerCIDRs: list the networks of the API servers, such as [192.0.2.0/29]: without them no object is checked" }}
{{- end }}
{{- end }}
