// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
)

// agentManifests holds the objects in agent.
type agentManifests struct {
	agent, relay *appsv1.DaemonSet
	account      *corev1.ServiceAccount
	role         *rbacv1.ClusterRole
	binding      *rbacv1.ClusterRoleBinding
	config       *corev1.ConfigMap
}

func readAgent(t *testing.T) agentManifests {
	t.Helper()
	objects := decode(t, "agent", 6)
	return agentManifests{
		agent: the[*appsv1.DaemonSet](t, objects, "-agent"), relay: the[*appsv1.DaemonSet](t, objects, "-nri"),
		account: the[*corev1.ServiceAccount](t, objects, ""), role: the[*rbacv1.ClusterRole](t, objects, ""),
		binding: the[*rbacv1.ClusterRoleBinding](t, objects, ""), config: the[*corev1.ConfigMap](t, objects, ""),
	}
}

// mount is a directory or file of a pod.
type mount struct {
	corev1.VolumeMount
	source corev1.VolumeSource
}

// mounts returns the mounts of the only container of a pod by their path.
func mounts(t *testing.T, pod corev1.PodSpec) map[string]mount {
	t.Helper()
	sources := map[string]corev1.VolumeSource{}
	for _, v := range pod.Volumes {
		sources[v.Name] = v.VolumeSource
	}
	found := map[string]mount{}
	for _, m := range pod.Containers[0].VolumeMounts {
		if found[m.MountPath] = (mount{m, sources[m.Name]}); m.SubPath != "" {
			t.Errorf("%s is mounted by subPath and never updated", m.MountPath)
		}
	}
	if len(pod.Containers) != 1 || len(found) != len(sources) {
		t.Errorf("%d containers, %d mounts, %d volumes", len(pod.Containers), len(found), len(sources))
	}
	return found
}

// TestAgent_References checks the references between the objects and the configuration.
func TestAgent_References(t *testing.T) {
	m := readAgent(t)
	for _, set := range []*appsv1.DaemonSet{m.agent, m.relay} {
		selector := labels.SelectorFromSet(set.Spec.Selector.MatchLabels)
		if set.Namespace != "kube-system" || selector.Empty() || !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
			t.Errorf("%s/%s: %v selects %v", set.Namespace, set.Name, selector, set.Spec.Template.Labels)
		}
	}
	agent, relay := m.agent.Spec.Template.Spec, m.relay.Spec.Template.Spec
	account := m.binding.Subjects[0]
	if account.Name != m.account.Name || account.Namespace != m.agent.Namespace || m.binding.RoleRef.Name != m.role.Name {
		t.Errorf("%s is bound to %+v", m.role.Name, account)
	}
	if agent.ServiceAccountName != account.Name {
		t.Errorf("the pods have the account %s, the role %s", agent.ServiceAccountName, account.Name)
	}
	agentMounts, relayMounts := mounts(t, agent), mounts(t, relay)
	args, relayArgs := agent.Containers[0].Args, relay.Containers[0].Args
	file := args[slices.Index(args, "--config")+1]
	if source := agentMounts[path.Dir(file)].source.ConfigMap; source == nil || source.Name != m.config.Name {
		t.Fatalf("%s is in %v", file, source)
	}
	c, err := v1alpha1.Parse[v1alpha1.AgentConfiguration]([]byte(m.config.Data[path.Base(file)]))
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimPrefix(c.Listen, "unix://")
	directory := path.Dir(path.Dir(socket)) // of the directory that the agent creates
	sandboxes, kubelet := agentMounts[c.SandboxDirectories[0]], agentMounts[c.Node.KubeletConfig]
	const nri = "/var/run/nri"
	name := agent.Containers[0].Env[0]
	port := agent.Containers[0].Ports[0].ContainerPort
	for name, ok := range map[string]bool{
		"the relay's socket of the agent":     slices.Contains(relayArgs, "--agent="+socket),
		"the socket's directory of the relay": relayMounts[directory].ReadOnly && isHostPath(relayMounts[directory], directory),
		"the socket's directory of the agent": !agentMounts[directory].ReadOnly && isHostPath(agentMounts[directory], directory),
		"the runtime's socket": slices.Contains(relayArgs, "--socket="+nri+"/nri.sock") &&
			isHostPath(relayMounts[nri], nri),
		"the directory of sandboxes":           !sandboxes.ReadOnly && isHostPath(sandboxes, c.SandboxDirectories[0]),
		"the kubelet's configuration":          kubelet.ReadOnly && isHostPath(kubelet, c.Node.KubeletConfig),
		"the service account, not the kubelet": c.Kubeconfig == "",
		"the name of the node": slices.Contains(args, "$("+name.Name+")") &&
			name.ValueFrom.FieldRef.FieldPath == "spec.nodeName",
		"the agent's port": netip.MustParseAddrPort(c.HTTP).Port() == uint16(port),
		"the relay's port": slices.Contains(relayArgs, "--http=[::]:9352") && relay.Containers[0].Ports[0].ContainerPort == 9352,
	} {
		if !ok {
			t.Errorf("differs: %s", name)
		}
	}
}

// isHostPath reports whether m is the path of the node. The runtime names paths of the node.
func isHostPath(m mount, path string) bool {
	return m.source.HostPath != nil && m.source.HostPath.Path == path && m.MountPath == path
}

// checkRestrictions checks the restrictions that all pods have, and others. The rights of a pod, such as
// capabilities, are compared with docs/security.md by test/chart.
func checkRestrictions(t *testing.T, name string, pod corev1.PodSpec, others map[string]bool) {
	t.Helper()
	c := pod.Containers[0]
	all := map[string]bool{
		"the node's resolv.conf": pod.DNSPolicy == corev1.DNSDefault,
		"memory limit":           !c.Resources.Limits.Memory().IsZero(),
		"no CPU limit":           c.Resources.Limits.Cpu().IsZero(),
		"probes":                 c.ReadinessProbe.HTTPGet.Path == "/readyz" && c.LivenessProbe.HTTPGet.Path == "/livez",
	}
	maps.Copy(all, others)
	for restriction, ok := range all {
		if !ok {
			t.Errorf("%s: missing: %s", name, restriction)
		}
	}
}

// TestAgent_Restrictions checks the settings that keep both pods running.
func TestAgent_Restrictions(t *testing.T) {
	m := readAgent(t)
	for _, set := range []*appsv1.DaemonSet{m.agent, m.relay} {
		pod := set.Spec.Template.Spec
		checkRestrictions(t, set.Name, pod, map[string]bool{
			"priority class":       pod.PriorityClassName == "system-node-critical",
			"tolerates all taints": slices.Equal(pod.Tolerations, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}),
		})
	}
	if m.relay.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType || m.agent.Spec.UpdateStrategy.RollingUpdate == nil {
		t.Errorf("updates of relay and agent: %+v, %+v", m.relay.Spec.UpdateStrategy, m.agent.Spec.UpdateStrategy)
	}
}
