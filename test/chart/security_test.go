// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// workload is an object with pods, or a role.
type workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct{ Template corev1.PodTemplateSpec }
	Rules             []rbacv1.PolicyRule
}

// component returns the component of the chart that w belongs to.
func (w *workload) component() string { return w.Labels["app.kubernetes.io/component"] }

// podRights returns the rights that a pod has on its node, and whether it has any in the API
// server.
func podRights(pod corev1.PodSpec) (rights []string) {
	if pod.HostNetwork {
		rights = append(rights, "host network")
	}
	if pod.HostPID || pod.HostIPC {
		rights = append(rights, "host processes")
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		rights = append(rights, "token of its service account")
	}
	for _, s := range pod.SecurityContext.Sysctls {
		rights = append(rights, "sysctl "+s.Name)
	}
	writable := map[string]bool{}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		rights = append(rights, containerRights(pod.SecurityContext, c.SecurityContext)...)
		for _, m := range c.VolumeMounts {
			writable[m.Name] = !m.ReadOnly
		}
	}
	for _, v := range pod.Volumes {
		switch {
		case v.HostPath != nil && writable[v.Name]:
			rights = append(rights, "write "+v.HostPath.Path)
		case v.HostPath != nil:
			rights = append(rights, "read "+v.HostPath.Path)
		}
	}
	return rights
}

func containerRights(pod *corev1.PodSecurityContext, c *corev1.SecurityContext) (rights []string) {
	uid := pod.RunAsUser
	if c.RunAsUser != nil {
		uid = c.RunAsUser
	}
	rights = append(rights, fmt.Sprintf("user %d", *uid))
	for _, capability := range c.Capabilities.Add {
		rights = append(rights, "CAP_"+string(capability))
	}
	if !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		rights = append(rights, "default capabilities")
	}
	if c.Privileged != nil && *c.Privileged || c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation {
		rights = append(rights, "privilege escalation")
	}
	if c.ReadOnlyRootFilesystem == nil || !*c.ReadOnlyRootFilesystem {
		rights = append(rights, "write its root file system")
	}
	if pod.SeccompProfile == nil || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		rights = append(rights, "all system calls")
	}
	return rights
}

// roleRights returns the rights that a role gives.
func roleRights(w *workload) (rights []string) {
	for _, rule := range w.Rules {
		for _, resource := range rule.Resources {
			right := strings.Join(rule.Verbs, ", ") + " " + resource
			if len(rule.ResourceNames) > 0 {
				right += " " + strings.Join(rule.ResourceNames, ", ")
			}
			if w.Kind == "Role" {
				right += " of its namespace"
			}
			rights = append(rights, right)
		}
		for _, url := range rule.NonResourceURLs {
			rights = append(rights, strings.Join(rule.Verbs, ", ")+" "+url)
		}
	}
	return rights
}

// rowPattern matches a row of the table: component, right and reason.
var rowPattern = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]+) \\| ([^|]+) \\|$")

// TestSecurity_Rights compares the rights of everything that the chart installs with the table in
// docs/security.md, which gives the reason for each.
func TestSecurity_Rights(t *testing.T) {
	rights := map[string]bool{}
	for key, o := range render(t, "everything.yaml") {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		w := &workload{}
		switch kind, _, _ := strings.Cut(key, " "); kind {
		case "Deployment", "DaemonSet":
			err = yaml.Unmarshal(text, w)
			found = podRights(w.Spec.Template.Spec)
		case "Role", "ClusterRole":
			err = yaml.Unmarshal(text, w)
			found = roleRights(w)
		}
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		for _, right := range found {
			rights[w.component()+": "+right] = true
		}
	}
	page := must.Get(os.ReadFile("../../docs/security.md"))(t)
	_, section, _ := strings.Cut(string(page), "\n### Rights of the chart\n")
	section, _, _ = strings.Cut(section, "\n#")
	documented := map[string]bool{}
	for _, row := range rowPattern.FindAllStringSubmatch(section, -1) {
		documented[row[1]+": "+row[2]] = true
	}
	got, want := slices.Sorted(maps.Keys(rights)), slices.Sorted(maps.Keys(documented))
	if diff := difference(t, want, got); diff != "" || len(got) < 20 {
		t.Errorf("rights (-docs/security.md +chart):\n%s", diff)
	}
}
