// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// DefaultResolvConf is the file that a kubelet hands to pods when its
// configuration names none.
const DefaultResolvConf = "/etc/resolv.conf"

// KubeletAPIVersion and KubeletKind are the type of a kubelet's configuration.
const (
	KubeletAPIVersion = "kubelet.config.k8s.io/v1beta1"
	KubeletKind       = "KubeletConfiguration"
)

// KubeletConfiguration is what a kubelet's configuration says about DNS.
type KubeletConfiguration struct {
	ClusterDNS    []string `json:"clusterDNS"`    // unchecked; the kubelet skips what is no IP address
	ClusterDomain string   `json:"clusterDomain"` // unchecked
	ResolvConf    *string  `json:"resolvConf"`    // nil: DefaultResolvConf; "": none
}

// ParseKubeletConfiguration reads a KubeletConfiguration as leniently as the kubelet
// does: of a key that stands twice the last value counts. Fields that are not about
// DNS may hold anything: they are the kubelet's to judge.
func ParseKubeletConfiguration(data []byte) (KubeletConfiguration, error) {
	var c struct {
		header
		KubeletConfiguration
	}
	js, err := yaml.YAMLToJSON(data)
	if err != nil {
		return KubeletConfiguration{}, err
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(js, &c); err != nil {
		return KubeletConfiguration{}, err
	}
	if want := (header{KubeletAPIVersion, KubeletKind}); c.header != want {
		return KubeletConfiguration{}, fmt.Errorf("is %q, must be %q", c.header, want)
	}
	return c.KubeletConfiguration, nil
}
