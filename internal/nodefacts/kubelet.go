// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodefacts

import (
	"cmp"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// readKubelet returns the facts in the KubeletConfiguration of c and in the directory of its drop-ins. Invalid
// addresses in the kubelet's clusterDNS are findings, because the kubelet skips them.
func readKubelet(s source, c v1alpha1.NodeConfiguration) (n Node, err error) {
	k, path := kube.KubeletConfiguration{}, c.KubeletConfig
	if path != "" {
		data, err := s.Read(path)
		if err != nil {
			return n, fmt.Errorf("the kubelet's configuration: %w", config.Unreadable(path, err))
		}
		if k, err = kube.ParseKubeletConfiguration(data); err != nil {
			return n, config.File{Path: path, Text: data}.Locate(err)
		}
	}
	for _, key := range k.Misspelled {
		n.Findings = append(n.Findings, policy.Finding{
			Code: policy.CodeMisspelledField, Severity: policy.SeverityWarning, EnforcedBy: policy.EnforcedByNode,
			Message: fmt.Sprintf("%s: %s: unknown field, ignored by the kubelet and by dnsconfigurer", path, key),
			Field:   key, Hint: "spell it " + kube.KubeletField(key),
		})
	}
	if k.ResolvConf != nil {
		*k.ResolvConf = config.RelativeTo(path, *k.ResolvConf)
	}
	dropIns, err := readDropIns(s, c.KubeletConfigDir)
	if err != nil {
		return n, err
	}
	k, origins, err := kube.MergeKubeletDropIns(k, dropIns)
	if err != nil {
		return n, err
	}
	n.ClusterDomain = k.ClusterDomain
	n.domainOrigin = document.Location{File: cmp.Or(origins["clusterDomain"], path), Field: "clusterDomain"}
	n.ResolvConf = kube.DefaultResolvConf
	if k.ResolvConf != nil {
		n.ResolvConf = *k.ResolvConf
	}
	if origins["resolvConf"] != "" { // the kubelet does not resolve that of a drop-in; its working directory is /
		n.ResolvConf = config.RelativeTo("/.", n.ResolvConf)
	}
	n.ClusterDNS = parseAddrs(k.ClusterDNS)
	dns := document.Location{File: cmp.Or(origins["clusterDNS"], path), Field: "clusterDNS"}
	for i, text := range k.ClusterDNS {
		if _, ok := config.ParseAddr(text); !ok && c.ClusterDNS == nil {
			n.Findings = append(n.Findings, policy.Finding{
				Code: policy.CodeInvalidClusterDNS, Severity: policy.SeverityError, EnforcedBy: policy.EnforcedByNode,
				Message: fmt.Sprintf("%s[%d]: %q is not an IP address: skipped by the kubelet", dns.Name(), i, text),
				Field:   policy.FieldClusterDNS, Hint: "give an IPv4 or IPv6 address without port and zone",
			})
		}
	}
	return n, nil
}

// readDropIns reads the files in the directory of the kubelet's --config-dir, in its order.
func readDropIns(s source, dir string) (dropIns []kube.KubeletDropIn, err error) {
	if dir == "" {
		return nil, nil
	}
	paths, err := s.List(dir, kube.KubeletDropInExtension)
	if err != nil {
		return nil, fmt.Errorf("reading the kubelet's drop-ins: %w", config.Unreadable(dir, err))
	}
	for _, path := range paths {
		data, err := s.Read(path)
		if err != nil {
			return nil, fmt.Errorf("reading the kubelet's drop-ins: %w", config.Unreadable(path, err))
		}
		dropIns = append(dropIns, kube.KubeletDropIn{Path: path, Data: data})
	}
	return dropIns, nil
}
