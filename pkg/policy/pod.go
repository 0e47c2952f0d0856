// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

import "net/netip"

// Policy is a pod's dnsPolicy. The kubelet treats any other value, and "", as
// ClusterFirst, also on the host's network.
type Policy string

// The policies.
const (
	Default                 Policy = "Default"                 // the host's resolv.conf
	ClusterFirst            Policy = "ClusterFirst"            // the cluster's DNS; on the host's network like Default
	ClusterFirstWithHostNet Policy = "ClusterFirstWithHostNet" // the cluster's DNS on any network
	None                    Policy = "None"                    // dnsConfig only

	// ClusterFirstWithAutopath is the cluster's DNS with one search domain, which the
	// server expands. It is not case-sensitive: KEP-2009 writes a lower-case "c".
	ClusterFirstWithAutopath Policy = "ClusterFirstWithAutopath"
)

// Pod holds the fields of a pod that decide its DNS and its host name. The zero value is a
// pod without a name on the pod network.
type Pod struct {
	Namespace string
	Name      string
	UID       string // used in the text of one event only
	Path      string // prefix of Finding.Field, such as "spec.template." for the pod of a Deployment

	Labels map[string]string // metadata.labels, for NodeRule.PodLabels
	IPs    []netip.Addr      // the pod's addresses, for NodeRule.ServerFamilies; empty: unknown

	Policy      Policy     // spec.dnsPolicy
	Override    Policy     // value of the annotation OverrideAnnotation; "": none
	Config      *DNSConfig // spec.dnsConfig; an empty one differs from nil, see rule M3
	HostNetwork bool       // spec.hostNetwork
	Windows     bool       // spec.os.name is windows

	Hostname          string  // spec.hostname
	Subdomain         string  // spec.subdomain
	HostnameOverride  *string // spec.hostnameOverride; nil: none
	SetHostnameAsFQDN bool    // spec.setHostnameAsFQDN
}

// OverrideAnnotation is the annotation that overrides a pod's dnsPolicy. It exists because
// the Kubernetes API accepts its own policies only, without ClusterFirstWithAutopath. Other
// policies need Node.AllowedOverrides.
const OverrideAnnotation = "dnsconfigurer.dev/policy"

// DNSConfig is a pod's spec.dnsConfig. Its values are not validated.
type DNSConfig struct {
	Nameservers []string
	Searches    []string
	Options     []Option
}

// Option is a resolver option of a pod. A Value of "" means no value; it replaces the value
// that the base has for this option.
type Option struct {
	Name  string
	Value string
}

func (o Option) text() string {
	if o.Value == "" {
		return o.Name
	}
	return o.Name + ":" + o.Value
}
