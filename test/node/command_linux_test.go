// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/api/v1alpha1"
	"github.com/dnsconfigurer/dnsconfigurer/pkg/resolvconf"
)

// command is the installed dnsconfigurer, with one configuration file for all its
// commands.
type command struct {
	*machine
	program string
	pid     string // of the shim, inside; "": not running
	http    http.Client
}

const shimAddress = "127.0.0.1:9199"

const shimHead = "apiVersion: dnsconfigurer.dev/v1alpha1\nkind: ShimConfiguration\n"

const shimConfiguration = shimHead + `listen: unix://DIR/shim.sock
runtimeEndpoint: unix://DIR/containerd.sock
manifests: DIR/manifests
lookupTimeout: 30s
http: ` + shimAddress + `
node:
  kubeletConfig: kubelet.yaml
  nodeName: ` + nodeName + `
  allowedOverrides: [Default, None]
autopath:
  nodeCache: 169.254.20.10
`

func newCommand(t *testing.T, m *machine, program string) *command {
	t.Helper()
	c := &command{machine: m, program: program}
	c.http.Timeout = time.Minute
	c.http.Transport = &http.Transport{DialContext: m.dial}
	t.Cleanup(c.http.CloseIdleConnections)
	c.configure(t, c.configFile(), kubeletFacts)
	c.configure(t, c.renderFile(), kubeletFacts)
	return c
}

// kubeletFacts are the node facts of the configuration file.
const kubeletFacts = "kubeletConfig: kubelet.yaml"

// configure writes a configuration file with these fields of node.
func (c *command) configure(t *testing.T, file, facts string) {
	t.Helper()
	text := strings.NewReplacer("DIR", c.dir, kubeletFacts, facts).Replace(shimConfiguration)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (c *command) configFile() string { return filepath.Join(c.dir, "shim.yaml") }
func (c *command) renderFile() string { return filepath.Join(c.dir, "render.yaml") } // has the kubelet's facts
func (c *command) socket() string     { return filepath.Join(c.dir, "shim.sock") }

// start starts the shim and returns when it is alive.
func (c *command) start(t *testing.T) {
	t.Helper()
	c.pid = c.spawn(t, c.program+` shim --config "$DIR/shim.yaml"`, "shim.log")
	if err := poll(func() error { _, err := get(&c.http, "http://"+shimAddress+"/livez"); return err }); err != nil {
		t.Fatalf("the shim does not start: %v", err)
	}
}

// stop sends a signal to the shim and returns its exit code.
func (c *command) stop(t *testing.T, signal string) string {
	t.Helper()
	code := c.end(t, c.pid, signal)
	c.pid = ""
	return code
}

// ready returns nil when the shim has forwarded a call.
func (c *command) ready() error {
	_, err := get(&c.http, "http://"+shimAddress+"/readyz")
	return err
}

// decisions returns the sandbox requests since the start of the shim by outcome, without
// the zeros.
func (c *command) decisions(t *testing.T) map[string]int {
	t.Helper()
	body, err := get(&c.http, "http://"+shimAddress+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	decisions := map[string]int{}
	for line := range strings.Lines(string(body)) {
		if series, found := strings.CutPrefix(line, `dnsconfigurer_sandbox_decisions_total{outcome="`); found {
			outcome, text, _ := strings.Cut(strings.TrimSpace(series), `"} `)
			count, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			if count > 0 {
				decisions[outcome] = count
			}
		}
	}
	return decisions
}

// lineAbout returns the line of the shim's log about the sandbox of a pod.
func (c *command) lineAbout(t *testing.T, pod string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, "shim.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, " pod="+namespace+"/"+pod+" ") {
			return line
		}
	}
	return ""
}

// render returns the result of the command render for a static pod.
func (c *command) render(t *testing.T, pod *corev1.Pod) (dns resolvconf.Config, hostname string) {
	t.Helper()
	var problems bytes.Buffer
	render := exec.Command(c.program, "render", "--config", c.renderFile(), "-o", "json", "-f", "-")
	render.Stdin, render.Stderr = bytes.NewReader(manifestText(t, pod)), &problems
	out, err := render.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", render, err, &problems)
	}
	var r v1alpha1.RenderResult
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	if r.Hostname == "" {
		r.Hostname = nodeName
	}
	return resolvconf.Config{Nameservers: r.Nameservers, Searches: r.Searches, Options: r.Options}, r.Hostname
}
