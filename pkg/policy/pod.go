// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package policy

// Policy is a pod's dnsPolicy. Other values than the five below count as
// ClusterFirst on every network, as in the kubelet; so does "".
type Policy string

// The policies.
const (
	Default                 Policy = "Default"                 // the host's resolv.conf
	ClusterFirst            Policy = "ClusterFirst"            // the cluster's DNS; Default on the host's network
	ClusterFirstWithHostNet Policy = "ClusterFirstWithHostNet" // the cluster's DNS on every network
	None                    Policy = "None"                    // dnsConfig alone

	// ClusterFirstWithAutopath is the cluster's DNS with one search domain that
	// the server expands (KEP-2009, which writes a small first letter: the case
	// of this one is not looked at).
	ClusterFirstWithAutopath Policy = "ClusterFirstWithAutopath"
)

// Pod is what decides about a pod's DNS and host name. The zero value is a
// nameless pod on the pod network.
type Pod struct {
	Namespace string
	Name      string
	UID       string // only for the text of one event
	Path      string // leads to the pod in the object that holds it, as "spec.template."; only for the fields that findings name

	Policy      Policy     // spec.dnsPolicy
	Override    Policy     // from the annotation [OverrideAnnotation]; "": none
	Config      *DNSConfig // spec.dnsConfig; nil is not the same as empty
	HostNetwork bool       // spec.hostNetwork
	Windows     bool       // spec.os.name is windows

	Hostname          string  // spec.hostname
	Subdomain         string  // spec.subdomain
	HostnameOverride  *string // spec.hostnameOverride; nil: none
	SetHostnameAsFQDN bool    // spec.setHostnameAsFQDN
}

// OverrideAnnotation names the annotation that replaces a pod's dnsPolicy. The
// Kubernetes API accepts no policy of ours, so it travels here.
const OverrideAnnotation = "dnsconfigurer.dev/policy"

// DNSConfig is a pod's spec.dnsConfig. Values are what the pod says, unchecked.
type DNSConfig struct {
	Nameservers []string
	Searches    []string
	Options     []Option
}

// Option is a resolver option of a pod. A Value of "" means none, and takes away
// the one that the base had.
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
