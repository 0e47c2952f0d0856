// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/test/apiserver"
	"github.com/dnsconfigurer/dnsconfigurer/test/dnsfaults"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

const (
	coreDNSConfig = "ConfigMap kube-system/coredns"

	// coreDNSTime is how long CoreDNS may take until it replies as expected. It waits up to
	// five seconds for the API server before it serves.
	coreDNSTime = 2 * time.Minute
)

// coreDNS replaces the servers by CoreDNS, with the Corefile of the ConfigMap, and breaks the
// second one: a rollout stops there, while the first one has the previous Corefile.
func (d *doctorTest) coreDNS(t *testing.T) {
	base, _, err := dnsfaults.Healthy()
	if err != nil {
		t.Fatal(err)
	}
	healthy := corefileOf(base)
	for _, r := range d.replicas {
		r.Kill()
	}
	d.replicas[0] = d.newCoreDNS(t, healthy, d.kubeconfig, dnsReplica1, dnsService)
	d.replicas[1] = d.newCoreDNS(t, healthy, d.kubeconfig, dnsReplica2)
	for _, r := range d.replicas {
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
	}
	d.waitFindings(t, nil)
	replace := func(old, text string) string {
		if !strings.Contains(healthy, old) {
			t.Fatalf("no %q in the Corefile", old)
		}
		return strings.Replace(healthy, old, text, 1)
	}
	unreachable := filepath.Join(t.TempDir(), "kubeconfig")
	d.writeUnreachable(t, unreachable)
	tests := []struct {
		name       string
		corefile   string
		kubeconfig string
		finds      []string
		evidence   string
	}{
		{
			"CoreDNS: the replica forwards to itself, and its plugin loop stops it", replace("/etc/resolv.conf", "127.0.0.53"), "",
			[]string{"corefile-loop"}, "forward . 127.0.0.53",
		},
		{
			"CoreDNS: the replica does not start, because of a misspelt plugin", replace("errors", "erorrs"), "",
			[]string{"corefile-refused"}, "erorrs",
		},
		{
			"CoreDNS: the replica does not start, because a brace is missing", strings.TrimSuffix(strings.TrimSpace(healthy), "}"), "",
			[]string{"corefile-refused"}, "the block is not closed",
		},
		{
			"CoreDNS: the replica serves another domain", replace("kubernetes cluster.local", "kubernetes k8s.example"), "",
			[]string{"corefile-domain"}, "kubernetes k8s.example",
		},
		{
			"CoreDNS: the replica forwards nothing",
			replace("    forward . /etc/resolv.conf {\n       max_concurrent 1000\n    }\n", ""), "",
			[]string{"corefile-no-forward"}, "Corefile:1: .:53",
		},
		{
			"CoreDNS: hosts without fallthrough",
			replace("    prometheus", "    hosts {\n       192.0.2.1 registry.example\n    }\n    prometheus"), "",
			[]string{"corefile-lost-names"}, "hosts",
		},
		{
			"CoreDNS: a template answers AAAA with NXDOMAIN",
			replace("    prometheus", "    template IN AAAA {\n       rcode NXDOMAIN\n    }\n    prometheus"), "",
			[]string{"corefile-lost-names"}, "template IN AAAA",
		},
		{
			"CoreDNS: the replica does not reach the API server", healthy, unreachable,
			[]string{"probe-wrong-answer"}, "A @10.244.2.2:53 over udp: SERVFAIL",
		},
	}
	// In a pod the server listens on the loopback addresses, too.
	const loopback = "127.0.0.53:53"
	good := d.replicas[1]
	for _, tt := range tests {
		objects := withCorefile(base, tt.corefile)
		d.replace(t, []string{coreDNSConfig}, base, objects)
		good.Kill()
		kubeconfig := tt.kubeconfig
		if kubeconfig == "" {
			kubeconfig = d.kubeconfig
		}
		d.replicas[1] = d.newCoreDNS(t, tt.corefile, kubeconfig, dnsReplica2, loopback)
		if err := d.replicas[1].Start(); err != nil {
			t.Fatal(err)
		}
		r, exit := d.waitFindings(t, tt.finds)
		d.checkResult(t, r, exit, dnsfaults.Fault{Name: tt.name, Evidence: tt.evidence}, tt.finds)
		d.replicas[1].Kill()
		d.replace(t, []string{coreDNSConfig}, objects, base)
		if err := good.Start(); err != nil {
			t.Fatal(err)
		}
		d.replicas[1] = good
		d.waitFindings(t, nil)
	}
	finds := []string{"probe-aaaa-nxdomain"}
	r, exit := d.waitFindings(t, finds, "--external-name", brokenName)
	d.checkResult(t, r, exit, dnsfaults.Fault{
		Name: "CoreDNS: the servers outside the cluster answer AAAA with NXDOMAIN", Evidence: brokenName + ". AAAA @10.96.0.10:53",
	}, finds)
}

// waitFindings runs the command with flags until it finds these codes, and nothing else, and
// returns its last result.
func (d *doctorTest) waitFindings(t *testing.T, want []string, flags ...string) (last v1alpha1.DoctorResult, exit int) {
	t.Helper()
	for deadline := time.Now().Add(coreDNSTime); time.Now().Before(deadline); {
		last, exit = d.doctor(t, flags...)
		if hasFindings(last, want) && len(last.NotChecked) == 0 {
			return last, exit
		}
	}
	t.Errorf("want %q: %+v, not checked %+v\n%s\n%s", want, last.Findings, last.NotChecked, d.replicas[0].Log(), d.replicas[1].Log())
	return last, exit
}

func corefileOf(objects dnsfaults.Objects) string {
	return fmt.Sprint(objects[coreDNSConfig]["data"].(map[string]any)["Corefile"])
}

// withCorefile returns the objects with another Corefile.
func withCorefile(objects dnsfaults.Objects, corefile string) dnsfaults.Objects {
	changed := maps.Clone(objects)
	config := maps.Clone(changed[coreDNSConfig])
	config["data"] = map[string]any{"Corefile": corefile}
	changed[coreDNSConfig] = config
	return changed
}

// newCoreDNS returns a CoreDNS with a Corefile as in a pod: in the one network namespace of the
// test, addresses separate what the network namespaces of pods separate, and a kubeconfig
// replaces the service account. Its resolv.conf names dnsUpstream.
func (d *doctorTest) newCoreDNS(t *testing.T, corefile, kubeconfig string, listen ...string) *process.Process {
	t.Helper()
	dir := t.TempDir()
	var addresses []string
	for _, l := range listen {
		host, _, err := net.SplitHostPort(l)
		if err != nil {
			t.Fatal(err)
		}
		addresses = append(addresses, host)
	}
	upstream, _, err := net.SplitHostPort(dnsUpstream)
	if err != nil {
		t.Fatal(err)
	}
	own := addresses[0]
	pod := strings.NewReplacer(
		".:53 {", ".:53 {\n    bind "+strings.Join(addresses, " "),
		"health {", "health "+own+":8080 {",
		"    ready\n", "    ready "+own+":8181\n",
		"prometheus :9153", "prometheus "+own+":9153",
		"pods insecure", "kubeconfig "+kubeconfig+"\n       pods insecure",
	)
	files := map[string]string{"Corefile": pod.Replace(corefile), "resolv.conf": "nameserver " + upstream + "\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &process.Process{Program: "unshare", LogFile: filepath.Join(dir, "log"), Args: []string{
		"--mount", "sh", "-c", `mount --bind "$0" /etc/resolv.conf && exec "$@"`, filepath.Join(dir, "resolv.conf"),
		apiserver.CoreDNS(t), "-conf", filepath.Join(dir, "Corefile"),
	}}
	t.Cleanup(p.Kill)
	return p
}

// writeUnreachable writes a kubeconfig with the address of an API server that does not exist.
func (d *doctorTest) writeUnreachable(t *testing.T, file string) {
	t.Helper()
	text, err := d.cluster.Kubeconfig("127.0.0.9:6443", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
