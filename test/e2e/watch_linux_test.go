// Copyright The dnsconfigurer Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/dnsconfigurer/dnsconfigurer/test/must"
)

// watchers are pods that look up names all the time, and write the results to their logs.
var watchers = []string{"watcher", "watcher-autopath"}

// startWatchers starts the watchers.
func (c *cluster) startWatchers(t *testing.T) {
	t.Helper()
	var pods []*corev1.Pod
	for _, name := range watchers {
		// The C libraries give up after five seconds, or ten, which a busy machine may take.
		timeout, attempts := "15", "4"
		pod := newPod(name, corev1.PodSpec{DNSConfig: &corev1.PodDNSConfig{Options: []corev1.PodDNSConfigOption{
			{Name: "timeout", Value: &timeout}, {Name: "attempts", Value: &attempts},
		}}})
		if strings.HasSuffix(name, "autopath") {
			pod.Spec.DNSPolicy = kepPolicy
		}
		pod.Spec.Containers[0].Command = []string{"/bin/busybox", "sh", "-c",
			"while :; do /bin/glibc-ask each 50 web db.default www.example.com; /bin/musl-ask each 50 web db.default www.example.com; done"}
		pods = append(pods, pod)
	}
	c.create(t, pods...)
}

// watched are the lookups of one container.
type watched struct {
	lines   int
	longest time.Duration
	failed  []string
}

// watched returns the lookups so far, by the paths of the logs.
func readWatched(t *testing.T) map[string]watched {
	t.Helper()
	results := map[string]watched{}
	for _, name := range watchers {
		paths, err := filepath.Glob("/var/log/pods/" + namespace + "_" + name + "_*/*/*.log")
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has the logs %q, %v", name, paths, err)
		}
		for _, path := range paths {
			text := must.Get(os.ReadFile(path))(t)
			var w watched
			for line := range strings.Lines(string(text)) {
				w.lines++
				w.longest = max(w.longest, lookupTime(line))
				if strings.Contains(line, " error ") {
					w.failed = append(w.failed, line)
				}
			}
			results[path] = w
		}
	}
	return results
}

// lookupTime returns the duration in a line of a log: containerd's time, stream and tag, and then
// the name, the microseconds and the result. 0: the line has none.
func lookupTime(line string) time.Duration {
	words := strings.Fields(line)
	if len(words) < 5 {
		return 0
	}
	n, _ := strconv.Atoi(words[4]) // 0 in the message of an error
	return time.Duration(n) * time.Microsecond
}

// during calls f while the watchers look up names. It checks that no lookup fails from
// before f is called until some time after it has returned.
func (c *cluster) during(t *testing.T, f func()) {
	t.Helper()
	before := readWatched(t)
	f()
	after := readWatched(t)
	await(t, "more lookups", func() error {
		for path, now := range readWatched(t) {
			if now.lines < after[path].lines+10 {
				return fmt.Errorf("%s has %d lines", path, now.lines)
			}
		}
		return nil
	})
	for path, now := range readWatched(t) {
		t.Logf("%s: %d lookups, %d failed; the longest since its start took %v",
			path, now.lines-before[path].lines, len(now.failed)-len(before[path].failed), now.longest)
		for _, line := range now.failed[len(before[path].failed):] {
			t.Errorf("failed lookup: %s", line)
		}
	}
}
