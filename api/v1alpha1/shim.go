// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// GroupVersion is the apiVersion of every configuration file.
const GroupVersion = "dnsconfigurer.dev/v1alpha1"

// Where the shim stands unless it is told otherwise.
const (
	DefaultListen          = "unix:///run/dnsconfigurer/shim.sock"
	DefaultRuntimeEndpoint = "unix:///run/containerd/containerd.sock"
)

// KindShim is the kind of the file that describes a node.
const KindShim = "ShimConfiguration"

// TypeMeta names the type of a configuration file. Both fields are required.
type TypeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// ShimConfiguration describes a node: what its kubelet knows, how the node serves
// pods, and where the shim stands.
type ShimConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen is the socket for the kubelet, as "unix:///run/dnsconfigurer/shim.sock",
	// which is the default.
	Listen string `json:"listen,omitempty"`

	// RuntimeEndpoint is the socket of the container runtime. Empty:
	// "unix:///run/containerd/containerd.sock".
	RuntimeEndpoint string `json:"runtimeEndpoint,omitempty"`

	// Mode is Generate, Force or Observe. Empty: Generate.
	Mode string `json:"mode,omitempty"`

	// Kubeconfig is the path of a kubeconfig with which pods are looked up; the
	// kubelet's own sees the node's pods alone. Empty: no API server is asked.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// Manifests is the kubelet's directory of static pods. Empty: none is read.
	Manifests string `json:"manifests,omitempty"`

	// HTTP is the address of /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	// DrainTimeout is how long calls may go on when the shim stops, as "4s", which
	// is the default.
	DrainTimeout string `json:"drainTimeout,omitempty"`

	Node     NodeConfiguration     `json:"node,omitzero"`
	Autopath AutopathConfiguration `json:"autopath,omitzero"`
}

// NodeConfiguration is what the node's kubelet knows. A field that is set here
// wins over the kubelet's file.
type NodeConfiguration struct {
	// KubeletConfig is the path of the kubelet's KubeletConfiguration, from which
	// ClusterDNS, ClusterDomain and ResolvConf are taken. A relative path counts
	// from the directory of this file. Empty: none is read.
	KubeletConfig string `json:"kubeletConfig,omitempty"`

	// ClusterDNS lists the addresses of the cluster's DNS servers. Absent: the
	// kubelet's. An empty list: the node has none.
	ClusterDNS *[]string `json:"clusterDNS,omitempty"`

	// ClusterDomain is the domain of the cluster. Absent: the kubelet's. "": none.
	ClusterDomain *string `json:"clusterDomain,omitempty"`

	// ResolvConf is the path of the resolv.conf for pods. A relative path counts
	// from the directory of this file. Absent: the kubelet's.
	// "": pods get none, as with the kubelet.
	ResolvConf *string `json:"resolvConf,omitempty"`

	// HostResolver is "auto" to give pods the servers that systemd-resolved asks,
	// where ResolvConf is its stub: a server on the node's loopback. The kubelet is
	// still held to ResolvConf. Empty: "never".
	HostResolver string `json:"hostResolver,omitempty"`

	// UplinkResolvConf is the path of the file in which systemd-resolved lists these
	// servers. A relative path counts from the directory of this file. Empty:
	// /run/systemd/resolve/resolv.conf. It matters only with HostResolver "auto".
	UplinkResolvConf string `json:"uplinkResolvConf,omitempty"`

	// NodeIPs lists the node's addresses. Empty: unknown. They matter only when
	// ResolvConf is "".
	NodeIPs []string `json:"nodeIPs,omitempty"`

	// NodeName is the node's name. Empty: unknown.
	NodeName string `json:"nodeName,omitempty"`
}

// AutopathConfiguration is how pods with ClusterFirstWithAutopath are served.
type AutopathConfiguration struct {
	// NodeCache is the address of the node's DNS cache. Empty: the node has none,
	// pods ask the cluster's DNS.
	NodeCache string `json:"nodeCache,omitempty"`

	// Suffix is the domain under which servers expand search lists. Empty:
	// ap.k8s.io.
	Suffix string `json:"suffix,omitempty"`

	// ClusterDNSFallback adds a cluster DNS server behind the first server. The
	// price: musl asks all servers at once, and so sends every query twice.
	ClusterDNSFallback bool `json:"clusterDNSFallback,omitempty"`
}
