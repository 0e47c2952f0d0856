// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

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
	CertFile string `json:"certFile,omitempty" restart:"true"`

	// KeyFile is the path of the certificate's key, PEM. Required.
	KeyFile string `json:"keyFile,omitempty" restart:"true"`
}
