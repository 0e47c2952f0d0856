// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

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
