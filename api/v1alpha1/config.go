// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// GroupVersion is the apiVersion of every configuration file.
const GroupVersion = "dnsconfigurer.dev/v1alpha1"

// The kinds of configuration files: the names of their Go types.
const (
	KindShim      = "ShimConfiguration"
	KindAgent     = "AgentConfiguration"
	KindDNS       = "DNSConfiguration"
	KindNodeCache = "NodeCacheConfiguration"
	KindWebhook   = "WebhookConfiguration"
)

// Kinds returns the kinds of configuration files.
func Kinds() []string { return []string{KindShim, KindAgent, KindDNS, KindNodeCache, KindWebhook} }

// The comments and the tags of the fields below are what flags, checks, docs/configuration.md and
// `config defaults` have:
//
//	default  of an empty or absent field; a list has commas
//	format   of a string, or of each item of a list, see package config
//	values   that a string can have, or each item of a list; a text with the format is valid, too
//	min, max of a number, a duration or an amount of memory
//	restart  "true" if a change takes effect when the server restarts
//	file     "true" if the value is a path, or a list of paths, that must exist
//	relative "true" if a relative path is resolved from the directory of the file
//	flag     of the servers that overrides the field; arg is its value
//	fact     the flag of render, validate and lookup
//
// A struct can have others for its fields: "defaults", such as "listen=:53", "restarts", a field with
// "restart", and "flags": "none" of them has a flag.

// TypeMeta is the type of a configuration file. Both fields are required.
type TypeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// ServerConfiguration has the fields that all servers have.
type ServerConfiguration struct {
	// HTTP is the address of the status page, /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty" format:"address" restart:"true" flag:"http" arg:"ADDR"`

	// LogFormat is the format of the log: "text" or "json".
	LogFormat string `json:"logFormat,omitempty" default:"text" values:"text,json" restart:"true"`
}

// Common returns the fields that all servers have.
func (c ServerConfiguration) Common() ServerConfiguration { return c }

// NodeConfiguration is the node's DNS configuration as its kubelet has it. A field that is
// set here overrides the kubelet's file.
type NodeConfiguration struct {
	// KubeletConfig is the path of the node's KubeletConfiguration, which has clusterDNS,
	// clusterDomain and resolvConf. A relative path is resolved from the directory of this
	// file. Empty: none.
	KubeletConfig string `json:"kubeletConfig,omitempty" relative:"true" fact:"kubelet-config" arg:"FILE"`

	// KubeletConfigDir is the directory of the kubelet's flag --config-dir. Its files with the
	// extension .conf override KubeletConfig, as in the kubelet. A relative path is resolved
	// from the directory of this file. Empty: none.
	KubeletConfigDir string `json:"kubeletConfigDir" relative:"true"`

	// ClusterDNS lists the addresses of the cluster DNS. Absent: the kubelet's. An empty
	// list: the node has none.
	ClusterDNS *[]string `json:"clusterDNS,omitempty" format:"ip" fact:"cluster-dns" arg:"IP,.."`

	// ClusterDomain is the domain of the cluster. Absent: the kubelet's. "": none.
	ClusterDomain *string `json:"clusterDomain,omitempty" fact:"cluster-domain" arg:"DOMAIN"`

	// ResolvConf is the path of the resolv.conf that pods inherit. A relative path is
	// resolved from the directory of this file. Absent: the kubelet's. "": pods inherit
	// nothing, as with the kubelet.
	ResolvConf *string `json:"resolvConf,omitempty" relative:"true" fact:"resolv-conf" arg:"PATH"`

	// HostResolver is "auto" to give pods the upstream servers of systemd-resolved if
	// ResolvConf is its stub, which is a server on the node's loopback, and those of
	// NetworkManager, in /run/NetworkManager/no-stub-resolv.conf, if ResolvConf has other
	// servers on the loopback only. A path with a "/" is "auto" with another file of
	// systemd-resolved than /run/systemd/resolve/resolv.conf. The request is still compared
	// with what the kubelet computes from ResolvConf.
	HostResolver string `json:"hostResolver,omitempty" default:"never" values:"never,auto" format:"path" relative:"true"`

	// NodeIPs lists the addresses of the node, which are used if ResolvConf is "". Empty:
	// unknown.
	NodeIPs []string `json:"nodeIPs,omitempty" format:"ip"`

	// NodeName is the name of the node at the API server. The shim and the agent require it,
	// with and without a kubeconfig. Commands that read manifests use --node-name instead. Empty: unknown.
	NodeName string `json:"nodeName,omitempty" flag:"node-name" fact:"node-name" arg:"NAME"`

	// AllowedOverrides lists the policies of the API that the annotation
	// dnsconfigurer.dev/policy may name, such as "Default" or "None". With them everyone who
	// may change a pod can give it another policy than spec.dnsPolicy, from its next
	// sandbox on. ClusterFirstWithAutopath is always allowed. Empty: no other.
	AllowedOverrides []string `json:"allowedOverrides,omitempty" values:"Default,ClusterFirst,ClusterFirstWithHostNet,None"`

	// Rules change the DNS configuration of the pods that they match, at most 64; see
	// docs/nodes.md. Empty: pods get what the kubelet would give them.
	Rules []NodeRule `json:"rules,omitempty"`
}

// AutopathConfiguration configures pods with the policy ClusterFirstWithAutopath.
type AutopathConfiguration struct {
	// NodeCache is the address of the node-local DNS cache. Empty: there is none, and pods
	// query the cluster DNS.
	NodeCache string `json:"nodeCache,omitempty" format:"ip"`

	// ClusterDNSFallback adds a cluster DNS server after the first server. It doubles the
	// queries of musl, which queries all servers at once.
	ClusterDNSFallback bool `json:"clusterDNSFallback,omitempty"`
}

// NodeRule changes the DNS configuration of the pods that match Namespaces, PodLabels and
// Policies; an empty one matches every pod. A list has at most 64 items.
type NodeRule struct {
	// Namespaces lists names, or patterns in which "*" matches any text. Empty: all.
	Namespaces []string `json:"namespaces,omitempty"`

	// PodLabels are labels that the pod has, with these values. Empty: any.
	PodLabels map[string]string `json:"podLabels,omitempty"`

	// Policies lists DNS policies: that of the pod, or that of the annotation
	// dnsconfigurer.dev/policy if it applies. Empty: all.
	Policies []string `json:"policies,omitempty"`

	// Options lists resolver options such as "ndots:2". They override those of the node, and
	// the pod's options override them. Absent: not set. Empty: none.
	Options *[]string `json:"options,omitempty"`

	// HostOptions is whether cluster policies inherit the options of the host file. Absent:
	// not set.
	HostOptions *bool `json:"hostOptions,omitempty"`

	// HostSearches lists the search domains of the host file that pods inherit: names, or
	// patterns in which "*" matches any text. Absent: not set. Empty: none.
	HostSearches *[]string `json:"hostSearches,omitempty"`

	// DropUnreachable is whether nameservers of the host file in 127.0.0.0/8 and fe80::/10, and
	// ::1, are dropped, except for pods on the host's network and if no other nameserver would
	// remain. Absent: not set.
	DropUnreachable *bool `json:"dropUnreachable,omitempty"`

	// DropDuplicates is whether nameservers with the address of an earlier one are dropped.
	// Absent: not set.
	DropDuplicates *bool `json:"dropDuplicates,omitempty"`

	// PodFirst is whether the nameservers and search domains of the pod's dnsConfig precede
	// those of the node. Absent: not set.
	PodFirst *bool `json:"podFirst,omitempty"`

	// SubdomainSearch is the place, "First" or "Last", of the search domain
	// SUBDOMAIN.NAMESPACE.svc.DOMAIN among those of the node, for pods with a subdomain and a
	// cluster policy. "Off": none. Empty: not set.
	SubdomainSearch string `json:"subdomainSearch,omitempty"`

	// HostNetworkAsCluster is whether ClusterFirst on the host's network is treated as
	// ClusterFirstWithHostNet. Absent: not set.
	HostNetworkAsCluster *bool `json:"hostNetworkAsCluster,omitempty"`

	// ServerFamilies is "Preferred" to sort nameservers by the IP families of the pod, and
	// "Only" to drop those of the node whose family the pod does not have, too. It has no
	// effect while the pod's addresses are unknown. "Any": no effect. Empty: not set.
	ServerFamilies string `json:"serverFamilies,omitempty"`
}

// WebhookConfiguration configures the admission webhook.
type WebhookConfiguration struct {
	TypeMeta            `json:",inline"`
	ServerConfiguration `json:",inline"`

	// Lameduck is the time for which the server answers after the signal to terminate, such as
	// "10s": until clients stop using it.
	Lameduck string `json:"lameduck,omitempty" default:"5s" format:"duration" restart:"true"`

	// Listen is the address for admission reviews, over HTTPS, such as "127.0.0.1:8443".
	Listen string `json:"listen,omitempty" default:":8443" format:"address" restart:"true" flag:"listen" arg:"ADDR:PORT"`

	TLS TLSConfiguration `json:"tls,omitzero"`

	// Ignore lists the codes of findings that are not reported, such as "old-glibc-search".
	// Codes of errors are allowed: a pod with such an error is created.
	Ignore []string `json:"ignore,omitempty"`

	// DenyOn is the lowest severity of a finding for which a pod is denied: "error",
	// "warning", or "never" to report errors as warnings.
	DenyOn string `json:"denyOn,omitempty" default:"error" values:"error,warning,never"`

	// Node is the DNS configuration of the nodes. Absent clusterDNS and clusterDomain:
	// those of the kubelet's file, or without one 10.96.0.10 and cluster.local. Absent
	// resolvConf: unknown, and rules that depend on it are not applied; a kubelet's file
	// names a path on the node, which is not where this server runs.
	Node NodeConfiguration `json:"node,omitzero" flags:"none"`
}

// TLSConfiguration names a certificate and its key. Both files are watched.
type TLSConfiguration struct {
	// CertFile is the path of the certificate and its intermediate certificates, PEM.
	// Required.
	CertFile string `json:"certFile,omitempty" file:"true" restart:"true"`

	// KeyFile is the path of the certificate's key, PEM. Required.
	KeyFile string `json:"keyFile,omitempty" file:"true" restart:"true"`
}

// Paths that commands have as defaults of flags.
const (
	DefaultShimListen   = "unix:///run/dnsconfigurer/shim.sock"
	DefaultAgentSocket  = "/run/dnsconfigurer/agent.sock"
	DefaultStatusSocket = "/run/dnsconfigurer/agent-status.sock"
	DefaultNRISocket    = "/var/run/nri/nri.sock"
)

// NodeServerConfiguration has the fields that shim and agent have.
type NodeServerConfiguration struct {
	// Listen is the socket of the server: the shim's for the kubelet, the agent's for the NRI relay and the
	// shim. Beside the agent's, agent-status.sock is for the commands pods, refresh, restore and status, which
	// only root can use.
	Listen string `json:"listen,omitempty" format:"socket" restart:"true" flag:"listen" arg:"SOCKET"`

	// Mode says when a request is edited or a file is written. "Generate": if the node facts are
	// those of the kubelet. "Force": always, for kubelets without the cluster DNS in their
	// configuration. "Observe": never, it only reports.
	Mode string `json:"mode,omitempty" default:"Generate" values:"Generate,Force,Observe"`

	// LookupTimeout limits the lookup of a pod. A quarter of it is for the watch of the node's pods,
	// half of it for a request for the one pod. The shim delays a pod's start by it; no container
	// waits for the agent.
	LookupTimeout string `json:"lookupTimeout,omitempty" default:"1s" format:"duration" min:"100ms" max:"30s"`

	// Kubeconfig is the path of a kubeconfig for the API server, to look pods up. The
	// kubelet's own is enough: it can read the pods of the node. Empty: an agent in a pod uses
	// its service account; otherwise no API server.
	Kubeconfig string `json:"kubeconfig,omitempty" file:"true"`

	// Manifests is the kubelet's directory of static pods. Empty: none.
	Manifests string `json:"manifests,omitempty" file:"true"`

	Node     NodeConfiguration     `json:"node,omitzero"`
	Autopath AutopathConfiguration `json:"autopath,omitzero"`
}

// ShimConfiguration configures the shim between a kubelet and a container runtime. The
// commands that explain pods read its Node and Autopath fields.
type ShimConfiguration struct {
	TypeMeta                `json:",inline"`
	ServerConfiguration     `json:",inline"`
	NodeServerConfiguration `json:",inline" defaults:"listen=unix:///run/dnsconfigurer/shim.sock"`

	// RuntimeEndpoint is the socket of the container runtime.
	RuntimeEndpoint string `json:"runtimeEndpoint" default:"/run/containerd/containerd.sock" format:"socket" restart:"true"`

	// OnUnknownPod says what happens if a pod cannot be looked up. "Passthrough": its request
	// is forwarded with the kubelet's DNS. "Fail": its request fails, and the kubelet tries
	// again; requests of static pods are forwarded even so. Empty: "Fail" in mode Force with a
	// kubeconfig, where the kubelet's DNS is wrong, otherwise "Passthrough".
	OnUnknownPod string `json:"onUnknownPod,omitempty" values:"Passthrough,Fail"`

	// Agent is the socket of the agent. If one listens, the shim sends it the sandboxes, and it keeps
	// their files up to date.
	Agent string `json:"agent,omitempty" default:"unix:///run/dnsconfigurer/agent.sock" format:"socket" restart:"true"`
}

// AgentConfiguration configures the node agent, which writes the resolv.conf of pods.
type AgentConfiguration struct {
	TypeMeta                `json:",inline"`
	ServerConfiguration     `json:",inline"`
	NodeServerConfiguration `json:",inline" defaults:"listen=unix:///run/dnsconfigurer/agent.sock"`

	RefreshConfiguration `json:",inline"`
}

// RefreshConfiguration says which resolv.conf of running pods follow changes.
type RefreshConfiguration struct {
	// SandboxDirectories lists the directories in which container runtimes keep the files of
	// sandboxes. No other file is written. Empty: those of containerd, CRI-O and K3s.
	SandboxDirectories []string `json:"sandboxDirectories,omitempty" format:"directory"`

	// Refresh says which running pods get a new file when the host's resolv.conf, the node
	// facts or the mode change. "Off": none. "DefaultPolicyOnly": those that use the
	// nameservers of the host. "All": all. "DryRun": none, but the files that "All" would
	// rewrite are counted and logged. The annotation dnsconfigurer.dev/refresh of a pod,
	// "always" or "never", overrides it.
	Refresh string `json:"refresh,omitempty" default:"Off" values:"Off,DefaultPolicyOnly,All,DryRun"`
}
