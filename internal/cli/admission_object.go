// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/dnsconfigurer/dnsconfigurer/internal/admission"
	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
)

// Object converts a workload. With a node, a Pod is a static pod of that node.
func AdmissionObject(w kube.Workload, node string) admission.Object {
	o := admission.Object{
		Kind: w.Kind, Name: w.Name, GeneratedName: w.GeneratedName, GenerateName: w.GenerateName,
		Pod: w.PolicyPod(), Ordinal: w.Ordinals.Base != "",
		ManualSelector: w.ManualSelector, TemplateHostname: w.TemplateHostname,
	}
	for _, a := range w.Pod.Spec.HostAliases {
		o.HostAliases = append(o.HostAliases, admission.HostAlias{IP: a.IP, Hostnames: a.Hostnames})
	}
	if w.Kind == admission.KindPod {
		o.Node = node
	}
	return o
}
