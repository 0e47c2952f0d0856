// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"encoding/json"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/multierr"
)

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
	fields := kubeletFields(c)
	origins = map[string]string{}
	for _, d := range dropIns {
		patch, err := parseDropIn(d.Data)
		if err != nil {
			return c, nil, multierr.Prefix(d.Path, err)
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

// kubeletFields returns the fields of c as the kubelet encodes them before the merge: after its
// defaults, without empty values.
func kubeletFields(c KubeletConfiguration) map[string]any {
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
	return fields
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
	if want := (objectType{KubeletAPIVersion, KubeletKind}); t != want {
		return nil, fmt.Errorf("is %q, must be %q", t, want)
	}
	var fields map[string]any
	err = json.Unmarshal(js, &fields)
	return fields, err
}
