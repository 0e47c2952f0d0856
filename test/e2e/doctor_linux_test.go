// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// awaitDoctor runs the command until check accepts its result: on a busy machine a kubelet or a
// server may not reply in time.
func (c *cluster) awaitDoctor(t *testing.T, what string, flags []string, check func(v1alpha1.DoctorResult) error) {
	t.Helper()
	await(t, "doctor: "+what, func() error {
		r, _ := c.doctor(t, append([]string{"--timeout", patience.String()}, flags...)...)
		err := check(r)
		if err != nil {
			err = fmt.Errorf("%w: %+v", err, r)
		}
		return err
	})
}

// probesBy returns the queries by a means, and an error if a reply is missing.
func probesBy(r v1alpha1.DoctorResult, means string) (probes []v1alpha1.DoctorProbe, err error) {
	for _, p := range r.Probes {
		if p.Means != means {
			continue
		}
		if p.RCode != "NOERROR" {
			err = fmt.Errorf("no reply: %+v", p)
		}
		probes = append(probes, p)
	}
	if len(probes) == 0 {
		err = errors.New("no queries through " + means)
	}
	return probes, err
}

// finding returns an error unless there is a finding with this code and text in its evidence.
func finding(r v1alpha1.DoctorResult, code, text string) error {
	for _, f := range r.Findings {
		if f.Code == code && strings.Contains(strings.Join(f.Evidence, "\n"), text) {
			return nil
		}
	}
	return fmt.Errorf("no finding %s with %q", code, text)
}

// whyNotChecked returns why a check did not run, "" if it ran.
func whyNotChecked(r v1alpha1.DoctorResult, code string) string {
	for _, n := range r.NotChecked {
		if slices.Contains(n.Checks, code) {
			return n.Why
		}
	}
	return ""
}

// restricted is a namespace with the strictest level of the Pod Security Standards, and a pod in it.
const restricted = `apiVersion: v1
kind: Namespace
metadata: {name: restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: restricted}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: main
    image: ` + nodetools.LibrariesImage + `
    imagePullPolicy: Never
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// testEphemeralContainer queries the cluster DNS from a pod: a healthy one, one whose UDP packets are
// dropped, and one with an image that cannot be pulled.
func (c *cluster) testEphemeralContainer(t *testing.T) {
	const name = "pod/web"
	namespaceManifest, podManifest, _ := strings.Cut(restricted, "---\n")
	c.apply(t, namespaceManifest)
	c.run(t, "", "wait", "--for=create", "serviceaccount/default", "--namespace=restricted", "--timeout="+patience.String())
	c.apply(t, podManifest)
	c.run(t, "", "wait", "--for=condition=Ready", name, "--namespace=restricted", "--timeout="+patience.String())
	defer c.run(t, "", "delete", "namespace", "restricted", "--wait=false")
	flags := []string{"--pod", "restricted/web", "--ephemeral-container", repository + ":" + c.imageTag(t)}
	c.awaitDoctor(t, "a pod that reaches the cluster DNS", flags, func(r v1alpha1.DoctorResult) error {
		probes, err := probesBy(r, "ephemeral-container")
		if err != nil {
			return errors.Join(err, errors.New(whyNotChecked(r, "probe-pod-no-reply")))
		}
		for _, protocol := range []string{"udp", "tcp"} {
			if !slices.ContainsFunc(probes, func(p v1alpha1.DoctorProbe) bool {
				return p.Server == dnsIP+":53" && p.Role == "service" && p.Protocol == protocol
			}) {
				return errors.New("the Service was not queried over " + protocol)
			}
		}
		if why := whyNotChecked(r, "pod-file"); why != "" {
			return errors.New(why)
		}
		if r.Pod == nil || !strings.Contains(strings.Join(r.Pod.Notes, "\n"), "stays until the pod ends") {
			return errors.New("no note about the container")
		}
		return nil
	})
	dropUDP(t, strings.Fields(c.run(t, "", "get", name, "--namespace=restricted", "--output=jsonpath={.status.podIPs[*].ip}")))
	c.awaitDoctor(t, "a pod whose UDP packets are dropped", flags, func(r v1alpha1.DoctorResult) error {
		for _, f := range r.Findings {
			if f.Code == "probe-no-reply" && !strings.HasSuffix(f.Message, " from the pod") {
				return fmt.Errorf("from this machine: %+v", f)
			}
		}
		return finding(r, "probe-no-reply", "@"+dnsIP+":53 over udp from the pod: no reply")
	})
	flags[len(flags)-1] = "localhost/missing:1"
	c.awaitDoctor(t, "an image that cannot be pulled", flags, func(r v1alpha1.DoctorResult) error {
		if why := whyNotChecked(r, "probe-pod-no-reply"); !strings.Contains(why, "ImagePull") {
			return errors.New("not checked: " + why)
		}
		return nil
	})
}

// dropUDP drops DNS queries over UDP of a pod until the end of the test.
func dropUDP(t *testing.T, addresses []string) {
	t.Helper()
	if len(addresses) != 2 {
		t.Fatalf("addresses of the pod: %q", addresses)
	}
	nft := func(rules string) {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("nft: %v\n%s\n%s", err, out, rules)
		}
	}
	rules := "table inet doctor {\n chain queries {\n  type filter hook prerouting priority raw\n"
	for _, a := range addresses {
		family := "ip"
		if strings.Contains(a, ":") {
			family = "ip6"
		}
		rules += "  " + family + " saddr " + a + " udp dport 53 drop\n"
	}
	nft(rules + " }\n}\n")
	t.Cleanup(func() { nft("delete table inet doctor\n") })
}
