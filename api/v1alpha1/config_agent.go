// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Defaults of AgentConfiguration.
const (
	DefaultAgentListen         = "unix:///run/dnsconfigurer/agent.sock"
	DefaultAgentLookupTimeout  = "1s"
	DefaultNRISocket           = "/var/run/nri/nri.sock"
	DefaultContainerdSandboxes = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes"
	DefaultCRIOSandboxes       = "/run/containers/storage/overlay-containers"
	DefaultRefresh             = "Off"
	DefaultRefreshRate         = 200
	DefaultVerifyInterval      = "5m"
	DefaultStatusSocket        = "/run/dnsconfigurer/agent-status.sock"
	DefaultK3sSandboxes        = "/var/lib/rancher/k3s/agent/containerd/io.containerd.grpc.v1.cri/sandboxes"
)

// AgentConfiguration configures the node agent, which writes the resolv.conf of pods.
type AgentConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen is the socket for the NRI relay and the shim. Empty: "unix:///run/dnsconfigurer/agent.sock".
	Listen string `json:"listen,omitempty"`

	// Mode says when the agent writes a file. "Generate": if the node facts are those of the
	// kubelet. "Force": always, for kubelets without the cluster DNS in their configuration.
	// "Observe": never, it only reports. Empty: "Generate".
	Mode string `json:"mode,omitempty"`

	// LookupTimeout limits the lookup of a pod: "100ms" to "30s". A quarter of it is for the
	// watch of the node's pods, half of it for a request for the one pod. No container waits
	// for it, and a lookup that fails is repeated. Empty: "1s".
	LookupTimeout string `json:"lookupTimeout,omitempty"`

	// Kubeconfig is the path of a kubeconfig for the API server, to look pods up. The
	// kubelet's own is enough: it can read the pods of the node. Empty: no API server.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// InCluster looks pods up with the service account of the agent's own pod, instead of
	// Kubeconfig.
	InCluster bool `json:"inCluster,omitempty"`

	// StartupTaint is the taint with which the kubelets register, "KEY=VALUE:EFFECT" or
	// "KEY:EFFECT". The agent removes it from its node when the NRI relay or the shim
	// is connected to it and to the runtime. It needs the rights to get and patch nodes, which a kubelet does not
	// have for taints. Empty: none.
	StartupTaint string `json:"startupTaint,omitempty"`

	// InferNodeFacts takes clusterDNS and clusterDomain from the DNS configurations that the
	// kubelet gives to pods, for nodes whose kubelet has no readable file. If node does not
	// set resolvConf, it is /etc/resolv.conf or the uplink file of systemd-resolved.
	// Two pods that start one after the other must agree; until then no file is written. The
	// fields kubeletConfig, kubeletConfigDir, clusterDNS and clusterDomain of node, and mode
	// "Force", cannot be combined with it.
	InferNodeFacts bool `json:"inferNodeFacts,omitempty"`

	// Manifests is the kubelet's directory of static pods. Empty: none.
	Manifests string `json:"manifests,omitempty"`

	// HTTP is the address of the status page, /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`

	RefreshConfiguration `json:",inline"`

	Node     NodeConfiguration     `json:"node,omitzero"`
	Autopath AutopathConfiguration `json:"autopath,omitzero"`
}

// RefreshConfiguration says which resolv.conf of running pods follow changes.
type RefreshConfiguration struct {
	// SandboxDirectories lists the directories in which container runtimes keep the files of
	// sandboxes. No other file is written. Empty: those of containerd, CRI-O and K3s.
	SandboxDirectories []string `json:"sandboxDirectories,omitempty"`

	// Refresh says which running pods get a new file when the host's resolv.conf, the node
	// facts or the mode change. "Off": none. "DefaultPolicyOnly": those that use the
	// nameservers of the host. "All": all. The annotation dnsconfigurer.dev/refresh of a pod,
	// "always" or "never", overrides it. Empty: "Off".
	Refresh string `json:"refresh,omitempty"`

	// RefreshDryRun counts and logs the files that would be rewritten, and rewrites none.
	RefreshDryRun bool `json:"refreshDryRun,omitempty"`

	// RefreshRate is the average number of rewrites in a second, with jitter, at most 200.
	// 0: 200.
	RefreshRate int `json:"refreshRate,omitempty"`

	// VerifyInterval is the interval at which the files of all pods are compared with their
	// decisions. "0s": never. Empty: "5m".
	VerifyInterval string `json:"verifyInterval,omitempty"`

	// StatusSocket is the path of the socket for the commands pods, refresh, restore and
	// status, which only root can use. Absent: "/run/dnsconfigurer/agent-status.sock". "": none.
	StatusSocket *string `json:"statusSocket,omitempty"`
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
