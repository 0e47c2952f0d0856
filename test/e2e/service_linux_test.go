// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// lookups are names that every pod of the cluster resolves to the same addresses.
var lookups = []struct{ title, name, want string }{
	{"a Service of the namespace", "web", "10.96.1.1 fd00:10:96::101"},
	{"a Service of another namespace", "db.default", "10.96.1.2"},
	{"a Service by its full name", "db.default.svc.cluster.local", "10.96.1.2"},
	{"the same, absolute", "db.default.svc.cluster.local.", "10.96.1.2"},
	{"an ExternalName", "elsewhere", "198.51.100.1 2001:db8::1"},
	{"a name of the internet", "www.example.com", "198.51.100.1 2001:db8::1"},
	{"a host of the node's search list", "hosted", "198.51.100.3"},
	{"a name that does not exist", "nothing", "error EAI_NONAME"},
}

// testService resolves names in a pod, as the first test of the whole chain.
func (c *cluster) testService(t *testing.T) {
	c.applyFile(t, "services.yaml")
	c.create(t, newPod("client", corev1.PodSpec{}))
	await(t, "the first answer", func() error {
		found, err := c.lookUp(t, "client", "glibc", "web")
		if err == nil && found["web"] != lookups[0].want {
			err = errors.New(found["web"])
		}
		return err
	})
	c.checkLookups(t, "client")
}

// lookUpAll looks up names in a pod and returns the results by library and name. It repeats a
// lookup whose time has run out on a busy machine: the C libraries wait for five seconds, or ten.
func (c *cluster) lookUpAll(t *testing.T, pod string, names ...string) map[string]string {
	t.Helper()
	results := map[string]string{}
	for _, library := range libraries {
		await(t, "results of "+library+" in "+pod, func() error {
			found, err := c.lookUp(t, pod, library, names...)
			if err != nil {
				return err
			}
			for name, addresses := range found {
				if addresses == "error EAI_AGAIN" {
					t.Logf("%s in %s: no result for %s in time", library, pod, name)
					return errors.New("no result for " + name)
				}
				results[library+" "+name] = addresses
			}
			return nil
		})
	}
	return results
}

// checkLookups makes all lookups in a pod and compares the results.
func (c *cluster) checkLookups(t *testing.T, pod string) {
	t.Helper()
	var names []string
	for _, l := range lookups {
		names = append(names, l.name)
	}
	found := c.lookUpAll(t, pod, names...)
	for _, library := range libraries {
		for _, l := range lookups {
			if got := found[library+" "+l.name]; got != l.want {
				t.Errorf("%s, %s: %s (%s): %s, want %s", pod, library, l.title, l.name, got, l.want)
			}
		}
	}
}
