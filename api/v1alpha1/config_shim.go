// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Defaults of ShimConfiguration.
const (
	DefaultShimListen        = "unix:///run/dnsconfigurer/shim.sock"
	DefaultRuntimeEndpoint   = "unix:///run/containerd/containerd.sock"
	DefaultShimLookupTimeout = "1s"
	DefaultShimDrainTimeout  = "4s"
)

// ShimConfiguration configures the shim between a kubelet and a container runtime. The
// commands that explain pods read its Node and Autopath fields.
type ShimConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen is the socket for the kubelet. Empty: "unix:///run/dnsconfigurer/shim.sock".
	Listen string `json:"listen,omitempty"`

	// RuntimeEndpoint is the socket of the container runtime. Empty:
	// "unix:///run/containerd/containerd.sock".
	RuntimeEndpoint string `json:"runtimeEndpoint,omitempty"`

	// Mode says when the shim edits a request. "Generate": if the node facts are those of
	// the kubelet. "Force": always, for kubelets without the cluster DNS in their
	// configuration. "Observe": never, it only reports. Empty: "Generate".
	Mode string `json:"mode,omitempty"`

	// OnUnknownPod says what happens if a pod cannot be looked up. "Passthrough": its request
	// is forwarded with the kubelet's DNS. "Fail": its request fails, and the kubelet tries
	// again; requests of static pods are forwarded even so. Empty: "Fail" in mode Force with a
	// kubeconfig, where the kubelet's DNS is wrong, otherwise "Passthrough".
	OnUnknownPod string `json:"onUnknownPod,omitempty"`

	// LookupTimeout limits the lookup of a pod, and so the delay of its start: "100ms" to
	// "30s". A quarter of it is for the watch of the node's pods, half of it for a request
	// for the one pod. Empty: "1s".
	LookupTimeout string `json:"lookupTimeout,omitempty"`

	// Kubeconfig is the path of a kubeconfig for the API server, to look pods up. The
	// kubelet's own is enough: it can read the pods of the node. Empty: no API server.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// Manifests is the kubelet's directory of static pods. Empty: none.
	Manifests string `json:"manifests,omitempty"`

	// HTTP is the address of the status page, /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	// DrainTimeout is the time that calls get to finish when the shim stops, at most "4500ms": calls
	// that the kubelet makes meanwhile wait in the socket, and it gives a connection 5s. Empty: "4s".
	DrainTimeout string `json:"drainTimeout,omitempty"`

	// Agent is the socket of the agent. If one listens, the shim sends it the sandboxes, and it keeps
	// their files up to date. Empty: "unix:///run/dnsconfigurer/agent.sock".
	Agent string `json:"agent,omitempty"`

	Node     NodeConfiguration     `json:"node,omitzero"`
	Autopath AutopathConfiguration `json:"autopath,omitzero"`
}
