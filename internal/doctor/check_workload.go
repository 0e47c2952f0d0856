// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

const (
	// minMemory is the memory request of kubeadm's CoreDNS; it needs about as much for a
	// cluster with a few thousand pods and Services.
	minMemory = 70 << 20

	// minMilliCPU is the CPU request of kubeadm's CoreDNS. A limit below throttles bursts of
	// queries in each period of 100 ms.
	minMilliCPU = 100

	// manyRestarts is the number of restarts because of errors above which a container that runs has a finding.
	manyRestarts = 5
)

// dnsDeployments returns the Deployments whose pods the DNS Service selects.
func (v *view) dnsDeployments() (list []*appsv1.Deployment) {
	for i := range v.Deployments {
		d := &v.Deployments[i]
		if d.Namespace == v.dns.Namespace && len(v.dns.Spec.Selector) > 0 && selects(v.dns.Spec.Selector, d.Spec.Template.Labels) {
			list = append(list, d)
		}
	}
	return list
}

func findScaledToZero(v *view) []hit {
	list := v.dnsDeployments()
	if len(list) != 1 || ptr.Deref(list[0].Spec.Replicas, 1) != 0 {
		return nil
	}
	return []hit{found(object{"Deployment", list[0].Namespace, list[0].Name}, "scaled to 0 replicas", "spec.replicas: 0")}
}

// waitReasons are the reasons of a container that does not start without a change of the cluster.
const waitReasons = "ErrImagePull ImagePullBackOff InvalidImageName ErrImageNeverPull CreateContainerConfigError CreateContainerError"

// findNotStarted returns the Deployments whose pods are refused, and the pods without a node, an image, a mount
// or a sandbox.
func findNotStarted(v *view) (hits []hit) {
	for _, d := range v.dnsDeployments() {
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				h := found(object{"Deployment", d.Namespace, d.Name}, "its pods cannot be created", c.Reason+": "+c.Message)
				h.next = "kubectl -n $NS describe deployment $NAME"
				hits = append(hits, h)
			}
		}
	}
	for _, p := range v.dnsPods {
		hits = append(hits, v.notStarted(p)...)
	}
	for p, c := range v.containers {
		if w := c.State.Waiting; w != nil && slices.Contains(strings.Fields(waitReasons), w.Reason) {
			message := fmt.Sprintf("container %s with the image %s does not start", c.Name, c.Image)
			hits = append(hits, found(podObject(p), message, w.Reason+": "+w.Message))
		}
	}
	return hits
}

// notStarted returns why a pod has no node or no sandbox.
func (v *view) notStarted(p *corev1.Pod) (hits []hit) {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			hits = append(hits, found(podObject(p), "the pod is pending: no node fits", c.Reason+": "+c.Message))
		}
	}
	if e := v.eventOf(reasonSandbox, p); e != nil && !isReady(p) {
		hits = append(hits, eventHit(e, "the sandbox of the pod cannot be created"))
	}
	return hits
}

// containers yields the state of each container of the cluster DNS, also of init containers.
func (v *view) containers(yield func(*corev1.Pod, *corev1.ContainerStatus) bool) {
	for _, p := range v.dnsPods {
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			if !yield(p, &c) {
				return
			}
		}
	}
}

// findCrashLoop returns the containers that crash, or were killed because of their memory. A restart of a node
// ends a container with the reason Unknown.
func findCrashLoop(v *view) (hits []hit) {
	for p, c := range v.containers {
		last := c.LastTerminationState.Terminated
		if c.State.Terminated != nil && c.State.Terminated.Reason == reasonOOM {
			last = c.State.Terminated
		}
		waits := c.State.Waiting != nil && c.State.Waiting.Reason == reasonCrashLoop
		killed := last != nil && last.Reason == reasonOOM
		if waits || killed || last != nil && last.Reason == "Error" && c.RestartCount >= manyRestarts {
			hits = append(hits, crash(p, c, last, killed))
		}
	}
	return hits
}

func crash(p *corev1.Pod, c *corev1.ContainerStatus, last *corev1.ContainerStateTerminated, killed bool) hit {
	h := found(podObject(p), fmt.Sprintf("container %s crashed, %d restarts", c.Name, c.RestartCount))
	if len(p.Spec.Containers) > 1 {
		h.next = "kubectl -n $NS logs $NAME -c " + c.Name + " --previous"
	}
	if killed {
		h = found(podObject(p), fmt.Sprintf("container %s was killed for its memory, %d restarts", c.Name, c.RestartCount),
			"resources.limits.memory: "+memoryLimit(p, c.Name))
		h.cause = "the memory grows with the pods and Services of the cluster, and with the queries in flight"
		h.next = "kubectl -n $NS describe pod $NAME; raise resources.limits.memory"
	}
	if last != nil {
		line := fmt.Sprintf("last exit: %s, exit code %d: %s", last.Reason, last.ExitCode, last.Message)
		h.evidence = append(h.evidence, strings.TrimSuffix(line, ": "))
	}
	if w := c.State.Waiting; w != nil && w.Reason == reasonCrashLoop {
		h.evidence = append(h.evidence, "waiting: "+w.Message)
	}
	return h
}

const reasonOOM, reasonCrashLoop = "OOMKilled", "CrashLoopBackOff"

func memoryLimit(p *corev1.Pod, container string) string {
	for _, c := range p.Spec.Containers {
		if q, ok := c.Resources.Limits[corev1.ResourceMemory]; ok && c.Name == container {
			return q.String()
		}
	}
	return "none"
}

func hasCondition(n *corev1.Node, kind corev1.NodeConditionType) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

func findNodeNotReady(v *view) (hits []hit) {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		isCut := hasCondition(n, corev1.NodeNetworkUnavailable)
		if hasCondition(n, corev1.NodeReady) && !isCut {
			continue
		}
		var evidence []string
		for _, p := range v.dnsPods {
			if p.Spec.NodeName == n.Name {
				evidence = append(evidence, podLine(p))
			}
		}
		message := "a node with a pod of the cluster DNS is not ready"
		if isCut {
			message = "a node with a pod of the cluster DNS has the condition NetworkUnavailable"
		}
		if len(evidence) > 0 {
			hits = append(hits, found(object{"Node", "", n.Name}, message, evidence...))
		}
	}
	return hits
}

// findNotRedundant reports a single pod, or pods on a single node. Where no other node can have a pod, they
// have to be on one.
func findNotRedundant(v *view) []hit {
	nodes, usable := map[string]bool{}, 0
	var evidence []string
	for _, p := range v.dnsPods {
		nodes[p.Spec.NodeName] = true
		evidence = append(evidence, fmt.Sprintf("Pod %s is on node %s", p.Name, p.Spec.NodeName))
	}
	for i := range v.Nodes {
		if !v.Nodes[i].Spec.Unschedulable && hasCondition(&v.Nodes[i], corev1.NodeReady) {
			usable++
		}
	}
	switch o := serviceObject(v.dns); {
	case len(v.dnsPods) == 1 && len(v.Nodes) > 1:
		return []hit{found(o, fmt.Sprintf("one pod serves %d nodes", len(v.Nodes)), evidence...)}
	case len(v.dnsPods) > 1 && len(nodes) == 1 && !nodes[""] && usable > 1:
		return []hit{found(o, fmt.Sprintf("all %d pods are on one node of %d", len(v.dnsPods), len(v.Nodes)), evidence...)}
	}
	return nil
}

func findEvicted(v *view) []hit {
	var first *corev1.Pod
	var evidence []string
	for i := range v.Pods {
		p := &v.Pods[i]
		isOfDNS := p.Namespace == v.dns.Namespace && len(v.dns.Spec.Selector) > 0 && selects(v.dns.Spec.Selector, p.Labels)
		if isOfDNS && p.Status.Reason == "Evicted" {
			first = cmp.Or(first, p)
			evidence = append(evidence, fmt.Sprintf("Pod %s on node %s: %s", p.Name, p.Spec.NodeName, p.Status.Message))
		}
	}
	if first == nil {
		return nil
	}
	return []hit{found(podObject(first), fmt.Sprintf("%d pods of the cluster DNS were evicted", len(evidence)), evidence...)}
}

// findResources checks the DNS container of one pod of each controller.
func findResources(v *view) (hits []hit) {
	hits = findEvicted(v)
	seen := map[string]bool{}
	for _, p := range v.dnsPods {
		if len(p.Spec.Containers) == 0 || seen[ownerOf(p)] {
			continue
		}
		seen[ownerOf(p)] = true
		// The container that serves DNS, or the first, as sidecars come later.
		isDNS := func(c corev1.Container) bool { return strings.Contains(c.Name, "dns") }
		c := p.Spec.Containers[max(0, slices.IndexFunc(p.Spec.Containers, isDNS))]
		memory, hasMemory := c.Resources.Limits[corev1.ResourceMemory]
		cpu, hasCPU := c.Resources.Limits[corev1.ResourceCPU]
		_, hasRequest := c.Resources.Requests[corev1.ResourceMemory]
		var evidence []string
		switch {
		case hasMemory && memory.Cmp(*resource.NewQuantity(minMemory, resource.BinarySI)) < 0:
			evidence = append(evidence, fmt.Sprintf("container %s: limits.memory %s", c.Name, &memory))
		case !hasMemory && !hasRequest: // a limit is the default of a request
			evidence = append(evidence, fmt.Sprintf("container %s: no requests.memory", c.Name))
		}
		if hasCPU && cpu.MilliValue() < minMilliCPU {
			evidence = append(evidence, fmt.Sprintf("container %s: limits.cpu %s", c.Name, &cpu))
		}
		if len(evidence) > 0 {
			hits = append(hits, found(podObject(p), "its resources are too small", evidence...))
		}
	}
	return hits
}
