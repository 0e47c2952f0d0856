// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Defaults of AgentConfiguration.
const (
	DefaultAgentListen         = "unix:///run/dnsconfigurer/agent.sock"
	DefaultNRISocket           = "/var/run/nri/nri.sock"
	DefaultContainerdSandboxes = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes"
	DefaultCRIOSandboxes       = "/run/containers/storage/overlay-containers"
	DefaultK3sSandboxes        = "/var/lib/rancher/k3s/agent/containerd/io.containerd.grpc.v1.cri/sandboxes"
)

// AgentConfiguration configures the node agent, which writes the resolv.conf of pods.
type AgentConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen is the socket for the NRI relay. Empty: "unix:///run/dnsconfigurer/agent.sock".
	Listen string `json:"listen,omitempty"`

	// Mode says when the agent writes a file. "Generate": if the node facts are those of the
	// kubelet. "Force": always, for kubelets without the cluster DNS in their configuration.
	// "Observe": never, it only reports. Empty: "Generate".
	Mode string `json:"mode,omitempty"`

	// Kubeconfig is the path of a kubeconfig for the API server, to look pods up. The
	// kubelet's own is enough: it can read the pods of the node. Empty: no API server.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// InCluster looks pods up with the service account of the agent's own pod, instead of
	// Kubeconfig.
	InCluster bool `json:"inCluster,omitempty"`

	// Manifests is the kubelet's directory of static pods. Empty: none.
	Manifests string `json:"manifests,omitempty"`

	// SandboxDirectories lists the directories in which container runtimes keep the files of
	// sandboxes. No other file is written. Empty: those of containerd, CRI-O and K3s.
	SandboxDirectories []string `json:"sandboxDirectories,omitempty"`

	// HTTP is the address of /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`

	Node     NodeConfiguration     `json:"node,omitzero"`
	Autopath AutopathConfiguration `json:"autopath,omitzero"`
}
