// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// SnapshotConfiguration configures the file that keeps the cluster's names.
type SnapshotConfiguration struct {
	// Path is the path of the file, in a directory that the server may write. Empty: no
	// snapshot.
	Path string `json:"path,omitempty"`

	// Wait is the time without a reply of the API server after which the file is used. If
	// the API server refuses connections, it is used at once. Empty: "2s".
	Wait string `json:"wait,omitempty"`

	// MaxAge is the age from which the file is not used. Empty: "24h".
	MaxAge string `json:"maxAge,omitempty"`
}

// StubDomain is a domain with servers of its own.
type StubDomain struct {
	// Zone is the domain, such as "corp.example". Required.
	Zone string `json:"zone"`

	// Servers lists the servers of the domain, in the form of Upstreams. At least one is
	// required.
	Servers []string `json:"servers"`
}
