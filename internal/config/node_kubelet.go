// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// readKubelet returns the facts in a KubeletConfiguration and the directory of its drop-ins;
// "" is none.
func readKubelet(f *files, path, dir string) (nodeFacts, error) {
	k := kube.KubeletConfiguration{}
	if path != "" {
		data, err := f.read(path)
		if err != nil {
			return nodeFacts{}, fmt.Errorf("the kubelet's configuration: %w", unreadable(path, err))
		}
		if k, err = kube.ParseKubeletConfiguration(data); err != nil {
			return nodeFacts{}, (&Places{file: path}).locate(err)
		}
	}
	misspelled := k.Misspelled
	if k.ResolvConf != nil {
		*k.ResolvConf = relativeTo(path, *k.ResolvConf)
	}
	dropIns, err := readDropIns(f, dir)
	if err != nil {
		return nodeFacts{}, err
	}
	k, origins, err := kube.MergeKubeletDropIns(k, dropIns)
	if err != nil {
		return nodeFacts{}, err
	}
	facts := nodeFacts{
		dns: k.ClusterDNS, dnsOrigin: kube.Location{File: cmp.Or(origins["clusterDNS"], path), Field: "clusterDNS"}, dnsFromKubelet: true,
		domain: k.ClusterDomain, domainOrigin: kube.Location{File: cmp.Or(origins["clusterDomain"], path), Field: "clusterDomain"},
		resolvConf: kube.DefaultResolvConf,
	}
	switch {
	case origins["resolvConf"] != "": // the kubelet does not resolve it; its working directory is /
		facts.resolvConf = relativeTo("/.", *k.ResolvConf)
	case k.ResolvConf != nil:
		facts.resolvConf = *k.ResolvConf
	}
	for _, key := range misspelled {
		facts.findings = append(facts.findings, policy.Finding{
			Code: policy.CodeMisspelledField, Severity: policy.SeverityWarning, EnforcedBy: policy.EnforcedByNode,
			Message: fmt.Sprintf("%s: %s: unknown field, ignored by the kubelet and by dnsconfigurer", path, key),
			Field:   key, Hint: "spell it " + kube.KubeletField(key),
		})
	}
	return facts, nil
}

// readDropIns reads the files in the directory of the kubelet's --config-dir, in its order.
func readDropIns(f *files, dir string) (dropIns []kube.KubeletDropIn, err error) {
	if dir == "" {
		return nil, nil
	}
	paths, err := f.list(dir, kube.KubeletDropInExtension)
	if err != nil {
		return nil, fmt.Errorf("reading the kubelet's drop-ins: %w", unreadable(dir, err))
	}
	for _, path := range paths {
		data, err := f.read(path)
		if err != nil {
			return nil, fmt.Errorf("reading the kubelet's drop-ins: %w", unreadable(path, err))
		}
		dropIns = append(dropIns, kube.KubeletDropIn{Path: path, Data: data})
	}
	return dropIns, nil
}
