// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

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
