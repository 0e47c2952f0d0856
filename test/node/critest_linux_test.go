// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
)

// critestSpecs selects the specs of critest that need no image of a registry.
const (
	critestSpecs = `\[k8s.io\] (PodSandbox|Container) |runtime should support (DNS config|set hostname)`
	critestSkip  = `Streaming|Multiple|portmap`
)

// TestCritest runs critest, the conformance test of container runtimes, at containerd and through a
// shim: each spec has the same result. $CRITEST is the program.
func TestCritest(t *testing.T) {
	program := os.Getenv("CRITEST")
	if program == "" {
		t.Skip("no critest: run make test-critest")
	}
	m := newMachine(t, "")
	image := exec.Command("ctr", "--address", m.endpoint(), "--namespace", "k8s.io", "images", "import",
		nodetools.BuildAppletsImage(t, m.dir))
	if out, err := image.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", image, err, out)
	}
	m.write(t, "images.yaml", fmt.Sprintf("defaultTestContainerImage: %s\nwebServerTestImage: %[1]s\n", nodetools.AppletsImage))
	direct := m.runCritest(t, program, m.endpoint(), "direct")
	s := m.startShim(t, m.hook(t))
	go func() {
		for {
			select {
			case <-s.reports:
			case <-t.Context().Done():
				return
			}
		}
	}()
	sockets, err := filepath.Glob(filepath.Join(m.dir, "shim*", "shim.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the sockets of the shim: %q, %v", sockets, err)
	}
	through := m.runCritest(t, program, sockets[0], "shim")
	if diff := cmp.Diff(direct, through); diff != "" {
		t.Errorf("results (-direct +shim):\n%s", diff)
	}
	passed := 0
	for spec, state := range direct {
		if state == "passed" {
			passed++
		}
		t.Log(state, spec)
	}
	if passed < 20 {
		t.Errorf("%d specs have passed, want at least 20", passed)
	}
}

// runCritest returns the states of the specs that were run, by name.
func (m *machine) runCritest(t *testing.T, program, socket, name string) map[string]string {
	t.Helper()
	report := filepath.Join(m.dir, name+".json")
	m.run(t, fmt.Sprintf(`%s -runtime-endpoint unix://%s -test-images-file "$DIR/images.yaml" -ginkgo.focus '%s' -ginkgo.skip '%s' `+
		`-ginkgo.no-color -ginkgo.json-report %s >"$DIR/%s.log" 2>&1; echo done`, program, socket, critestSpecs, critestSkip, report, name))
	text, err := os.ReadFile(report)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(m.dir, name+".log"))
		t.Fatalf("%v\n%s", err, log)
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeText, State     string
		}
	}
	if err := json.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	states := map[string]string{}
	for _, suite := range suites {
		for _, r := range suite.SpecReports {
			if r.State != "skipped" && r.State != "pending" && r.LeafNodeText != "" {
				states[fmt.Sprint(r.ContainerHierarchyTexts, " ", r.LeafNodeText)] = r.State
			}
		}
	}
	return states
}
