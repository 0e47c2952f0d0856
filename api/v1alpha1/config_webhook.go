// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Defaults of WebhookConfiguration.
const (
	DefaultWebhookListen   = ":8443"
	DefaultWebhookLameduck = "5s"
	DefaultDenyOn          = "error"
)

// WebhookConfiguration configures the admission webhook.
type WebhookConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen is the address for admission reviews, over HTTPS, such as "127.0.0.1:8443".
	// Empty: ":8443".
	Listen string `json:"listen,omitempty"`

	// HTTP is the address of the status page, /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	TLS TLSConfiguration `json:"tls,omitzero"`

	// Kubeconfig is the path of a kubeconfig for the API server, which is used to
	// read a StatefulSet when it is scaled. Empty: the server's own cluster. Outside a
	// cluster scaling is admitted unchecked.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// Ignore lists the codes of findings that are not reported, such as "old-glibc-search".
	// Codes of errors are allowed: a pod with such an error is created.
	Ignore []string `json:"ignore,omitempty"`

	// DenyOn is the lowest severity of a finding for which a pod is denied: "error",
	// "warning", or "never" to report errors as warnings. Empty: "error".
	DenyOn string `json:"denyOn,omitempty"`

	// Lameduck is the time for which the server accepts connections after the signal to
	// terminate, until the API servers stop using it. Empty: "5s".
	Lameduck string `json:"lameduck,omitempty"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`

	// Node is the DNS configuration of the nodes. Absent clusterDNS and clusterDomain:
	// those of the kubelet's file, or without one 10.96.0.10 and cluster.local. Absent
	// resolvConf: unknown, and rules that depend on it are not applied; a kubelet's file
	// names a path on the node, which is not where this server runs.
	Node NodeConfiguration `json:"node,omitzero"`
}

// TLSConfiguration names a certificate and its key. Both files are watched.
type TLSConfiguration struct {
	// CertFile is the path of the certificate and its intermediate certificates, PEM.
	// Required.
	CertFile string `json:"certFile,omitempty"`

	// KeyFile is the path of the certificate's key, PEM. Required.
	KeyFile string `json:"keyFile,omitempty"`
}
