// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package deploy

import (
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
	var m agentManifests
	for _, object := range decode(t, "agent") {
		switch o := object.(type) {
		case *appsv1.DaemonSet:
			if o.Name == "dnsconfigurer-nri" {
				m.relay = o
			} else {
				m.agent = o
			}
		case *corev1.ServiceAccount:
			m.account = o
		case *rbacv1.ClusterRole:
			m.role = o
		case *rbacv1.ClusterRoleBinding:
			m.binding = o
		case *corev1.ConfigMap:
			m.config = o
		default:
			t.Errorf("unexpected object %T", object)
		}
	}
	return m
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
		found[m.MountPath] = mount{m, sources[m.Name]}
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
		"the service account, not the kubelet": c.InCluster && c.Kubeconfig == "",
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

// TestAgent_Restrictions checks the restrictions of both pods, and the settings that keep them
// running. test/chart compares them with docs/security.md.
func TestAgent_Restrictions(t *testing.T) {
	m := readAgent(t)
	for _, set := range []*appsv1.DaemonSet{m.agent, m.relay} {
		pod := set.Spec.Template.Spec
		c := pod.Containers[0]
		s := c.SecurityContext
		for name, ok := range map[string]bool{
			"no capabilities":            slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(s.Capabilities.Add) == 0,
			"no privilege escalation":    !*s.AllowPrivilegeEscalation && s.Privileged == nil,
			"read-only root file system": *s.ReadOnlyRootFilesystem,
			"runtime seccomp profile":    pod.SecurityContext.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
			"no host namespaces":         !pod.HostNetwork && !pod.HostPID && !pod.HostIPC,
			"no cluster DNS":             pod.DNSPolicy == corev1.DNSDefault,
			"priority class":             pod.PriorityClassName == "system-node-critical",
			"tolerates all taints":       slices.Equal(pod.Tolerations, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}),
			"memory limit":               !c.Resources.Limits.Memory().IsZero(),
			"no CPU limit":               c.Resources.Limits.Cpu().IsZero(),
			"probes":                     c.ReadinessProbe.HTTPGet.Path == "/readyz" && c.LivenessProbe.HTTPGet.Path == "/livez",
		} {
			if !ok {
				t.Errorf("%s: missing: %s", set.Name, name)
			}
		}
	}
	if m.relay.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType || m.agent.Spec.UpdateStrategy.RollingUpdate == nil {
		t.Errorf("updates of relay and agent: %+v, %+v", m.relay.Spec.UpdateStrategy, m.agent.Spec.UpdateStrategy)
	}
	if token := m.relay.Spec.Template.Spec.AutomountServiceAccountToken; token == nil || *token {
		t.Error("the relay has a token of the API server")
	}
}
