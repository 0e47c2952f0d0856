// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/cases"
	"github.com/dnsconfigurer/dnsconfigurer/test/cluster/reference"
	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

const (
	seeds        = 4
	casesPerSeed = 20000
	maxFailures  = 10 // printed for each seed
)

// TestDifferential compares the kubelet and pkg/policy for generated cases.
func TestDifferential(t *testing.T) {
	total := newTally()
	t.Run("generated", func(t *testing.T) {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				list := slices.Collect(cases.Generate(seed, casesPerSeed))
				compare(t, list, total)
			})
		}
	})
	total.check(t)
}

// TestCorpus compares a live kubelet and pkg/policy for the 300 recorded cases. The live
// kubelet must still give the recorded answers.
func TestCorpus(t *testing.T) {
	list := readCorpus(t)
	answers := ask(t, list)
	for i, c := range list {
		ignored := cmpopts.IgnoreFields(cases.Answer{}, "ContainerError") // not recorded
		noUID := cmpopts.IgnoreFields(cases.Event{}, "UID")
		if diff := cmp.Diff(*c.Expected, answers[i], cmpopts.EquateEmpty(), ignored, noUID); diff != "" {
			t.Errorf("%s: the kubelet has changed its answer (-recorded +live):\n%s", c.ID, diff)
		}
	}
	compare(t, list, newTally())
	if !slices.ContainsFunc(list, func(c cases.Case) bool { return cases.Refused(&c) }) {
		t.Error("no manifest that the kubelet refuses")
	}
}

// compare compares the answers of the engine with the kubelet's, and counts the clauses
// and divergences of list.
func compare(t *testing.T, list []cases.Case, met *tally) {
	kubelet, want, names := askTwins(t, list)
	failures := 0
	for i, c := range list {
		met.count(&c, &kubelet[i])
		if len(names[i]) > 0 {
			met.diverge(names[i], len(cases.Diff(c, kubelet[i])) > 0)
		}
		if err := checkReferences(&c, &kubelet[i]); err != nil {
			t.Errorf("%v\n%s", err, c.String())
		}
		diffs := check(c, kubelet[i], want[i])
		if len(diffs) == 0 {
			continue
		}
		if failures++; failures <= maxFailures {
			t.Errorf("%s\n\t%s", c.String(), strings.Join(diffs, "\n\t"))
		}
	}
	if failures > maxFailures {
		t.Errorf("%d of %d cases differ", failures, len(list))
	}
}

// check compares the engine's answer to c with want; kubelet is the kubelet's answer to c
// itself.
func check(c cases.Case, kubelet, want cases.Answer) []string {
	refused := kubelet.ErrorStage == cases.DecodeStage
	if cases.Refused(&c) != refused {
		return []string{fmt.Sprintf("refused: kubelet %t (%s)", refused, kubelet.Error)}
	}
	if refused {
		return nil
	}
	return append(cases.Diff(c, want), cases.DiffKubelet(c, kubelet)...)
}

// checkReferences checks rule L5: a DNS event on the node has no UID, by which kubectl
// describe searches; one on a pod has.
func checkReferences(c *cases.Case, a *cases.Answer) error {
	for _, e := range slices.Concat(a.Events, a.NodeEvents) {
		switch kind, _, _ := strings.Cut(e.Object, " "); {
		case e.Type != "Warning":
			return fmt.Errorf("event %+v is not a warning", e)
		case kind == "Node" && (e.UID != "" || e.Object != "Node "+c.Node()):
			return fmt.Errorf("event %+v is not on the bare reference of the node", e)
		case kind == "Pod" && !c.Manifest && e.UID != string(c.Pod.UID):
			return fmt.Errorf("event %+v is not on the pod", e)
		}
	}
	return nil
}

// ask returns the answers of a real kubelet.
func ask(t *testing.T, list []cases.Case) []cases.Answer {
	t.Helper()
	return must.Get(reference.Answers(t.Context(), memoryDir(t), list))(t)
}

// askTwins returns the real kubelet's answers to list, the answers that the engine must
// give, and the names of the divergences between the two.
func askTwins(t *testing.T, list []cases.Case) (kubelet, want []cases.Answer, names [][]string) {
	t.Helper()
	names = make([][]string, len(list))
	var twins []cases.Case
	for i, c := range list {
		var twin cases.Case
		if names[i], twin = cases.Diverge(c); len(names[i]) > 0 {
			twins = append(twins, twin)
		}
	}
	kubelet = ask(t, list)
	want = slices.Clone(kubelet)
	answers := ask(t, twins)
	for i := range list {
		if len(names[i]) > 0 {
			answers[0].NodeEvents = kubelet[i].NodeEvents
			want[i], answers = answers[0], answers[1:]
		}
	}
	return kubelet, want, names
}

// memoryDir returns a directory in memory if there is one: a kubelet reads the host file
// again for each pod.
func memoryDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "kubelet")
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func readCorpus(t *testing.T) []cases.Case {
	t.Helper()
	data := must.Get(os.ReadFile("testdata/kubelet-300.ndjson"))(t)
	var list []cases.Case
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data))
	for lines.Scan() {
		var c cases.Case
		must.Succeed(t, json.Unmarshal(lines.Bytes(), &c))
		list = append(list, c)
	}
	return list
}
