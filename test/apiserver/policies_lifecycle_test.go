// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/poll"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// lifecycleTest is an API server on which the policies are installed, replaced and removed.
type lifecycleTest struct {
	policyTest

	binary string
}

// TestAPIServerPolicies_Lifecycle tests that the policies are enforced whenever they are
// installed, however they came to be.
func TestAPIServerPolicies_Lifecycle(t *testing.T) {
	c := apiserver.Start(t, withoutAccounts)
	l := lifecycleTest{policyTest: policyTest{c.Kubectl(t), map[string]bool{}}, binary: process.Build(t)}
	l.namespace(t, "payments")
	t.Run("domain", l.changeDomain)
	t.Run("upgrade", l.upgrade)
}

// render returns the output of the command policies.
func (l lifecycleTest) render(t *testing.T, flags ...string) string {
	t.Helper()
	return string(must.Get(exec.Command(l.binary, append([]string{"policies"}, flags...)...).Output())(t))
}

// all are the policies with all rules.
func (l lifecycleTest) all(t *testing.T) string {
	t.Helper()
	return l.render(t, "--cluster-domain", "cluster.local", "--cluster-dns", "10.96.0.10")
}

// until waits until the long pod is denied, or is not.
func (l lifecycleTest) until(t *testing.T, want bool) {
	t.Helper()
	start := time.Now()
	poll.Until(t, "the verdict on the long pod", func() bool {
		return strings.Contains(l.kubectl.DryRun(t.Context(), long).Refused, denied) == want
	})
	t.Logf("denied: %v, after %v", want, time.Since(start).Round(100*time.Millisecond))
}

// changeDomain: with a shorter domain the long pod is allowed, with the former one denied.
func (l lifecycleTest) changeDomain(t *testing.T) {
	for _, domain := range []string{"a.b", "cluster.local", "corp.example.internal"} {
		l.kubectl.MustRun(t, l.render(t, "--cluster-domain", domain), "apply", "-f", "-")
		l.until(t, domain != "a.b")
		if domain != "a.b" {
			poll.Until(t, domain, func() bool {
				return strings.Contains(l.kubectl.DryRun(t.Context(), long).Refused, ".svc."+domain+" would be")
			})
		}
	}
}

// upgrade: a release with a paramKind is replaced, policies first as they are written, or
// bindings first. The pod is denied at any time.
func (l lifecycleTest) upgrade(t *testing.T) {
	before := must.Get(os.ReadFile("testdata/policies-v0.yaml"))(t)
	documents := strings.SplitAfter(l.all(t), "\n---\n")
	policies, bindings := strings.Join(documents[:2], ""), strings.Join(documents[2:], "")
	for _, order := range [][]string{{policies, bindings}, {bindings, policies}, {policies + bindings}} {
		l.kubectl.MustRun(t, l.all(t), "delete", "--ignore-not-found", "-f", "-")
		l.until(t, false)
		l.kubectl.MustRun(t, string(before), "apply", "-f", "-")
		l.until(t, true)
		for _, part := range append(order, "") {
			if part == "" {
				l.kubectl.MustRun(t, "", "delete", "configmap", "dnsconfigurer-admission", "--namespace=kube-system")
			} else {
				l.kubectl.MustRun(t, part, "apply", "-f", "-")
			}
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
				if v := l.kubectl.DryRun(t.Context(), long); !strings.Contains(v.Refused, denied) {
					t.Errorf("after %.100q: not denied: %+v", part, v)
					break
				}
			}
		}
	}
	l.kubectl.MustRun(t, l.all(t), "delete", "-f", "-")
}
