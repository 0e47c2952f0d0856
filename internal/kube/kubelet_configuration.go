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

// DefaultResolvConf is the default of the kubelet's resolvConf.
const DefaultResolvConf = "/etc/resolv.conf"

// KubeletAPIVersion and KubeletKind are the type of a kubelet's configuration.
const (
	KubeletAPIVersion = "kubelet.config.k8s.io/v1beta1"
	KubeletKind       = "KubeletConfiguration"
)

// KubeletConfiguration holds the fields of a kubelet's configuration that affect DNS.
type KubeletConfiguration struct {
	ClusterDNS    []string `json:"clusterDNS"`    // unchecked; the kubelet skips an entry that is not an IP address
	ClusterDomain string   `json:"clusterDomain"` // unchecked
	ResolvConf    *string  `json:"resolvConf"`    // nil: DefaultResolvConf; "": none

	// Misspelled lists, in order, the keys of the file that differ from one of these
	// fields in case only. The kubelet ignores them.
	Misspelled []string `json:"-"`
}

// ParseKubeletConfiguration parses a KubeletConfiguration as leniently as the kubelet
// does: the last value of a duplicate key wins. Other fields are not checked.
func ParseKubeletConfiguration(data []byte) (KubeletConfiguration, error) {
	var c struct {
		objectType
		KubeletConfiguration
	}
	js, err := document.LenientJSON(data)
	if err != nil {
		return KubeletConfiguration{}, err
	}
	if err := document.Decode(js, &c); err != nil {
		return KubeletConfiguration{}, err
	}
	if want := (objectType{KubeletAPIVersion, KubeletKind}); c.objectType != want {
		err = fmt.Errorf("is %q, must be %q", c.objectType, want)
		if c.objectType == (objectType{"v1", "ConfigMap"}) {
			err = fmt.Errorf("%w: write the data of its key kubelet into a file", err)
		}
		return KubeletConfiguration{}, err
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

// KubeletField returns the field of KubeletConfiguration that equals key if case is
// ignored, "" if there is none.
func KubeletField(key string) string {
	for _, field := range []string{"clusterDNS", "clusterDomain", "resolvConf"} {
		if strings.EqualFold(key, field) {
			return field
		}
	}
	return ""
}
