// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
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

	// Misspelled are keys of the file that differ from one of these fields by
	// capitals only, in order. The kubelet passes over them.
	Misspelled []string `json:"-"`
}

// ParseKubeletConfiguration reads a KubeletConfiguration as leniently as the kubelet
// does: of a key that stands twice the last value counts. Fields that are not about
// DNS may hold anything: they are the kubelet's to judge.
func ParseKubeletConfiguration(data []byte) (KubeletConfiguration, error) {
	var c struct {
		header
		KubeletConfiguration
	}
	js, err := document.LenientJSON(data)
	if err != nil {
		return KubeletConfiguration{}, err
	}
	if err := document.Decode(js, &c); err != nil {
		return KubeletConfiguration{}, err
	}
	if want := (header{KubeletAPIVersion, KubeletKind}); c.header != want {
		return KubeletConfiguration{}, fmt.Errorf("is %q, must be %q", c.header, want)
	}
	var keys map[string]rawObject
	if err := document.Decode(js, &keys); err != nil {
		return KubeletConfiguration{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if field := KubeletField(key); field != "" && field != key {
			c.Misspelled = append(c.Misspelled, key)
		}
	}
	return c.KubeletConfiguration, nil
}

// KubeletField returns the field of a KubeletConfiguration that key is but for capitals;
// "" if it is none of those about DNS.
func KubeletField(key string) string {
	for _, field := range []string{"clusterDNS", "clusterDomain", "resolvConf"} {
		if strings.EqualFold(key, field) {
			return field
		}
	}
	return ""
}
