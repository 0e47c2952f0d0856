// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

// meansChecks are about replies that need a permission: through forwarded ports, and to a pod.
func meansChecks() []Check {
	return []Check{
		{
			Code: "probe-forward-no-reply", Severity: policy.SeverityWarning,
			What:  "a pod of the cluster DNS does not reply through a port-forward, and another one does",
			cause: "the server hangs, does not listen on TCP at the loopback address of its pod, or the kubelet of its node fails",
			next:  "kubectl -n kube-system get pods -o wide; " + nextSystemLogs,
			needs: []need{needForwards}, whole: []Kind{PortForward}, find: findForwardNoReply,
		},
		{
			Code: "probe-pod-no-reply", Severity: policy.SeverityError,
			What:  "a pod gets no reply from the cluster DNS, neither over UDP nor over TCP",
			cause: "a NetworkPolicy, the network of the pod's node, or kube-proxy there; or no server of the cluster DNS works",
			next:  "kubectl get networkpolicies -A; kubectl -n kube-system get pods -o wide; on the node of the pod: nft list ruleset",
			needs: []need{needContainer}, find: findPodNoReply,
		},
	}
}

// probesThrough returns the probes by a means.
func (v *view) probesThrough(means string) (list []v1alpha1.DoctorProbe) {
	for _, p := range v.Probes {
		if p.Means == means {
			list = append(list, p)
		}
	}
	return list
}

// needForwards is a reply through a forwarded port. Without the flag, none was asked for.
func needForwards(v *view) (string, bool) {
	probes := v.probesThrough(MeansForward)
	if len(probes) == 0 {
		return v.Unread[PortForward], false
	}
	return "no pod of the cluster DNS replied through a port-forward: " + probes[0].Error, slices.ContainsFunc(probes, replied)
}

// needContainer is what a container in the pod has seen. Without the flag, there is none.
func needContainer(v *view) (string, bool) {
	return v.Unread[Ephemeral], len(v.probesThrough(MeansContainer)) > 0
}

func findForwardNoReply(v *view) (hits []hit) {
	servers, all := probesBy(v.probesThrough(MeansForward), targetOf)
	for _, s := range servers {
		if !slices.ContainsFunc(all[s], replied) {
			hits = append(hits, s.hit("it does not reply", lines(all[s], isAny)))
		}
	}
	return hits
}

func findPodNoReply(v *view) []hit {
	probes := v.probesThrough(MeansContainer)
	if slices.ContainsFunc(probes, replied) {
		return nil
	}
	return []hit{{
		object: object{"Pod", v.Scope.Namespace, v.Scope.PodName}, message: "it gets no reply from the cluster DNS",
		evidence: lines(probes, isAny),
	}}
}

// noteContainer says that the pod keeps the container that was added to it.
func (v *view) noteContainer(pod *v1alpha1.DoctorPod) {
	switch {
	case pod == nil:
	case v.Container != "":
		pod.Notes = append(pod.Notes,
			fmt.Sprintf("the ephemeral container %s was added: it cannot be removed, and stays until the pod ends", v.Container))
	case v.UnconfirmedContainer != "":
		pod.Notes = append(pod.Notes,
			fmt.Sprintf("the ephemeral container %s may have been added, and would stay until the pod ends: to list them: "+
				"kubectl -n %s get pod %s -o jsonpath='{.spec.ephemeralContainers[*].name}'",
				v.UnconfirmedContainer, pod.Namespace, pod.Name))
	}
}
