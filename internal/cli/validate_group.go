// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dnsconfigurer/dnsconfigurer/internal/kube"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// ownerOf returns the controller of a pod, such as "DaemonSet agent", or "".
func ownerOf(w kube.Workload) string {
	if owner := metav1.GetControllerOf(w.Pod); owner != nil && w.Kind == "Pod" && owner.Kind != "Node" {
		return owner.Kind + " " + owner.Name
	}
	return ""
}

// isSystem reports whether a workload belongs to the cluster itself: it is in kube-system, or a static pod, whose
// controller is a node.
func isSystem(w kube.Workload) bool {
	owner := metav1.GetControllerOf(w.Pod)
	return w.Pod.Namespace == metav1.NamespaceSystem || owner != nil && owner.Kind == "Node"
}

// forSystem returns the findings in a workload of the cluster itself: there ClusterFirst on the host's network is the
// default of the API, and pods such as etcd and kube-proxy start before there is a cluster DNS.
func forSystem(findings []policy.Finding) []policy.Finding {
	for i, f := range findings {
		if f.Code == policy.CodeHostNetworkDefault {
			findings[i].Severity = policy.SeverityInfo
		}
	}
	return findings
}

// grouped returns the results with equal findings in the pods of one controller as a single finding, at the first
// of these pods: a DaemonSet with one mistake would otherwise have a finding on each node.
func grouped(results []result) (groups []result) {
	type key struct{ owner, field, message string }
	known := map[key]int{} // index in groups
	for _, r := range results {
		if r.owner == "" {
			groups = append(groups, r)
			continue
		}
		alone := r
		alone.Findings = nil
		groups = append(groups, alone) // for what it ignores
		for _, f := range r.Findings {
			k := key{r.Namespace + "/" + r.owner, strings.TrimPrefix(f.Field, r.path), string(f.Code) + f.Message}
			i, ok := known[k]
			if !ok {
				i = len(groups)
				known[k] = i
				first := result{Subject: r.Subject, Findings: []policy.Finding{f}}
				groups = append(groups, first)
			}
			groups[i].pods++
		}
	}
	return groups
}

// String returns the kind and the name, such as "Pod shop/web", or for several pods of a controller their number.
func (s Subject) String() string {
	qualified := func(name string) string { return strings.TrimPrefix(s.Namespace+"/"+name, "/") }
	if kind, name, _ := strings.Cut(s.owner, " "); s.pods > 1 {
		return fmt.Sprintf("%s %s: %d pods", kind, qualified(name), s.pods)
	}
	return s.Kind + " " + qualified(s.Name)
}
