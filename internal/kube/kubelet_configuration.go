// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
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
	if err := c.checkKubelet(); err != nil {
		if c.objectType == (objectType{"v1", "ConfigMap"}) {
			err = fmt.Errorf("%w: write the data of its key kubelet into a file", err)
		}
		return KubeletConfiguration{}, err
	}
	var keys map[string]json.RawMessage
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

// checkKubelet returns an error for a type other than a kubelet's configuration.
func (t objectType) checkKubelet() error {
	if want := (objectType{KubeletAPIVersion, KubeletKind}); t != want {
		return fmt.Errorf("is %q, must be %q", t, want)
	}
	return nil
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

// KubeletDropInExtension is the extension of the files that a kubelet reads in the directory of
// its flag --config-dir.
const KubeletDropInExtension = ".conf"

// A KubeletDropIn is a file in the directory of --config-dir.
type KubeletDropIn struct {
	Path string
	Data []byte
}

// MergeKubeletDropIns merges drop-ins, in the order of the kubelet, into the configuration of
// its file. It merges as the kubelet does (mergeKubeletConfigurations in cmd/kubelet/app): each
// drop-in is a JSON merge patch (RFC 7396), so null removes a value; the result is decoded
// without regard to the case of names, unlike the file itself, and a later name in the order of
// octets wins. A duplicate key is an error, also unlike the file. origins has, by field, the path of
// the drop-in that sets the field.
func MergeKubeletDropIns(c KubeletConfiguration, dropIns []KubeletDropIn) (_ KubeletConfiguration, origins map[string]string, err error) {
	// The kubelet encodes its configuration before the merge: after its defaults, without empty values.
	fields := map[string]any{"resolvConf": DefaultResolvConf}
	if c.ResolvConf != nil {
		fields["resolvConf"] = *c.ResolvConf
	}
	if len(c.ClusterDNS) > 0 {
		fields["clusterDNS"] = c.ClusterDNS
	}
	if c.ClusterDomain != "" {
		fields["clusterDomain"] = c.ClusterDomain
	}
	origins = map[string]string{}
	for _, d := range dropIns {
		patch, err := parseDropIn(d.Data)
		if err != nil {
			return c, nil, excerpt.Prefix(d.Path, err)
		}
		for name, value := range patch {
			field := KubeletField(name)
			switch {
			case field == "": // does not affect DNS
			case value == nil:
				delete(fields, name)
				delete(origins, field)
			default:
				fields[name], origins[field] = value, d.Path
			}
		}
	}
	merged, err := json.Marshal(fields)
	if err != nil {
		return c, nil, err
	}
	out := KubeletConfiguration{Misspelled: c.Misspelled}
	if err := json.Unmarshal(merged, &out); err != nil {
		return c, nil, fmt.Errorf("merging the drop-ins of the kubelet: %w", err)
	}
	return out, origins, nil
}

// parseDropIn returns the fields of a drop-in.
func parseDropIn(data []byte) (map[string]any, error) {
	js, err := document.JSON(data, 1)
	if err != nil {
		return nil, err
	}
	var t objectType
	if err := document.Decode(js, &t); err != nil {
		return nil, err
	}
	if err := t.checkKubelet(); err != nil {
		return nil, err
	}
	var fields map[string]any
	err = json.Unmarshal(js, &fields)
	return fields, err
}
