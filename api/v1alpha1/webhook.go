// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// KindWebhook is the kind of the file that describes an admission webhook.
const KindWebhook = "WebhookConfiguration"

// What the admission webhook does unless it is told otherwise.
const (
	DefaultWebhookListen   = ":8443"
	DefaultWebhookLameduck = "5s"

	DefaultWebhookNamespace = "dnsconfigurer"
)

// WebhookConfiguration describes an admission webhook: where it serves, with which
// certificate, and what it knows about the nodes.
type WebhookConfiguration struct {
	TypeMeta `json:",inline"`

	// Listen is where reviews are taken, over HTTPS, as "127.0.0.1:8443". Empty:
	// ":8443".
	Listen string `json:"listen,omitempty"`

	// HTTP is the address of /metrics, /livez and /readyz. Empty: none.
	HTTP string `json:"http,omitempty"`

	TLS TLSConfiguration `json:"tls,omitzero"`

	// SelfSigned has the server make its certificate, and an authority of its own which
	// it keeps in a Secret with the other replicas, instead of TLS. False: TLS counts.
	SelfSigned bool `json:"selfSigned,omitempty"`

	// Kubeconfig is the path of a kubeconfig that leads to the API server, which is
	// asked for SelfSigned, and for a StatefulSet when it is scaled. Empty: that of the
	// cluster in which the server runs; outside of one scales are admitted unseen.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// Namespace is where the Secret and the Service of SelfSigned are. Empty:
	// "dnsconfigurer".
	Namespace string `json:"namespace,omitempty"`

	// Lameduck is how long new connections are still taken when the server is told to
	// end, until no API server makes any. Empty: "5s".
	Lameduck string `json:"lameduck,omitempty"`

	// LogFormat is "text" or "json". Empty: "text".
	LogFormat string `json:"logFormat,omitempty"`

	// Node is what the nodes' kubelets know. Absent clusterDNS and clusterDomain: those
	// of the kubelet's file, or 10.96.0.10 and cluster.local. Absent resolvConf: what
	// the nodes' files say is unknown, and what depends on it is not judged; the
	// kubelet's names a file of the node, which is not where this server runs.
	Node NodeConfiguration `json:"node,omitzero"`
}

// TLSConfiguration is a certificate and its key. Both files are followed as they change.
type TLSConfiguration struct {
	// CertFile is the path of the certificate and what leads to its authority, PEM.
	// Required without SelfSigned.
	CertFile string `json:"certFile,omitempty"`

	// KeyFile is the path of the certificate's key, PEM. Required without
	// SelfSigned.
	KeyFile string `json:"keyFile,omitempty"`
}
