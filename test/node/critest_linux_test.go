// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dnsconfigurer/dnsconfigurer/internal/excerpt"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
	"github.com/dnsconfigurer/dnsconfigurer/test/nodetools"
	"github.com/dnsconfigurer/dnsconfigurer/test/process"
)

// critestSkip selects the specs of critest that are not run. They need an image of a registry, or
// programs and files that the image of the test does not have. Whether containerd reports an OOM
// before the exit is a race.
var critestSkip = strings.Join([]string{
	`\[k8s.io\] (Image|Multiple|SELinux|AppArmor)`, `portforward`, `port mapping`, `HostPID`, `PodPID`, `ContainerPID`, `NoNewPrivs`,
	`HostIpc`, `RunAsUserName`, `Privileged is true`, `(adding|dropping) capability`, `MaskedPaths`, `ReadonlyPaths`, `localhost profile`,
	`OOMKilled`, `SupplementalGroupsPolicy`,
}, "|")

// TestCritest runs critest, the conformance test of container runtimes, at containerd alone, through a
// shim, and with agent and relay: each spec has the same result. $CRITEST is the program.
func TestCritest(t *testing.T) {
	program := os.Getenv("CRITEST")
	if program == "" {
		t.Skip("no critest: run make test-critest")
	}
	t.Run("containerd 1.6", func(t *testing.T) { testCritest(t, newMachine(t, ""), program) })
	t.Run("containerd 2", func(t *testing.T) {
		m := newMachine(t, nodetools.BuildContainerd(t))
		direct := testCritest(t, m, program)
		n := newNRI(t, m, process.Build(t), m.kubelet(t, m.endpoint()))
		m.write(t, "agent.yaml", strings.ReplaceAll(agentConfiguration, "DIR", m.dir))
		n.startAgent(t)
		n.startRelay(t)
		compareResults(t, direct, m.runCritest(t, program, m.endpoint(), "agent"))
	})
}

func compareResults(t *testing.T, direct, other map[string]string) {
	t.Helper()
	if diff := cmp.Diff(direct, other); diff != "" {
		t.Errorf("results (-direct +other):\n%s", diff)
	}
}

// testCritest runs critest directly and through a shim, and returns the results without.
func testCritest(t *testing.T, m *machine, program string) (direct map[string]string) {
	t.Helper()
	image := exec.Command("ctr", "--address", m.endpoint(), "--namespace", "k8s.io", "images", "import",
		nodetools.BuildAppletsImage(t, m.dir))
	if out, err := image.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", image, err, out)
	}
	m.write(t, "images.yaml", fmt.Sprintf("defaultTestContainerImage: %s\nwebServerTestImage: %[1]s\n", nodetools.AppletsImage))
	direct = m.runCritest(t, program, m.endpoint(), "direct")
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
	compareResults(t, direct, m.runCritest(t, program, sockets[0], "shim"))
	passed := 0
	for _, state := range direct {
		if state == "passed" {
			passed++
		}
	}
	if passed < 50 {
		t.Errorf("%d specs have passed, want at least 50", passed)
	}
	return direct
}

// runCritest returns the states of the specs that were run, by name.
func (m *machine) runCritest(t *testing.T, program, socket, name string) map[string]string {
	t.Helper()
	report := filepath.Join(m.dir, name+".json")
	m.run(t, fmt.Sprintf(`%s -runtime-endpoint unix://%s -test-images-file "$DIR/images.yaml" -ginkgo.skip '%s' `+
		`-ginkgo.no-color -ginkgo.json-report %s >"$DIR/%s.log" 2>&1; echo done`, program, socket, critestSkip, report, name))
	text, err := os.ReadFile(report)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(m.dir, name+".log"))
		t.Fatalf("%v\n%s", err, log)
	}
	var suites []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeText, State     string
			Failure                 struct{ Message string }
		}
	}
	must.Succeed(t, json.Unmarshal(text, &suites))
	states, counts := map[string]string{}, map[string]int{}
	for _, suite := range suites {
		for _, r := range suite.SpecReports {
			if r.LeafNodeText == "" { // what runs before and after all specs
				continue
			}
			counts[r.State]++
			if r.State == "skipped" || r.State == "pending" {
				continue
			}
			spec := fmt.Sprint(r.ContainerHierarchyTexts, " ", r.LeafNodeText)
			states[spec] = r.State
			if r.State != "passed" {
				t.Log(name, r.State, spec, excerpt.Text(r.Failure.Message, excerpt.MaxMessage))
			}
		}
	}
	t.Logf("%s: %v", name, counts)
	return states
}
