// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// doctor runs the command, as one does on a node, and returns its result.
func (c *cluster) doctor(t *testing.T, flags ...string) (r v1alpha1.DoctorResult) {
	t.Helper()
	c.names++ // the servers have cached the previous name
	outside := fmt.Sprintf("n%d.names.example.com", c.names)
	args := []string{"doctor", "--kubeconfig", adminIdentity, "-o", "json", "--external-name", outside}
	out, err := exec.CommandContext(t.Context(), c.Dnsconfigurer, append(args, flags...)...).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || failed.ExitCode() != 1) {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// nothing returns an error unless the command has checked everything and found nothing.
func nothing(r v1alpha1.DoctorResult) error {
	if len(r.Findings)+len(r.NotChecked) > 0 || len(r.Probes) == 0 {
		return errors.New("not a healthy cluster")
	}
	return nil
}

// testDoctor: the command finds nothing in the cluster after the installation, also with the permissions of
// docs/debugging.md. It finds the settings of a kubelet and the file of a pod that runs, which are not
// objects. The tests of internal/doctor have the faults of objects.
func (c *cluster) testDoctor(t *testing.T) {
	kubelets := []string{"--kubelets"}
	c.awaitDoctor(t, "a healthy cluster", kubelets, nothing)
	c.awaitDoctor(t, "the documented permissions", []string{"--kubeconfig", c.viewer(t)}, nothing)

	c.create(t, newPod("edited", corev1.PodSpec{}))
	pod := []string{"--pod", namespace + "/edited", "--ephemeral-container", repository + ":" + c.imageTag(t)}
	c.awaitDoctor(t, "a pod", pod, func(r v1alpha1.DoctorResult) error {
		return errors.Join(nothing(v1alpha1.DoctorResult{Findings: r.Findings, Probes: r.Probes}), notChecked(r, "pod-file"))
	})
	c.exec(t, "edited", "/bin/busybox", "sh", "-c",
		`text=$(/bin/busybox sed s/nameserver.*/nameserver\ 192.0.2.77/ /etc/resolv.conf) && echo "$text" >/etc/resolv.conf`)
	c.awaitDoctor(t, "a pod with another nameserver", pod, func(r v1alpha1.DoctorResult) error {
		return finding(r, "pod-file", "nameservers: 192.0.2.77")
	})
	c.remove(t, "edited")

	config := must.Get(os.ReadFile(kubeletConfig))(t)
	restart := func(text string) {
		t.Helper()
		writeFile(t, kubeletConfig, text)
		must.Succeed(t, errors.Join(c.kubelet.Stop(), c.kubelet.Start()))
	}
	restart(strings.Replace(string(config), "clusterDNS: ["+dnsIP+"]", "clusterDNS: [10.96.0.99]", 1))
	c.awaitDoctor(t, "a kubelet with another server", kubelets, func(r v1alpha1.DoctorResult) error {
		return finding(r, "dns-service-address", "Node "+nodeName+", clusterDNS: 10.96.0.99")
	})
	restart(string(config))
	c.awaitDoctor(t, "the kubelet as before", kubelets, nothing)
}

// viewer returns a kubeconfig file of a user with the permissions of examples/ci/doctor.yaml. It creates the
// configuration that kubeadm keeps for kubelets, which doctor reads with them.
func (c *cluster) viewer(t *testing.T) string {
	t.Helper()
	example := must.Get(os.ReadFile("../../examples/ci/doctor.yaml"))(t)
	role, _, _ := strings.Cut(string(example), "\n---\n")
	c.apply(t, role)
	c.applyFile(t, "viewer.yaml")
	text := must.Get(c.api.Kubeconfig(c.api.Address(), "viewer"))(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeFile(t, path, text)
	return path
}

// awaitDoctor runs the command until check accepts its result: on a busy machine a kubelet or a
// server may not reply in time.
func (c *cluster) awaitDoctor(t *testing.T, what string, flags []string, check func(v1alpha1.DoctorResult) error) {
	t.Helper()
	await(t, "doctor: "+what, func() error {
		r := c.doctor(t, append([]string{"--timeout", patience.String()}, flags...)...)
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

// notChecked returns an error with the reason if a check did not run.
func notChecked(r v1alpha1.DoctorResult, code string) error {
	for _, n := range r.NotChecked {
		if slices.Contains(n.Checks, code) {
			return errors.New("not checked: " + n.Why)
		}
	}
	return nil
}

// testEphemeralContainer queries the cluster DNS from a pod: a healthy one, one whose UDP packets are
// dropped, and one with an image that cannot be pulled.
func (c *cluster) testEphemeralContainer(t *testing.T) {
	const name = "pod/web"
	c.apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}}")
	c.run(t, "", "wait", "--for=create", "serviceaccount/default", "--namespace=restricted", "--timeout="+patience.String())
	c.applyFile(t, "restricted.yaml")
	c.run(t, "", "wait", "--for=condition=Ready", name, "--namespace=restricted", "--timeout="+patience.String())
	defer c.run(t, "", "delete", "namespace", "restricted", "--wait=false")
	flags := []string{"--pod", "restricted/web", "--ephemeral-container", repository + ":" + c.imageTag(t)}
	c.awaitDoctor(t, "a pod that reaches the cluster DNS", flags, func(r v1alpha1.DoctorResult) error {
		probes, err := probesBy(r, "ephemeral-container")
		if err != nil {
			return errors.Join(err, notChecked(r, "probe-no-reply"))
		}
		for _, protocol := range []string{"udp", "tcp"} {
			if !slices.ContainsFunc(probes, func(p v1alpha1.DoctorProbe) bool {
				return p.Server == dnsIP+":53" && p.Role == "service" && p.Protocol == protocol
			}) {
				return errors.New("the Service was not queried over " + protocol)
			}
		}
		if err := notChecked(r, "pod-file"); err != nil {
			return err
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
		if err := notChecked(r, "probe-no-reply"); err == nil || !strings.Contains(err.Error(), "ImagePull") {
			return fmt.Errorf("the container has started: %w", err)
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
