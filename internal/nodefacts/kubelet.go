// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package nodefacts

import (
	"cmp"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/internal/config"
	"github.com/dnsconfigurer/dnsconfigurer/internal/document"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// readKubelet returns the facts in a KubeletConfiguration and the directory of its drop-ins;
// "" is none.
func readKubelet(s source, path, dir string) (facts, error) {
	k := kube.KubeletConfiguration{}
	if path != "" {
		data, err := s.Read(path)
		if err != nil {
			return facts{}, fmt.Errorf("the kubelet's configuration: %w", config.Unreadable(path, err))
		}
		if k, err = kube.ParseKubeletConfiguration(data); err != nil {
			return facts{}, config.File{Path: path, Text: data}.Locate(err)
		}
	}
	misspelled := k.Misspelled
	if k.ResolvConf != nil {
		*k.ResolvConf = config.RelativeTo(path, *k.ResolvConf)
	}
	dropIns, err := readDropIns(s, dir)
	if err != nil {
		return facts{}, err
	}
	k, origins, err := kube.MergeKubeletDropIns(k, dropIns)
	if err != nil {
		return facts{}, err
	}
	known := facts{
		dns: k.ClusterDNS, dnsFromKubelet: true,
		dnsOrigin: document.Location{File: cmp.Or(origins["clusterDNS"], path), Field: "clusterDNS"},
		domain:    k.ClusterDomain, domainOrigin: document.Location{File: cmp.Or(origins["clusterDomain"], path), Field: "clusterDomain"},
		resolvConf: kube.DefaultResolvConf,
	}
	switch {
	case origins["resolvConf"] != "": // the kubelet does not resolve it; its working directory is /
		known.resolvConf = config.RelativeTo("/.", *k.ResolvConf)
	case k.ResolvConf != nil:
		known.resolvConf = *k.ResolvConf
	}
	for _, key := range misspelled {
		known.findings = append(known.findings, policy.Finding{
			Code: policy.CodeMisspelledField, Severity: policy.SeverityWarning, EnforcedBy: policy.EnforcedByNode,
			Message: fmt.Sprintf("%s: %s: unknown field, ignored by the kubelet and by dnsconfigurer", path, key),
			Field:   key, Hint: "spell it " + kube.KubeletField(key),
		})
	}
	return known, nil
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
