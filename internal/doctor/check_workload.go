// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dnsconfigurer/dnsconfigurer/pkg/policy"
)

const (
	// minMemory is the memory request of kubeadm's CoreDNS; it needs about as much for a
	// cluster with a few thousand pods and Services.
	minMemory = 70 << 20

	// minMilliCPU is the CPU request of kubeadm's CoreDNS. A limit below throttles bursts of
	// queries in each period of 100 ms.
	minMilliCPU = 100
)

// workloadChecks are about the pods of the cluster DNS.
func workloadChecks() []Check {
	return []Check{
		{
			Code: "dns-scaled-to-zero", Severity: policy.SeverityError, What: "the Deployment of the cluster DNS has 0 replicas",
			cause: "it was scaled down by hand, by an autoscaler, or before an upgrade",
			next:  "kubectl -n $NS scale deployment $NAME --replicas=2",
			needs: []need{needDNS, read(Deployments)}, find: findScaledToZero,
		},
		{
			Code: "dns-pods-refused", Severity: policy.SeverityError, What: "pods of the cluster DNS cannot be created",
			cause: "a quota, an admission policy or a webhook refuses them",
			next:  "kubectl -n $NS describe deployment $NAME",
			needs: []need{needDNS, read(Deployments)}, find: findPodsRefused,
		},
		{
			Code: "dns-crash-loop", Severity: policy.SeverityError, What: "a container of the cluster DNS crashes again and again",
			cause: "the log of the previous container has the reason",
			next:  "kubectl -n $NS logs $NAME --previous",
			needs: []need{needDNS, read(Pods)}, find: findCrashLoop,
		},
		{
			Code: "dns-oom-killed", Severity: policy.SeverityError,
			What:  "a container of the cluster DNS was killed because it reached its memory limit",
			cause: "the memory grows with the pods and Services of the cluster, and with the queries in flight",
			next:  "kubectl -n $NS describe pod $NAME; raise resources.limits.memory",
			needs: []need{needDNS, read(Pods)}, find: findOOMKilled,
		},
		{
			Code: "dns-image-pull", Severity: policy.SeverityError, What: "the image of the cluster DNS cannot be pulled",
			cause: "the name or the tag is wrong, the registry is not reachable, or it needs credentials; a node " +
				"that resolves the registry through the cluster DNS cannot pull it either",
			next:  "kubectl -n $NS describe pod $NAME",
			needs: []need{needDNS, read(Pods)}, find: findImagePull,
		},
		{
			Code: "dns-unschedulable", Severity: policy.SeverityError, What: "a pod of the cluster DNS has no node",
			cause: "no node has the resources, the labels and the tolerated taints that it needs",
			next:  "kubectl -n $NS describe pod $NAME",
			needs: []need{needDNS, read(Pods)}, find: findUnschedulable,
		},
		{
			Code: "dns-node-not-ready", Severity: policy.SeverityWarning, What: "a pod of the cluster DNS is on a node that is not ready",
			cause: "queries that reach this pod are lost until it is removed from the endpoints",
			next:  "kubectl describe node $NAME",
			needs: []need{needDNS, read(Pods, Nodes)}, find: findNodeNotReady,
		},
		{
			Code: "dns-memory", Severity: policy.SeverityWarning,
			What:  "the memory limit of the cluster DNS is below 70 MiB, or it has no memory request",
			cause: "it is killed under load, or evicted before pods that matter less",
			next:  "kubectl -n $NS get pod $NAME -o jsonpath='{.spec.containers[*].resources}'",
			needs: []need{needDNS, read(Pods)}, find: findMemory,
		},
		{
			Code: "dns-cpu-limit", Severity: policy.SeverityWarning, What: "the CPU limit of the cluster DNS is below 100m",
			cause: "a throttled server answers late, or loses packets when its socket buffer is full",
			next:  "kubectl -n $NS get pod $NAME -o jsonpath='{.spec.containers[*].resources}'",
			needs: []need{needDNS, read(Pods)}, find: findCPULimit,
		},
		{
			Code: "dns-budget-zero", Severity: policy.SeverityWarning,
			What:  "a PodDisruptionBudget permits no eviction of a pod of the cluster DNS",
			cause: "nodes with such a pod cannot be drained",
			next:  "kubectl -n $NS get poddisruptionbudget $NAME -o yaml",
			needs: []need{needDNS, read(Budgets, Pods)}, find: findBudgetZero,
		},
	}
}

// dnsDeployments returns the Deployments whose pods the DNS Service selects.
func (v *view) dnsDeployments() (list []appsv1.Deployment) {
	for _, d := range v.Deployments {
		if v.dns == nil || d.Namespace != v.dns.Namespace || len(v.dns.Spec.Selector) == 0 {
			continue
		}
		if selects(v.dns.Spec.Selector, d.Spec.Template.Labels) {
			list = append(list, d)
		}
	}
	return list
}

func findScaledToZero(v *view) (hits []hit) {
	deployments := v.dnsDeployments()
	for _, d := range deployments {
		if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 && len(deployments) == 1 {
			hits = append(
				hits,
				hit{object: object{"Deployment", d.Namespace, d.Name}, message: "scaled to 0 replicas",
					evidence: []string{"spec.replicas: 0"}},
			)
		}
	}
	return hits
}

func findPodsRefused(v *view) (hits []hit) {
	for _, d := range v.dnsDeployments() {
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				hits = append(
					hits,
					hit{
						object:   object{"Deployment", d.Namespace, d.Name},
						message:  "its pods cannot be created",
						evidence: []string{c.Reason + ": " + c.Message},
					},
				)
			}
		}
	}
	return hits
}

// containers yields the state of each container of the cluster DNS, also of init containers.
func (v *view) containers(yield func(*corev1.Pod, *corev1.ContainerStatus)) {
	for _, p := range v.dnsPods {
		for i := range p.Status.InitContainerStatuses {
			yield(p, &p.Status.InitContainerStatuses[i])
		}
		for i := range p.Status.ContainerStatuses {
			yield(p, &p.Status.ContainerStatuses[i])
		}
	}
}

func findCrashLoop(v *view) (hits []hit) {
	v.containers(func(p *corev1.Pod, c *corev1.ContainerStatus) {
		if c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" {
			return
		}
		h := hit{
			object:   podObject(p),
			message:  fmt.Sprintf("container %s crashed %d times", c.Name, c.RestartCount),
			evidence: []string{"waiting: " + c.State.Waiting.Message},
		}
		if len(p.Spec.Containers) > 1 {
			h.next = "kubectl -n $NS logs $NAME -c " + c.Name + " --previous"
		}
		if last := c.LastTerminationState.Terminated; last != nil {
			h.evidence = append(h.evidence,
				strings.TrimSpace(fmt.Sprintf("last exit: code %d, %s %s", last.ExitCode, last.Reason, last.Message)))
		}
		if v.corefile != nil && len(v.corefile.find("loop")) > 0 {
			h.cause = "the log of the previous container has the reason: a Corefile that CoreDNS refuses, " +
				"or a forwarding loop, which its plugin loop detects when it starts"
		}
		hits = append(hits, h)
	})
	return hits
}

func findOOMKilled(v *view) (hits []hit) {
	v.containers(func(p *corev1.Pod, c *corev1.ContainerStatus) {
		for _, t := range []*corev1.ContainerStateTerminated{c.State.Terminated, c.LastTerminationState.Terminated} {
			if t != nil && t.Reason == "OOMKilled" {
				hits = append(hits, hit{
					object: podObject(p), message: fmt.Sprintf("container %s was killed for its memory", c.Name),
					evidence: []string{
						fmt.Sprintf("OOMKilled, exit code %d, %d restarts", t.ExitCode, c.RestartCount),
						"resources.limits.memory: " + limitOf(p, c.Name, corev1.ResourceMemory),
					},
				})
				return
			}
		}
	})
	return hits
}

func limitOf(p *corev1.Pod, container string, name corev1.ResourceName) string {
	for _, c := range p.Spec.Containers {
		if q, ok := c.Resources.Limits[name]; ok && c.Name == container {
			return q.String()
		}
	}
	return "none"
}

func findImagePull(v *view) (hits []hit) {
	v.containers(func(p *corev1.Pod, c *corev1.ContainerStatus) {
		w := c.State.Waiting
		if w == nil || !slices.Contains([]string{"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}, w.Reason) {
			return
		}
		hits = append(
			hits,
			hit{object: podObject(p), message: "the image " + c.Image + " cannot be pulled",
				evidence: []string{w.Reason + ": " + w.Message}},
		)
	})
	return hits
}

func findUnschedulable(v *view) (hits []hit) {
	for _, p := range v.dnsPods {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				hits = append(
					hits,
					hit{object: podObject(p), message: "the pod is pending: no node fits", evidence: []string{c.Reason + ": " + c.Message}},
				)
			}
		}
	}
	return hits
}

func nodeIsReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func findNodeNotReady(v *view) (hits []hit) {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if nodeIsReady(n) {
			continue
		}
		var evidence []string
		for _, p := range v.dnsPods {
			if p.Spec.NodeName == n.Name {
				evidence = append(evidence, podLine(p))
			}
		}
		if len(evidence) > 0 {
			hits = append(
				hits,
				hit{object: object{"Node", "", n.Name}, message: "a node with a pod of the cluster DNS is not ready", evidence: evidence},
			)
		}
	}
	return hits
}

// dnsContainer returns the container that serves DNS: the first, as sidecars come later.
func dnsContainer(p *corev1.Pod) *corev1.Container {
	for i := range p.Spec.Containers {
		if strings.Contains(p.Spec.Containers[i].Name, "dns") {
			return &p.Spec.Containers[i]
		}
	}
	if len(p.Spec.Containers) == 0 {
		return nil
	}
	return &p.Spec.Containers[0]
}

func findMemory(v *view) []hit {
	return v.eachTemplate(func(c *corev1.Container) (message string, evidence []string) {
		limit, hasLimit := c.Resources.Limits[corev1.ResourceMemory]
		_, hasRequest := c.Resources.Requests[corev1.ResourceMemory]
		switch {
		case hasLimit && limit.Cmp(*resource.NewQuantity(minMemory, resource.BinarySI)) < 0:
			return "the memory limit is too small", []string{fmt.Sprintf("container %s: limits.memory %s", c.Name, &limit)}
		case !hasLimit && !hasRequest: // a limit is the default of a request
			return "no memory is requested", []string{fmt.Sprintf("container %s: no requests.memory", c.Name)}
		}
		return "", nil
	})
}

func findCPULimit(v *view) []hit {
	return v.eachTemplate(func(c *corev1.Container) (message string, evidence []string) {
		if limit, ok := c.Resources.Limits[corev1.ResourceCPU]; ok && limit.MilliValue() < minMilliCPU {
			return "the CPU limit is too small", []string{fmt.Sprintf("container %s: limits.cpu %s", c.Name, &limit)}
		}
		return "", nil
	})
}

// eachTemplate checks the DNS container of one pod of each controller.
func (v *view) eachTemplate(check func(*corev1.Container) (message string, evidence []string)) (hits []hit) {
	seen := map[string]bool{}
	for _, p := range v.dnsPods {
		c := dnsContainer(p)
		if c == nil || seen[ownerOf(p)] {
			continue
		}
		seen[ownerOf(p)] = true
		if message, evidence := check(c); message != "" {
			hits = append(hits, hit{object: podObject(p), message: message, evidence: evidence})
		}
	}
	return hits
}

func findBudgetZero(v *view) (hits []hit) {
	for i := range v.Budgets {
		b := &v.Budgets[i]
		if b.Namespace != v.dns.Namespace || b.Spec.Selector == nil {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue
		}
		matched := 0
		for _, p := range v.dnsPods {
			if selector.Matches(podLabels(p)) {
				matched++
			}
		}
		if line, zero := permitsNone(b, matched); zero && matched > 0 {
			hits = append(
				hits,
				hit{
					object:   object{"PodDisruptionBudget", b.Namespace, b.Name},
					message:  "no pod of the cluster DNS may be evicted",
					evidence: []string{line, fmt.Sprintf("%d pods match", matched)},
				},
			)
		}
	}
	return hits
}

// permitsNone reports whether a budget never permits an eviction while all pods run.
func permitsNone(b *policyv1.PodDisruptionBudget, pods int) (line string, zero bool) {
	if m := b.Spec.MaxUnavailable; m != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(m, pods, true)
		return "spec.maxUnavailable: " + m.String(), err == nil && n == 0
	}
	if m := b.Spec.MinAvailable; m != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(m, pods, true)
		return "spec.minAvailable: " + m.String(), err == nil && n >= pods
	}
	return "", false
}
